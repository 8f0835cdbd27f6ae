"""`bareos-acl-xattr`: with and without ACLs and extended attributes.

The text: the measurements of Bareos' pull request 1597.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from strongroom.base.errors import UsageError
from strongroom_bench.suites.bareos import BAREOS
from strongroom_bench.suites.data import MAKERS, Data
from strongroom_bench.suites.repositories import BACKUP, RESTORE, measure_ways
from strongroom_bench.suites.result import Row, Way

KEPT: Final = "ACLs and attributes"
ENTRIES: Final = 20_000
SEED: Final = (
    f"{BAREOS}. Without ACLs and extended attributes backups of the root file system were 19% and "
    "of kernel sources 17% faster, restores 37% and 0%, of multimedia nothing. Here the attributes "
    "of an entry are listed once, and of a file system without them not at all. Few of the first "
    "two groups' files have any; of the third each has an attribute, and half have an ACL. Peers "
    "have no such choice (or only for attributes), so none is measured here."
)
_NEITHER: Final = "neither"
_TEXTS: Final = {
    "sources": {(BACKUP, _NEITHER): "17% faster", (RESTORE, _NEITHER): "0% faster"},
    "root": {(BACKUP, _NEITHER): "19% faster", (RESTORE, _NEITHER): "37% faster"},
}
_ACL: Final = "system.posix_acl_access"
_ACL_VERSION: Final = 2
# Tag, permissions and user: owner, one user, group, mask, others (linux/posix_acl_xattr.h).
_NOBODY: Final = 0xFFFFFFFF
_ACL_ENTRIES: Final = (
    (0x01, 6, _NOBODY), (0x02, 4, 1), (0x04, 4, _NOBODY), (0x10, 4, _NOBODY), (0x20, 4, _NOBODY),
)  # fmt: skip


def measure_acl_xattr(
    folder: Path, scale: float, rounds: int, tell: Callable[[str], None]
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    ways = [
        Way(KEPT),
        Way("no ACLs", ("--no-acls",)),
        Way("no attributes", ("--no-xattrs",)),
        Way(_NEITHER, ("--no-acls", "--no-xattrs")),
    ]
    rows: list[Row] = []
    words = []
    for kind, texts in _TEXTS.items():
        tell(f"making {kind}")
        data = MAKERS[kind](folder / kind, scale)
        rows += measure_ways(folder, kind, data, ways, rounds, tell, texts, with_peers=False)
        words.append(data.words)
    tell("making files with attributes")
    data = make_attributes(folder / "attributes", max(10, round(ENTRIES * scale)))
    rows += measure_ways(folder, data.kind, data, ways, rounds, tell, {}, with_peers=False)
    words.append(data.words)
    return "; ".join(words), rows


def make_attributes(folder: Path, entries: int) -> Data:
    """Small files, each with its own attribute, every second with an ACL.

    Raises UsageError where the file system takes none.
    """
    content = b"of a measurement\n"
    acl = struct.pack("<I", _ACL_VERSION) + b"".join(
        struct.pack("<HHI", *entry) for entry in _ACL_ENTRIES
    )
    for number in range(entries):
        path = folder / f"{number // 500:03}" / f"{number:06}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        try:
            os.setxattr(path, "user.strongroom.measured", b"%d" % number)
            if number % 2:
                os.setxattr(path, _ACL, acl)
        except OSError as error:
            raise UsageError(
                f"this file system takes no extended attributes or ACLs ({error.strerror}): name "
                "another folder with --work"
            ) from error
    return Data("files with attributes and ACLs", folder, entries, entries * len(content))
