"""What a backup is asked to do, settled at the edge and handed down unchanged."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from strongroom.content.codecs import Compression, parse_compression
from strongroom.filesets.exclusions import SelectionOptions

if TYPE_CHECKING:
    from strongroom.filesets.rules import FileSetRules
    from strongroom.sources.problem import Problem

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


class Treatment(NamedTuple):
    """How some entries are kept where a FileSet says so; `signs`: with the job's signature."""

    compression: Compression
    signs: bool
    acls: bool
    xattrs: bool


@dataclass(frozen=True, slots=True)
class BackupOptions:
    """One backup; what it is made from is a Source.

    level: `full` reads everything, `differential` compares with the last full snapshot,
    `incremental` with the last one. parent: the id of the snapshot to compare with instead.
    dry_run: read and compare, but store nothing. cache_folder: where a key that cannot read keeps
    the listings it is going to compare with; None: nowhere. selection: what is left out; of a
    FileSet (see `fileset.with_fileset`) `treatments` are the ways in which its entries are kept,
    the first the job's own, () when all are kept as `tuning` says. `treatment_digest`: stands for
    which entries have which attributes and signatures, "" where all have the same. known_problems:
    what could not be read is known of before the start.
    """

    host: str
    job: str = ""
    fileset: str = ""
    level: Level = "incremental"
    tags: tuple[str, ...] = ()
    parent: str | None = None
    dry_run: bool = False
    selection: SelectionOptions | FileSetRules = field(default_factory=SelectionOptions)
    treatments: tuple[Treatment, ...] = ()
    treatment_digest: str = ""
    known_problems: tuple[Problem, ...] = ()
    tuning: Tuning = field(default_factory=Tuning)
    cache_folder: bytes | None = None

    def attribute_options(self) -> dict[str, str]:
        """What rows hold besides content, as a snapshot states it.

        Rows of another snapshot may only be taken over where it states the same, "" for nothing.
        """
        tuning = self.tuning
        kept = {"acls": tuning.acls, "xattrs": tuning.xattrs, "flags": tuning.flags}
        stated = {name: "yes" if is_kept else "no" for name, is_kept in kept.items()}
        return {**stated, "treatments": self.treatment_digest}


def compressions_of(options: BackupOptions) -> tuple[Compression, ...]:
    """All compressions that are asked for, each once; the first is the job's own."""
    wanted = [options.tuning.compression, *(one.compression for one in options.treatments)]
    return tuple(dict.fromkeys(wanted))
