"""Root starts our programs in the folder of a user: no module that lies there is imported."""

from __future__ import annotations

import ast
import os
import re
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import strongroom
from kit.daemon_process import wait_for
from kit.made_appliance import MadeAppliance
from kit.project import PROGRAM
from strongroom.cli.schedule import units

PROJECT = Path(__file__).resolve().parents[4]
SOURCES = (Path(strongroom.__file__).parent, PROGRAM / "src/strongroom_appliance")
# Modules that our programs import in any case, early or late.
BAIT = ("copy", "json", "asyncio", "multiprocessing", "msgspec", "strongroom", "sitecustomize")


def bait(folder: Path) -> Path:
    """A folder in which every module that is imported leaves a file; where it leaves it."""
    caught = folder / "caught"
    for name in BAIT:
        (folder / f"{name}.py").write_text(
            f"open({str(caught)!r}, 'a').write({name!r} + '\\n')\nraise SystemExit(99)\n"
        )
    return caught


def uses_of_the_interpreter() -> set[str]:
    found = set()
    for source in SOURCES:
        for path in source.rglob("*.py"):
            text = path.read_text()
            # Parsing all of it takes seconds.
            for node in ast.walk(ast.parse(text)) if "executable" in text else ():
                if isinstance(node, ast.Attribute) and node.attr == "executable":
                    found.add(str(path.relative_to(source)))
    return found


def test_one_place_starts_interpreters() -> None:
    """Where else the interpreter is named it is only shown, or its folder is needed."""
    named = {"base/parts.py", "cli/schedule/units.py"}
    assert uses_of_the_interpreter() == {"base/interpreter.py"} | named


def test_units_and_scripts_start_no_module_of_the_present_folder() -> None:
    """`-m` alone imports from there first, and so does a program from standard input, or `-c`."""
    places = ("appliance/systemd", "appliance/overlay", "appliance/packages", "roles", "molecule")
    wrong = []
    for place in places:
        for path in (PROJECT / place).rglob("*"):
            if not path.is_file() or path.suffix == ".pyc" or "tests" in path.parts:
                continue
            text = path.read_text(errors="replace")
            bare = re.findall(r".*/opt/strongroom/bin/python[0-9.]* (?!-[IP]).*", text)
            wrong += [f"{path.relative_to(PROJECT)}: {line.strip()}" for line in bare]
    # What builds the packages runs in its own folder.
    assert [one for one in wrong if not one.startswith("appliance/packages/debian/rules")] == []


def test_the_unit_of_an_installation_without_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert " -P -m strongroom" in units._program()  # noqa: SLF001 - no host lacks the script


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> MadeAppliance:
    with MadeAppliance(tmp_path_factory.mktemp("appliance")) as made:
        made.setup()
    return made


def listens(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port)).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("daemon", ["director", "storage"])
def test_a_daemon_and_its_jobs_import_nothing_from_a_users_folder(
    appliance: MadeAppliance, tmp_path: Path, daemon: str
) -> None:
    caught = bait(tmp_path)
    script = Path(sys.executable).with_name("strongroom")
    etc = os.path.relpath(appliance.folder / "etc", tmp_path)
    others = [one for one in (appliance.storage, appliance.director) if one.kind != daemon]
    for other in others:
        other.start()
    words = [script, daemon, "--foreground", "--config", etc]
    with subprocess.Popen(words, cwd=tmp_path, env=appliance.environment) as process:
        try:
            for port in (appliance.storage_port, appliance.director_port):
                wait_for(partial(listens, port))
            assert os.readlink(f"/proc/{process.pid}/cwd") == "/"
            # Its own jobs are processes; walking listings is one of multiprocessing.
            assert appliance.told("run", "housekeeping", "--watch")["state"] == "done"
        finally:
            process.terminate()
            process.wait()
            for other in others:
                other.stop()
    assert not caught.exists(), caught.read_text()
