"""What a backup tells anyone who started it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from strongroom.base.printable import printable
from strongroom.engine.backup.options import BackupOptions
from strongroom.engine.backup.shards.scan_pace import ScanChoice
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.sources.files import NamedPaths
from strongroom.sources.source import Problem

# The summary names so many of the paths that are not there; the others are counted.
MOST_NAMED_PATHS: Final = 20


class BackupReport(msgspec.Struct, frozen=True):
    """Totals of one backup. Sizes in bytes, durations in seconds.

    `files`, `directories`, `others`, `size_bytes`: what the snapshot holds. `files_read`,
    `bytes_read`: what was new or changed and therefore read. `new_chunks`, `new_bytes`: chunks
    the repository did not hold, before compression; `stored_bytes`: the packs added for them and
    for the listing. `is_unchanged`: no snapshot was made, since the parent holds just the same.
    `stage_seconds`: what the threads spent on each stage of writing.stages, added
    up. `scan`: the scan threads of a shard. `queue_blocks`: how many blocks could wait to be stored
    in one, 0 where shards did it themselves. `coordinator_seconds`: processor time of this thread
    since it began, which nothing can share; `shard_seconds`: of all shards. `snapshot` is None
    after a dry run and where nothing changed. `missing`: paths that were named and are not there,
    which are among the `problems`. `warnings`: what made the job slower than it should be.
    `named`: how the paths were that were named.
    """

    snapshot: Snapshot | None
    parent_id: str
    files: int
    directories: int
    others: int
    size_bytes: int
    files_read: int
    bytes_read: int
    new_chunks: int
    new_bytes: int
    stored_bytes: int
    elapsed_seconds: float
    stage_seconds: dict[str, float]
    scan: ScanChoice
    queue_blocks: int
    coordinator_seconds: float
    shard_seconds: float
    problems: tuple[Problem, ...]
    missing: tuple[bytes, ...] = ()
    warnings: tuple[str, ...] = ()
    named: NamedPaths = msgspec.field(default_factory=NamedPaths)
    is_unchanged: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether everything could be read and nothing changed while it was read."""
        return all(problem.is_harmless for problem in self.problems)

    def summary(self, options: BackupOptions) -> dict[str, Any]:
        """The fields of the JSON report (docs/reference/json-output.md)."""
        return {
            "type": "summary",
            "snapshot": None if self.snapshot is None else self.snapshot.id,
            "parent": self.parent_id or None,
            "level": options.level if self.parent_id else "full",
            "dry_run": options.dry_run,
            "unchanged": self.is_unchanged,
            "files": self.files,
            "directories": self.directories,
            "others": self.others,
            "size_bytes": self.size_bytes,
            "files_read": self.files_read,
            "bytes_read": self.bytes_read,
            "new_chunks": self.new_chunks,
            "new_bytes": self.new_bytes,
            "stored_bytes": self.stored_bytes,
            "elapsed_seconds": round(self.elapsed_seconds, 3),
            "missing_paths": len(self.missing),
            "missing_path_names": [
                f"/{printable(path)}" for path in self.missing[:MOST_NAMED_PATHS]
            ],
            **self.named.summary(),
            "stage_seconds": {name: round(one, 3) for name, one in self.stage_seconds.items()},
            "scan_threads": self.scan.threads,
            "scan_bound": self.scan.bound,
            "queue_blocks": self.queue_blocks,
            "coordinator_seconds": round(self.coordinator_seconds, 3),
            "shard_seconds": round(self.shard_seconds, 3),
            "problems": sum(not problem.is_harmless for problem in self.problems),
            "vanished": sum(problem.is_harmless for problem in self.problems),
        }
