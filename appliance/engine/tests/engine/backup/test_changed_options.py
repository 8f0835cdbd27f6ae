"""A backup holds what its own options ask for, whatever those of the parent were."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest

from kit.command import Command

# Longer than the time in which a file does not count as unchanged.
SETTLING_SECONDS = 0.1
ACL = "system.posix_acl_access"
# Version 2; then tag, permissions and id of owner, user 1, group, mask and others.
ACL_VALUE = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, permissions, number)
    for tag, permissions, number in (
        (0x01, 6, 0xFFFFFFFF),
        (0x02, 4, 1),
        (0x04, 4, 0xFFFFFFFF),
        (0x10, 4, 0xFFFFFFFF),
        (0x20, 4, 0xFFFFFFFF),
    )
)


@pytest.fixture
def file(tree: Path) -> Path:
    made = tree / "file"
    made.write_bytes(b"content")
    os.setxattr(made, "user.colour", b"blue")
    os.setxattr(made, ACL, ACL_VALUE)
    time.sleep(SETTLING_SECONDS)
    return made


def restored_attributes(command: Command, snapshot: str, file: Path, target: Path) -> set[str]:
    command("restore", snapshot, "--target", str(target))
    return set(os.listxattr(target / str(file).lstrip("/")))


@pytest.mark.parametrize(
    ("option", "left"), [("--no-xattrs", {ACL}), ("--no-acls", {"user.colour"})]
)
def test_attributes_are_those_of_ones_own_options(
    command: Command, file: Path, tmp_path: Path, option: str, left: set[str]
) -> None:
    without = command.back_up(str(file.parent), option)
    whole = command.back_up(str(file.parent))
    without_again = command.back_up(str(file.parent), option)
    for snapshot, wanted in ((without, left), (whole, {ACL, "user.colour"}), (without_again, left)):
        found = restored_attributes(command, snapshot, file, tmp_path / snapshot)
        assert found == wanted


def test_a_parent_of_other_options_is_passed_over(command: Command, file: Path) -> None:
    whole = command.back_up(str(file.parent))
    command.back_up(str(file.parent), "--no-flags")
    summary = command.objects("backup", str(file.parent))[-1]
    assert (summary["parent"], summary["files_read"]) == (whole, 0)


def test_a_named_parent_of_other_options_is_not_trusted(
    command: Command, file: Path, tmp_path: Path
) -> None:
    without = command.back_up(str(file.parent), "--no-xattrs")
    answer = command.run(
        "backup", str(file.parent), "--parent", without, key_file=command.restore_key
    )
    assert "everything" in answer.stderr
    found = restored_attributes(command, "latest", file, tmp_path / "restored")
    assert found == {ACL, "user.colour"}
