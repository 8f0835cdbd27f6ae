"""A folder with whatever a backup has to keep, and what is in one: used by the test of a fleet."""

from __future__ import annotations

import hashlib
import os
import random
import stat
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

# The kernel's layout of an ACL: a version, then tag, rights and id of each entry.
ACL_VERSION = struct.pack("<I", 2)
ACL_ENTRY = struct.Struct("<HHI")
OWNER, USER, GROUP, MASK, OTHER = 1, 2, 4, 16, 32
NOBODY_IN_PARTICULAR = 0xFFFFFFFF


def acl(user: int, rights: int) -> bytes:
    """An ACL that gives one more user these rights."""
    entries = [
        (OWNER, 7, NOBODY_IN_PARTICULAR),
        (USER, rights, user),
        (GROUP, 5, NOBODY_IN_PARTICULAR),
        (MASK, 7, NOBODY_IN_PARTICULAR),
        (OTHER, 0, NOBODY_IN_PARTICULAR),
    ]
    return ACL_VERSION + b"".join(ACL_ENTRY.pack(*entry) for entry in entries)


def make_tree(folder: Path, size_bytes: int, seed: int) -> None:
    """Files that do not shrink, of so many bytes in all, with owners, modes, times, links, ACLs and attributes."""
    chance = random.Random(seed)
    (folder / "below" / "deeper").mkdir(parents=True)
    os.setxattr(folder / "below", "system.posix_acl_default", acl(1234, 6))
    number = 0
    while size_bytes > 0:
        size = min(size_bytes, chance.choice((3_000, 70_000, 3_000_000, 9_000_000)))
        path = folder / ("below" if number % 2 else "below/deeper") / f"{number}"
        path.write_bytes(chance.randbytes(size))
        os.chown(path, 1000 + number % 3, 2000)
        path.chmod(0o640)
        if number % 2:
            os.setxattr(path, "system.posix_acl_access", acl(4321, number % 8))
        os.setxattr(path, "user.of-the-test", f"number {number}".encode())
        os.utime(path, ns=(1_700_000_000_123_456_789, 1_600_000_000_987_654_321 + number))
        size_bytes -= size
        number += 1
    (folder / "link").symlink_to("below/0")
    os.link(folder / "below/deeper/0", folder / "hard")
    os.mkfifo(folder / "pipe")


def tree(folder: Path) -> dict[str, Any]:
    """What a restore has to bring back, of each entry below the folder."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        said: dict[str, Any] = {
            "mode": oct(info.st_mode),
            "owner": (info.st_uid, info.st_gid),
            "links": info.st_nlink if path.is_file() else 0,
            "attributes": {
                name: os.getxattr(path, name, follow_symlinks=False)
                for name in sorted(os.listxattr(path, follow_symlinks=False))
                if not name.startswith("trusted.overlay.")
            },
        }
        if stat.S_ISREG(info.st_mode):
            said["content"] = hashlib.sha256(path.read_bytes()).hexdigest()
            said["time"] = info.st_mtime_ns
        elif stat.S_ISLNK(info.st_mode):
            said["target"] = os.readlink(path)
        found[str(path.relative_to(folder))] = said
    return found
