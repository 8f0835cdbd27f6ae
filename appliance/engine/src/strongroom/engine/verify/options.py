"""Options and results of a comparison of a snapshot with live files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from strongroom.engine.restore.options import MOST_DEFAULT_PROCESSES
from strongroom.engine.scan.patterns import Patterns


class LiveDifference(NamedTuple):
    """An entry that differs between snapshot and tree.

    kind: missing, extra, type, owner, mode, size, mtime, target, device, xattr, acl, flags, links,
    content, damage (the repository cannot tell), unreadable, unread (a folder that the backup could
    not list). path: from the root compared.
    """

    kind: str
    path: bytes
    reason: str


class VerifyOptions(msgspec.Struct, frozen=True):
    """One comparison.

    root: absolute path of the tree. base: the snapshot's path that corresponds to `root`. subpath:
    what of the snapshot to compare, at or below base. reads_content: read every file and compare
    it chunk by chunk. reads_signatures: read every file that has a signature and compare that.
    from_disk: flush the file system first and read past its cache. finds_extra: also look for
    entries that the snapshot does not hold, below the paths that were backed up. after_restore: a
    restore below a target has just made the tree; so `root` itself, which keeps its own attributes,
    is not compared. keeps_privileges, in_use, stays_on_mount: as of that restore; what it leaves
    out or does not delete is no difference.
    """

    root: bytes
    base: bytes = b""
    subpath: bytes = b""
    includes: Patterns | None = None
    excludes: Patterns | None = None
    reads_content: bool = False
    reads_signatures: bool = False
    from_disk: bool = False
    finds_extra: bool = True
    after_restore: bool = False
    keeps_privileges: bool = True
    in_use: tuple[bytes, ...] = ()
    stays_on_mount: bool = False
    processes: int = 0

    def process_count(self) -> int:
        """The number of child processes to start."""
        if self.processes:
            return self.processes
        return max(1, min(MOST_DEFAULT_PROCESSES, len(os.sched_getaffinity(0))))


_UNKNOWN_EXTRA: Final = (
    "entries that only the tree has were not searched for: this snapshot does not record what its "
    "backup left out"
)


class VerifyReport(msgspec.Struct, frozen=True):
    """Rows compared, bytes read of files, and differences by kind.

    knows_extra: False where extra entries were asked for, and the snapshot does not record what its
    backup left out, so that none were searched for.
    """

    rows: int
    read_bytes: int
    differences: Mapping[str, int]
    elapsed_seconds: float
    knows_extra: bool = True

    def notes(self) -> list[str]:
        """What was not compared."""
        if self.knows_extra:
            return []
        return [_UNKNOWN_EXTRA]

    def summary(self, snapshot_id: str, options: VerifyOptions) -> dict[str, Any]:
        """The fields of the JSON report (docs/reference/json-output.md); names may be bytes."""
        return {
            "type": "summary",
            "snapshot": snapshot_id,
            "root": options.root,
            "entries": self.rows,
            "read_bytes": self.read_bytes,
            "differences": dict(self.differences),
            "knows_extra": self.knows_extra,
            "elapsed_seconds": round(self.elapsed_seconds, 3),
        }
