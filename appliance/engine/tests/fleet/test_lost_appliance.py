"""The appliance is lost: a new one, the repository and the paper bring everything back."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kit.made_appliance import MadeAppliance
from strongroom.appliance.paper import paper_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def start(appliance: MadeAppliance, data: Path) -> None:
    appliance.start()
    # The FileSet of the answers is the whole machine: too much for a test.
    groups = appliance.folder / "etc/director.d/jobdefs/groups.conf"
    groups.write_text(groups.read_text().replace("File = /\n", f'File = "{data}"\n'))
    appliance.command("reload")


@pytest.fixture
def paper(folder: Path) -> Iterator[str]:
    """A machine was backed up twice, and is gone with its appliance; the paper stays."""
    data = folder / "data"
    data.mkdir()
    (data / "letter").write_text("Dear all\n")
    (folder / "old").mkdir()
    with MadeAppliance(folder / "old") as old:
        start(old, data)
        old.join("web1", old.token("web1", "--group", "servers"))
        old.start_agent("web1")
        for text in ("Dear all, and more\n", "Dear all, and the rest\n"):
            (data / "letter").write_text(text)
            assert old.told("run", "web1", "--watch")["state"] == "done"
        passphrase = (old.folder / "state/director/passphrase").read_text().strip()
    shutil.move(old.folder / "repository", folder / "disk")
    shutil.rmtree(old.folder)
    shutil.rmtree(data)
    return "\n".join(paper_lines(passphrase))


def typed(paper: str) -> str:
    """The passphrase as somebody types it who has the paper: the groups, without blanks."""
    lines = [line for line in paper.splitlines() if line.startswith("  ")]
    return "".join("".join(line.split()) for line in lines if line.isascii())


def test_a_new_appliance_with_the_passphrase_on_paper_restores_and_goes_on(
    folder: Path, paper: str
) -> None:
    """The steps of docs/guides/image.md."""
    data = folder / "data"
    (folder / "new").mkdir()
    with MadeAppliance(folder / "new") as new:
        shutil.move(folder / "disk", new.folder / "repository")
        (new.folder / "state/director").mkdir(parents=True, mode=0o750)
        (new.folder / "state/director/passphrase").write_text(f"{typed(paper)}\n")
        (new.folder / "state/director/passphrase").chmod(0o400)
        start(new, data)
        told = new.told("catalog", "rebuild", "--config", str(new.folder / "etc"))
        assert told
        new.join("web1", new.token("web1", "--group", "servers"))
        new.start_agent("web1")
        new.command("restore", "latest:", "--host", "web1", "--client", "web1", "--in-place")
        assert (data / "letter").read_text() == "Dear all, and the rest\n"
        (data / "letter").write_text("Dear all, again\n")
        assert new.told("run", "web1", "--watch")["state"] == "done"
        listed = new.command("snapshots", *place(new)).stdout
        assert listed.count("web1") >= 3
        new.command("check", *place(new))


def place(appliance: MadeAppliance) -> tuple[str, ...]:
    passphrase = appliance.folder / "state/director/passphrase"
    return ("--repo", f"unix:{appliance.folder}/storage.sock", "--password-file", str(passphrase))
