"""The appliance is lost: a new one, the repository and the paper bring everything back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.json_output import objects_of
from kit.made_appliance import MadeAppliance
from strongroom_appliance.paper import paper_lines


def start(appliance: MadeAppliance, data: Path) -> None:
    appliance.start()
    # The FileSet of the answers is the whole machine: too much for a test.
    groups = appliance.folder / "etc/director.d/jobdefs/groups.conf"
    groups.write_text(groups.read_text().replace("File = /\n", f'File = "{data}"\n'))
    appliance.command("reload")


@pytest.fixture
def paper(folder: Path) -> Iterator[str]:
    """Two machines were backed up, and one is gone with the appliance; the paper stays."""
    data = folder / "data"
    data.mkdir()
    (data / "letter").write_text("Dear all\n")
    (folder / "old").mkdir()
    with MadeAppliance(folder / "old") as old:
        start(old, data)
        for name in ("web1", "web2"):
            old.join(name, old.token(name, "--group", "servers"))
            old.start_agent(name)
        assert old.told("run", "web2", "--watch")["state"] == "done"
        for text in ("Dear all, and more\n", "Dear all, and the rest\n"):
            (data / "letter").write_text(text)
            assert old.told("run", "web1", "--watch")["state"] == "done"
        passphrase = (old.folder / "state/director/passphrase").read_text().strip()
    shutil.move(old.folder / "repository", folder / "disk")
    for path in set(old.folder.iterdir()) - {old.folder / "web2"}:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(data)
    return "\n".join(paper_lines(passphrase))


def typed(paper: str) -> str:
    """The passphrase as somebody types it who has the paper: the groups, without blanks."""
    lines = [line for line in paper.splitlines() if line.startswith("  ")]
    return "".join("".join(line.split()) for line in lines if line.isascii())


def test_a_new_appliance_with_the_passphrase_on_paper_restores_and_continues(
    folder: Path, paper: str
) -> None:
    """The steps of docs/guides/appliance.md."""
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
        # The machine that is left still belongs to the old appliance.
        (new.folder / "web2").symlink_to(folder / "old/web2")
        token = new.token("web2", "--group", "servers")
        new.command(*new.join_words("web2"), given=token, exit_code=61)
        new.command("agent", "leave", "--config", f"{folder}/old/web2/etc")
        for name in ("web1", "web2"):
            new.join(name, new.token(name, "--group", "servers"))
            new.start_agent(name)
        new.command("restore", "latest:", "--host", "web1", "--client", "web1", "--in-place")
        assert (data / "letter").read_text() == "Dear all, and the rest\n"
        (data / "letter").write_text("Dear all, again\n")
        for name, before in (("web1", 2), ("web2", 1)):
            assert new.told("run", name, "--watch")["state"] == "done"
            told = new.command("snapshots", "--host", name, *place(new), "--json").stdout
            listed = [one["type"] for one in objects_of(told)]
            # `--host` means the client: the machine that joined again is the one of before.
            assert listed.count("snapshot") == before + 1
        new.command("check", *place(new))


def place(appliance: MadeAppliance) -> tuple[str, ...]:
    passphrase = appliance.folder / "state/director/passphrase"
    return ("--repo", f"unix:{appliance.folder}/storage.sock", "--password-file", str(passphrase))
