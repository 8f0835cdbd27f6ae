"""Options of a backup, validated once by the caller and passed down unchanged."""

from __future__ import annotations

import os
from typing import Any, Literal, NamedTuple

import msgspec

from strongroom.engine.content.codecs import Compression, parse_compression
from strongroom.engine.filesets.exclusions import SelectionOptions
from strongroom.engine.filesets.rules import FileSetRules
from strongroom.engine.knobs.knob import Spelling
from strongroom.engine.knobs.settings import KnobSettings, merged
from strongroom.engine.knobs.table import (
    LARGEST_DEFAULT_SHARDS,
    default_number,
    default_switch,
    default_word,
)
from strongroom.sources.source import Problem

Level = Literal["full", "differential", "incremental"]


class Tuning(msgspec.Struct, frozen=True):
    """Values of the knobs of a backup; `strongroom.engine.knobs.table` describes each.

    Built by `settle_tuning` from the users' settings.
    """

    compression: Compression = msgspec.field(
        default_factory=lambda: parse_compression(default_word("compression"))
    )
    signature: str = default_word("signature")
    workers: int = default_number("workers")
    scan_threads: int = default_number("scan_threads")
    shards: int = default_number("shards")
    upload_queue_size: int = default_number("upload_queue_size")
    lru_size: int = default_number("lru_size")
    acls: bool = default_switch("acls")
    xattrs: bool = default_switch("xattrs")
    flags: bool = default_switch("flags")

    def shard_count(self) -> int:
        """The number of shard processes to start."""
        if self.shards:
            return self.shards
        return max(1, min(LARGEST_DEFAULT_SHARDS, len(os.sched_getaffinity(0))))

    def of_shard(self, number: int) -> ShardShare:
        """The share of shard `number`; all together have what was asked for the job."""
        queued = _share(self.upload_queue_size, number, self.shard_count())
        # Where nothing may wait a worker would have nothing to take: that shard stores by itself.
        workers = _share(self.workers, number, self.shard_count()) if queued else 0
        return ShardShare(workers, queued, adapts=not self.workers and queued > 0)


class ShardShare(NamedTuple):
    """Worker threads of one shard, 0: it stores itself; blocks that may wait for the store.

    adapts: where the store makes it wait, a thread stores.
    """

    workers: int
    queued_blocks: int
    adapts: bool


def _share(whole: int, number: int, count: int) -> int:
    return whole // count + (number < whole % count)


def settle_tuning(*layers: KnobSettings, spelling: Spelling) -> Tuning:
    """Merge layers of settings; a later layer takes precedence over an earlier one.

    Raises UsageError for a value that a knob does not take, spelling the knob as the user did, and
    for a codec that is not installed.
    """
    found: dict[str, Any] = merged(*layers, spelling=spelling)
    return Tuning(**{**found, "compression": parse_compression(found["compression"])})


class Treatment(NamedTuple):
    """How a FileSet stores some entries; `signs`: with the job's signature."""

    compression: Compression
    signs: bool
    acls: bool
    xattrs: bool


class BackupOptions(msgspec.Struct, frozen=True):
    """One backup; what it is made from is a Source.

    level: `full` reads everything, `differential` compares with the last full snapshot,
    `incremental` with the last one. parent: the id of the snapshot to compare with instead.
    dry_run: read and compare, but store nothing. skips_unchanged: make no snapshot that would hold
    just what its parent holds. cache_folder: where a key that cannot read keeps
    listings for later comparison; None: no cache. selection: what is left out; of a FileSet
    (see `with_fileset`) `treatments` are the ways in which its entries are stored, the first the
    job's own, () when all are stored as `tuning` says. `treatment_digest`: identifies which
    entries have which attributes and signatures, "" where all have the same. known_problems:
    named paths that are not there; warnings: those that are there, but are hardly what was meant.
    allows_empty: a stream without content is no problem. share_below: public files below these
    folders are offered to share (`scan.share_folders`). tells_entries: report what becomes of each
    entry. counts_ahead: without a parent count what there is, for the progress.
    pack_size_bytes: a pack is finished at this size; None: as the format has it, only tests say
    another.
    """

    host: str
    job: str = ""
    fileset: str = ""
    level: Level = "incremental"
    tags: tuple[str, ...] = ()
    parent: str | None = None
    dry_run: bool = False
    skips_unchanged: bool = False
    selection: SelectionOptions | FileSetRules = msgspec.field(default_factory=SelectionOptions)
    treatments: tuple[Treatment, ...] = ()
    treatment_digest: str = ""
    known_problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    allows_empty: bool = False
    share_below: tuple[str, ...] = ()
    tuning: Tuning = msgspec.field(default_factory=Tuning)
    cache_folder: bytes | None = None
    tells_entries: bool = False
    counts_ahead: bool = False
    pack_size_bytes: int | None = None

    def attribute_options(self) -> dict[str, str]:
        """What rows hold besides content, as the snapshot records it.

        Rows of another snapshot may be reused only if it records the same, "" for nothing.
        """
        tuning = self.tuning
        kept = {"acls": tuning.acls, "xattrs": tuning.xattrs, "flags": tuning.flags}
        stated = {name: "yes" if is_kept else "no" for name, is_kept in kept.items()}
        return {**stated, "treatments": self.treatment_digest}


def compressions_of(options: BackupOptions) -> tuple[Compression, ...]:
    """All compressions that are asked for, each once; the first is the job's own."""
    wanted = [options.tuning.compression, *(one.compression for one in options.treatments)]
    return tuple(dict.fromkeys(wanted))
