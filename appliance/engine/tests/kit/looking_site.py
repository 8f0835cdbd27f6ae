"""A repository with two snapshots of a small tree, for commands that look into repositories."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.command import Command


@dataclass
class Site:
    """`before` and `after` are snapshots of `tree`, of host web1 with tags; `other` of mail."""

    command: Command
    tree: Path
    before: str
    after: str
    other: str


def new_site(folder: Path) -> Site:
    command = Command(folder)
    command.make_repository()
    tree = folder / "tree"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc" / "fstab").write_text("/dev/sda1 /\n")
    (tree / "etc" / "passwd").write_text("root:x:0:0\n")
    (tree / "etc" / "passwd").chmod(0o600)
    (tree / "etc" / "motd").symlink_to("../run/motd")
    (tree / "home" / "ann").mkdir(parents=True)
    (tree / "home" / "ann" / "notes.txt").write_text("first\n")
    (tree / "home" / "ann" / "Photo.JPG").write_bytes(bytes(300_000))
    (tree / "home" / "ann" / "big").write_bytes(b"0123456789abcdef" * (1 << 17))
    os.mkfifo(tree / "home" / "ann" / "pipe")
    with open(os.fsencode(tree) + b"/caf\xe9", "wb") as file:
        file.write(b"latin")
    os.utime(tree / "etc" / "fstab", ns=(1_000_000_000_000_000_001, 1_000_000_000_000_000_001))
    before = command.back_up(str(tree), "--host", "web1", "--tag", "daily,first")
    (tree / "home" / "ann" / "notes.txt").write_text("second, longer\n")
    (tree / "home" / "ann" / "new").write_text("new\n")
    (tree / "etc" / "passwd").chmod(0o640)
    (tree / "etc" / "fstab").unlink()
    (tree / "etc" / "motd").unlink()
    (tree / "etc" / "motd").mkdir()
    after = command.back_up(str(tree), "--host", "web1", "--tag", "daily", "--job", "nightly")
    other = command.back_up(str(tree / "etc"), "--host", "mail")
    return Site(command, tree, before, after, other)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Made once for each module."""
    return new_site(tmp_path_factory.mktemp("site"))
