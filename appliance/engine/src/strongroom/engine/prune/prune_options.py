"""What a prune is asked for, and what it says that it found and did."""

from __future__ import annotations

import os
from typing import Any, Final, Literal

import msgspec

from strongroom.base.clock import SECOND_NS, utc_text
from strongroom.engine.prune.hidden_versions import HiddenVersions
from strongroom.engine.repository.leases import EXPIRY_SECONDS, MOST_AGE_SECONDS, ListedLease
from strongroom.engine.repository.set_aside import SetAside

# What keeps a prune from freeing space: the leases of other jobs, named with their holders.

REMEDY: Final = (
    "if that job hangs, cancel its run or end its process there; a lease that no one renews ends "
    f"after {EXPIRY_SECONDS / 60:.0f} minutes, and one of a client after "
    f"{MOST_AGE_SECONDS / 86400:.0f} days in any case"
)
_LONG_SECONDS: Final = 86400.0
# For blocks that are counted at once: those of 3 TB of large files.
MEMORY_BYTES: Final = 1 << 30
# With less, a large repository would be read again and again.
LEAST_MEMORY_BYTES: Final = 64 << 20


class Holdup(msgspec.Struct, frozen=True):
    """A lease that keeps packs. owner: the id of its client, as in ListedLease.

    What the holder says of itself is "" or 0 where the lease cannot be read; age_seconds is then
    the time since it was renewed.
    """

    lease: str
    owner: bytes
    purpose: str
    host: str
    process_id: int
    age_seconds: float

    @classmethod
    def of(cls, listed: ListedLease, store_time_ns: int) -> Holdup:
        """The lease of somebody else, by the store's clock."""
        holder = listed.holder
        begun_ns = listed.renewed_ns if holder is None else holder.started_ns
        age_seconds = max(0.0, (store_time_ns - begun_ns) / SECOND_NS)
        if holder is None:
            return cls(listed.name, listed.owner, "", "", 0, age_seconds)
        return cls(
            listed.name, listed.owner, holder.purpose, holder.host, holder.process_id, age_seconds
        )

    @property
    def is_long(self) -> bool:
        """Whether it has lasted longer than jobs usually do."""
        return self.age_seconds > _LONG_SECONDS

    @property
    def text(self) -> str:
        """Who is waited for, and since when that job runs."""
        age = _age_text(self.age_seconds)
        if not self.purpose:
            return f"the lease {self.lease}, which can't be read, renewed {age} ago, to end"
        where = f"{self.purpose} on {self.host} (process {self.process_id})"
        return f"{where}, begun {age} ago, to end"


def _age_text(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "less than a minute"


class PruneOptions(msgspec.Struct, frozen=True):
    """Options of a prune.

    repack_below: packs used to less than this share may be repacked. max_unused: packs are repacked
    until the unused part is no more than this share of the used one. grace_seconds: how long marked
    packs stay; None: not at all while no one else holds a lease, else an hour. spare_seconds: packs
    are skipped if they are newer than the oldest running job, less this allowance for clock
    differences, as the job may have written them. threads: 0 for one a core. recount: read and
    count everything, also when nothing went since the last prune. memory_bytes: for
    counting blocks, see `range_counts`.
    """

    repack_below: float = 0.8
    max_unused: float = 0.05
    grace_seconds: float | None = None
    spare_seconds: float = 3600.0
    threads: int = 0
    dry_run: bool = False
    recount: bool = False
    memory_bytes: int = MEMORY_BYTES

    def thread_count(self) -> int:
        """Threads that repack."""
        return self.threads or min(8, len(os.sched_getaffinity(0)))


class PruneReport(msgspec.Struct, frozen=True):
    """What a prune found and did; sizes in bytes.

    packs, pack_bytes: in the store at the beginning. used_bytes, unused_bytes: of the blocks in
    packs that are not marked. unused_packs: those without anything used. orphan_packs: of these,
    the ones in no index. repacked_packs: partly used packs that were copied, with repacked_bytes in
    their place. marked_packs: marked by this run. removed_packs, removed_bytes: actually deleted,
    also those marked by earlier runs. kept_packs: marked once but in use again.
    waiting_packs: marked and still there, because of waiting_for. spared_packs, spared_bytes:
    without anything used, but not marked, as a job that runs may have stored them. holdups: the
    leases that keep those two. freed_bytes: what the store lost
    in all. In a dry run removed_packs and removed_bytes are what the run would remove.
    set_aside: what could not be read. Where it is a snapshot that may be sound, nothing of its
    client was removed. hidden: where objects are locked, what went for good of what was deleted now
    and before, and what its lock keeps; else None. counted_ns: when all was counted, where nothing
    went since and what came is in use: then used_bytes may be less and unused_bytes more
    than there is; 0 where it was counted now. recount: where it was counted although an
    earlier prune had found nothing to do in the same repository, whether that was so.
    """

    snapshots: int
    packs: int
    pack_bytes: int
    used_bytes: int
    unused_bytes: int
    unused_packs: int = 0
    orphan_packs: int = 0
    repacked_packs: int = 0
    repacked_bytes: int = 0
    marked_packs: int = 0
    removed_packs: int = 0
    removed_bytes: int = 0
    kept_packs: int = 0
    waiting_packs: int = 0
    waiting_for: tuple[str, ...] = ()
    spared_packs: int = 0
    spared_bytes: int = 0
    holdups: tuple[Holdup, ...] = ()
    temporary_files: int = 0
    elapsed_seconds: float = 0.0
    dry_run: bool = False
    set_aside: SetAside = msgspec.field(default_factory=SetAside)
    hidden: HiddenVersions | None = None
    counted_ns: int = 0
    recount: Literal["", "same", "different"] = ""

    @property
    def false_snapshots(self) -> tuple[tuple[str, str], ...]:
        """Ids of snapshots that were set aside, and what is wrong."""
        problems = self.set_aside.problems
        return tuple(
            sorted((name, text) for (kind, name), text in problems.items() if kind == "snapshots")
        )

    @property
    def freed_bytes(self) -> int:
        """What the store has less than before."""
        removed_bytes = self.removed_bytes if self.hidden is None else self.hidden.removed_bytes
        return removed_bytes - self.repacked_bytes

    def summary(self) -> dict[str, Any]:
        """The fields of the JSON report (docs/reference/json-output.md)."""
        return {
            "type": "prune",
            "dry_run": self.dry_run,
            "snapshots": self.snapshots,
            "packs": self.packs,
            "pack_bytes": self.pack_bytes,
            "used_bytes": self.used_bytes,
            "unused_bytes": self.unused_bytes,
            "unused_packs": self.unused_packs,
            "orphan_packs": self.orphan_packs,
            "repacked_packs": self.repacked_packs,
            "repacked_bytes": self.repacked_bytes,
            "marked_packs": self.marked_packs,
            "removed_packs": self.removed_packs,
            "removed_bytes": self.removed_bytes,
            "freed_bytes": self.freed_bytes,
            "kept_packs": self.kept_packs,
            "waiting_packs": self.waiting_packs,
            "waiting_for": list(self.waiting_for),
            "spared_packs": self.spared_packs,
            "spared_bytes": self.spared_bytes,
            "leases": [
                {
                    "purpose": one.purpose,
                    "host": one.host,
                    "process_id": one.process_id,
                    "age_seconds": round(one.age_seconds),
                }
                for one in self.holdups
            ],
            "locked_objects": 0 if self.hidden is None else self.hidden.locked,
            "locked_bytes": 0 if self.hidden is None else self.hidden.locked_bytes,
            "locked_until": utc_text(self.hidden.until_ns)
            if self.hidden is not None and self.hidden.until_ns
            else None,
            "temporary_files": self.temporary_files,
            "false_snapshots": [
                {"snapshot": name, "problem": problem} for name, problem in self.false_snapshots
            ],
            "counted": utc_text(self.counted_ns) if self.counted_ns else None,
            "recount": self.recount or None,
            "elapsed_seconds": round(self.elapsed_seconds, 3),
        }
