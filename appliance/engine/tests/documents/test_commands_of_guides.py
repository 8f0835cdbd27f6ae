"""The commands of the guides are run as they are written, in a root folder of their own.

`systemd_host` follows the guides whose commands need hosts with systemd.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from documents.test_commands_in_documents import PROJECT, pages
from kit.command import PASSPHRASE, Command
from kit.json_output import objects_of
from strongroom.base.errors import UsageError
from strongroom.cli.main import command_parser

_REST_OF_LINE = re.compile(r"\s+(?:#|[|>]\s).*")
# What needs more than a repository -> where it is run.
_ELSEWHERE = {
    r"ssh://": "tests/cli/test_places.py",
    r"s?ftp:": "tests/engine/stores/test_sftp.py",
    r"s3:": "tests/engine/stores",
    r"--client|browse|^run |^agent |^client |^ca |^setup ": "tests/systemd_host/follow_fleet.py",
    r"^snapshots --host|^find .*--host|^diff .*--host": "tests/cli/client/test_inspect.py",
    r"^schedule |^notify ": "tests/systemd_host/single_machine.sh",
    r"^mount ": "tests/engine/mount",
    r"^vouch ": "tests/storage",
    r"pg_dump": "tests/engine/sources",
    r"--false": "tests/engine/check",
    r"--new-root|/mnt/new-root": "tests/attacks/test_rescued_privileges.py",
    r"^storage |^serve ": "tests/storage",
}
_GUIDES = (
    "README.md",
    "docs/index.md",
    *(
        f"docs/guides/{name}.md"
        for name in (
            "single-machine",
            "repositories",
            "restore",
            "maintenance",
            "coming-from-restic-or-borg",
        )
    ),
)


@pytest.mark.parametrize("place", sorted(set(_ELSEWHERE.values())))
def test_what_is_run_elsewhere_has_a_place_there(place: str) -> None:
    assert (Path(__file__).parents[2] / place).exists()


def commands(page: Path) -> Iterator[str]:
    """The command lines of a page's blocks, without our name, comments and other programs."""
    text = re.sub(r"\\\n\s*", " ", page.read_text("utf-8"))
    for found in re.finditer(r"^    (?:\$ )?strongroom (.+)$", text, re.MULTILINE):
        yield _REST_OF_LINE.sub("", found[1])


def guides() -> list[Path]:
    return [page for page in pages() if page.parent.name in ("guides", "daemons", "docs")]


@pytest.mark.parametrize("page", guides(), ids=lambda page: page.name)
def test_each_command_line_of_a_guide_is_understood(page):
    for line in commands(page):
        name, *words = shlex.split(line)
        try:
            command_parser(name).parse_args(words)
        except UsageError as error:
            pytest.fail(f"strongroom {line}: {error}")


@pytest.fixture
def root(tmp_path):
    """A folder with what the guides name, as if it were the root of a machine."""
    top = tmp_path / "root"
    for name in (
        *("etc/fstab", "etc/hosts", "etc/nginx/nginx.conf", "home/ann/secret.txt", "srv/db.sql"),
        *("usr/share/doc/bash/copyright", "mnt/old-state/file", "var/cache/file"),
    ):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(f"{name}\n" * 40)
    return top


@pytest.fixture
def command(tmp_path, root, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = Command(tmp_path)
    made.repository = root / "mnt/backup/repository"
    return made


def below(word: str, root: Path, snapshot: str) -> str:
    """A word of a command with the root put before its path, and an id that is there."""
    if re.fullmatch(r"ID|3f[0-9a-f]{6}", word):
        return snapshot
    return re.sub(r"^(latest:|)(?=/)", rf"\g<1>{root}", word)


@pytest.mark.parametrize("name", _GUIDES)
def test_the_commands_of_a_guide_do_what_it_says(command, root, name):
    if not any(one == "init" for one in commands(PROJECT / name)):
        command.run("init", STRONGROOM_PASSWORD=PASSPHRASE)
    ran = [run(command, root, line) for line in commands(PROJECT / name) if not elsewhere(line)]
    assert len(ran) >= 2


def elsewhere(line: str) -> bool:
    return any(re.search(pattern, line) for pattern in _ELSEWHERE)


def snapshots(command: Command) -> list[dict[str, Any]]:
    made = command.run("snapshots", "--json", STRONGROOM_PASSWORD=PASSPHRASE)
    return objects_of(made.stdout)


def run(command: Command, root: Path, line: str) -> None:
    """Run a line; where a snapshot is to be there, make one first."""
    known = {"STRONGROOM_PASSWORD": PASSPHRASE}
    snapshot = ""
    if not line.startswith(("init", "backup", "copy")) and "--repo" not in line:
        if not snapshots(command):
            command.run("backup", str(root), "--host", "web1", **known)
        snapshot = str(snapshots(command)[-1]["id"])
    command.run(*(below(word, root, snapshot) for word in shlex.split(line)), **known)
