"""What a backup is asked to do, settled at the edge and handed down unchanged."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final, Literal

from strongroom.content.codecs import Compression, parse_compression
from strongroom.scan.selection import SelectionOptions

Level = Literal["full", "differential", "incremental"]

PACK_SIZE_BYTES: Final = 32 << 20
LARGEST_DEFAULT_SHARDS: Final = 8


@dataclass(frozen=True, slots=True)
class Tuning:
    """The knobs. Each has one name as a directive, an option and an inventory variable.

    compression: codec and level. signature: per-file digest kept for verify, or "none".
    workers: threads that compress, seal and write, over all shards; 0 does it inline in each
    shard. scan_threads: metadata operations and small reads in flight in each shard; 0 asks the
    file system (more than 1 on network file systems). shards: processes; 0 means one a core, at
    most LARGEST_DEFAULT_SHARDS. upload_queue_size: blocks in flight to the store, over all
    shards, when there are workers. lru_size: decoded listing pages of the parent kept in memory.
    """

    compression: Compression = field(default_factory=lambda: parse_compression("auto"))
    signature: str = "none"
    workers: int = 0
    scan_threads: int = 0
    shards: int = 0
    upload_queue_size: int = 128
    lru_size: int = 8
    acls: bool = True
    xattrs: bool = True
    flags: bool = True
    pack_size_bytes: int = PACK_SIZE_BYTES

    def shard_count(self) -> int:
        """The number of shard processes to start."""
        if self.shards:
            return self.shards
        return max(1, min(LARGEST_DEFAULT_SHARDS, len(os.sched_getaffinity(0))))

    def attribute_options(self) -> dict[str, str]:
        """What rows hold besides content, as a snapshot states it.

        Rows of another snapshot may only be taken over where it states the same.
        """
        kept = {"acls": self.acls, "xattrs": self.xattrs, "flags": self.flags}
        return {name: "yes" if is_kept else "no" for name, is_kept in kept.items()}


@dataclass(frozen=True, slots=True)
class BackupOptions:
    """One backup; what it is made from is a Source.

    level: `full` reads everything, `differential` compares with the last full snapshot,
    `incremental` with the last one. parent: the id of the snapshot to compare with instead.
    dry_run: read and compare, but store nothing. cache_folder: where a key that cannot read keeps
    the listings it is going to compare with; None: nowhere.
    """

    host: str
    job: str = ""
    fileset: str = ""
    level: Level = "incremental"
    tags: tuple[str, ...] = ()
    parent: str | None = None
    dry_run: bool = False
    selection: SelectionOptions = field(default_factory=SelectionOptions)
    tuning: Tuning = field(default_factory=Tuning)
    cache_folder: bytes | None = None
