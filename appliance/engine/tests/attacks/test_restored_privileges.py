"""What would make somebody powerful on another machine does not come with a restore unasked."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from kit.command import Command
from strongroom.engine.restore.metadata import change_flags
from strongroom.engine.scan.attributes import read_flags

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making devices and capabilities")

# CAP_NET_RAW+ep, in the kernel's revision 2 of the attribute.
CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")


@pytest.fixture
def site(public_folder: Path) -> Command:
    made = Command(public_folder)
    made.make_repository()
    return made


@pytest.fixture
def tree(public_folder: Path) -> Path:
    tree = public_folder / "tree"
    tree.mkdir()
    (tree / "rootsh").write_bytes(b"#!/bin/sh\n")
    (tree / "rootsh").chmod(0o6755)
    os.link(tree / "rootsh", tree / "rootsh-again")
    (tree / "ping").write_bytes(b"ping")
    os.setxattr(tree / "ping", "security.capability", CAPABILITY)
    (tree / "opaque").mkdir(mode=0o755)
    os.setxattr(tree / "opaque", "trusted.overlay.opaque", b"y")
    os.setxattr(tree / "opaque", "user.note", b"kept")
    os.mknod(tree / "disk", stat.S_IFBLK | 0o666, os.makedev(8, 0))
    os.link(tree / "disk", tree / "disk-again")
    os.mknod(tree / "mem", stat.S_IFCHR | 0o666, os.makedev(1, 1))
    os.mkfifo(tree / "fifo", 0o640)
    for name, mode in (("group", 0o2777), ("sticky", 0o1777)):
        (tree / name).mkdir()
        (tree / name).chmod(mode)
    (tree / "group" / "below").mkdir()
    (tree / "group" / "below").chmod(0o6755)
    (tree / "group" / "below" / "plain").write_bytes(b"plain")
    return tree


EVERYTHING = {
    "set-id": {"rootsh", "rootsh-again", "group", "group/below"},
    "capability": {"ping"},
    "trusted": {"opaque"},
    "device": {"disk", "disk-again", "mem"},
}


def state(folder: Path) -> dict[str, list[Any]]:
    """Type and mode, extended attributes, device of all that is below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
        found[str(path.relative_to(folder))] = [oct(status.st_mode), attributes, status.st_rdev]
    return found


def powers(folder: Path) -> set[str]:
    """The names below a folder that hold a privilege."""
    found = set()
    for name, (mode, attributes, _) in state(folder).items():
        mode_bits = int(mode, 8)
        is_special = mode_bits & 0o6000 or stat.S_IFMT(mode_bits) in (stat.S_IFCHR, stat.S_IFBLK)
        if is_special or {"security.capability", "trusted.overlay.opaque"} & set(attributes):
            found.add(name)
    return found


def told(objects: list[dict[str, Any]], tree: str) -> dict[str, set[str]]:
    """The names that a restore reports as left out, by kind."""
    found: dict[str, set[str]] = {}
    for one in objects:
        if one["type"] == "left_out":
            found.setdefault(one["kind"], set()).add(one["path"].removeprefix(tree).lstrip("/"))
    return found


def test_below_a_target_nothing_comes_back_that_makes_powerful(site, tree, public_folder):
    site.back_up(str(tree))
    target = public_folder / "out"
    objects = site.objects("restore", f"latest:{tree}", "--target", str(target), "--verify")
    assert powers(target) == set()
    left = EVERYTHING["device"]
    assert set(state(target)) == set(state(tree)) - left
    assert (target / "rootsh").read_bytes() == b"#!/bin/sh\n"
    assert (target / "rootsh").stat().st_ino == (target / "rootsh-again").stat().st_ino
    assert stat.S_IMODE((target / "rootsh").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "sticky").stat().st_mode) == 0o1777
    assert stat.S_IMODE((target / "group").stat().st_mode) == 0o777
    assert stat.S_ISFIFO((target / "fifo").stat().st_mode)
    assert os.getxattr(target / "opaque", "user.note") == b"kept"

    assert told(objects, "") == EVERYTHING
    assert objects[-1]["left_out"] == {kind: len(names) for kind, names in EVERYTHING.items()}
    assert not objects[-1]["problems"]
    assert not objects[-1]["differences"]


def test_the_report_names_what_was_left_out_and_says_how_to_get_it(site, tree, public_folder):
    site.back_up(str(tree))
    ended = site.run(
        "restore", f"latest:{tree}", "--target", str(public_folder / "out"),
        key_file=site.restore_key,
    )  # fmt: skip
    for names in EVERYTHING.values():
        for name in names:
            assert f"/{name}: " in ended.stderr
    assert "--keep-privileges" in ended.stdout


def test_who_asks_for_it_gets_it_all(site, tree, public_folder):
    site.back_up(str(tree))
    target = public_folder / "out"
    objects = site.objects(
        "restore", f"latest:{tree}", "--target", str(target), "--keep-privileges", "--verify"
    )
    assert state(target) == state(tree)
    assert told(objects, "") == {}
    assert not objects[-1]["differences"]


def test_what_is_there_loses_its_privileges_when_it_is_restored_again(site, tree, public_folder):
    site.back_up(str(tree))
    target = public_folder / "out"
    site.objects("restore", f"latest:{tree}", "--target", str(target), "--keep-privileges")
    objects = site.objects(
        "restore", f"latest:{tree}", "--target", str(target), "--overwrite", "always", "--delete"
    )
    # A device is left alone: it was there, and it is not restored.
    assert powers(target) == EVERYTHING["device"]
    assert told(objects, "") == EVERYTHING


def test_only_what_is_chosen_counts_as_left_out(site, tree, public_folder):
    site.back_up(str(tree))
    target = public_folder / "out"
    objects = site.objects(
        "restore", f"latest:{tree}", "--target", str(target), "--include", "plain"
    )
    assert told(objects, "") == {"set-id": {"group", "group/below"}}
    assert powers(target) == set()
    assert set(state(target)) == {"group", "group/below", "group/below/plain"}


def test_a_dry_run_says_what_would_be_left_out(site, tree, public_folder):
    site.back_up(str(tree))
    objects = site.objects(
        "restore", f"latest:{tree}", "--target", str(public_folder / "out"), "--dry-run"
    )
    assert told(objects, "") == EVERYTHING
    assert not (public_folder / "out").exists()


def test_in_place_on_the_host_that_was_backed_up_all_comes_back(site, tree):
    site.back_up(str(tree))
    before = state(tree)
    for name in ("rootsh", "rootsh-again", "ping", "disk", "disk-again", "mem"):
        (tree / name).unlink()
    objects = site.objects("restore", f"latest:{tree}", "--in-place", "--verify")
    assert state(tree) == before
    assert told(objects, "") == {}


def test_in_place_of_another_host_is_no_restore_in_place(site, tree):
    assert socket.gethostname() != "rescued"
    site.back_up(str(tree), "--host", "rescued")
    for name in ("rootsh", "rootsh-again", "ping", "disk", "disk-again", "mem"):
        (tree / name).unlink()
    objects = site.objects("restore", f"latest:{tree}", "--in-place", "--host", "rescued")
    assert told(objects, str(tree)) == EVERYTHING
    assert not powers(tree)


@pytest.mark.parametrize("subpath", [True, False])
def test_the_target_keeps_its_mode_its_owner_and_all_else(site, tree, public_folder, subpath):
    os.setxattr(tree, "user.theirs", b"x")
    tree.chmod(0o755)
    site.back_up(str(tree))
    target = public_folder / "private"
    target.mkdir()
    os.chown(target, 1234, 4321)
    target.chmod(0o1700)
    os.setxattr(target, "user.mine", b"y")
    site("restore", f"latest:{tree}" if subpath else "latest", "--target", str(target))
    status = target.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) == (0o1700, 1234, 4321)
    assert os.listxattr(target) == ["user.mine"]
    assert os.listdir(target)


def test_a_target_that_the_restore_makes_is_as_closed_as_the_folder_was(site, tree, public_folder):
    tree.chmod(0o6700)
    site.back_up(str(tree))
    target = public_folder / "new"
    objects = site.objects("restore", f"latest:{tree}", "--target", str(target))
    assert stat.S_IMODE(target.stat().st_mode) == 0o700
    assert {one["path"] for one in objects if one["type"] == "left_out"} >= {"/"}


def test_the_summary_is_json(site, tree, public_folder):
    site.back_up(str(tree))
    lines = site("restore", "latest", "--target", str(public_folder / "out"), "--json")
    assert json.loads(lines[-1])["left_out"]["device"] == 3


IMMUTABLE, APPEND_ONLY = 0x10, 0x20


def flags_of(path: Path) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return read_flags(descriptor) & (IMMUTABLE | APPEND_ONLY)
    finally:
        os.close(descriptor)


def protect(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        change_flags(descriptor, IMMUTABLE | APPEND_ONLY, flags)
    except OSError:
        pytest.skip("this file system has no such flags")
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("keeps", [False, True])
def test_what_is_restored_elsewhere_can_be_removed_again(
    site: Command, public_folder: Path, keeps: bool
) -> None:
    tree, target = public_folder / "tree", public_folder / "target"
    wanted = {"file": IMMUTABLE, "log": APPEND_ONLY, "folder": IMMUTABLE}
    (tree / "folder").mkdir(parents=True)
    for name in ("file", "log"):
        (tree / name).write_bytes(b"x")
    there = {name: target / str(tree).strip("/") / name for name in wanted}
    try:
        for name, flags in wanted.items():
            protect(tree / name, flags)
        site.back_up(str(tree))
        options = ["--keep-privileges"] if keeps else []
        words = ["restore", "latest", "--target", str(target), *options]
        site.run(*words, key_file=site.restore_key)
        found = {name: flags_of(path) for name, path in there.items()}
        assert found == (wanted if keeps else dict.fromkeys(wanted, 0))
    finally:
        for path in [*(tree / name for name in wanted), *there.values()]:
            if path.exists():
                protect(path, 0)
