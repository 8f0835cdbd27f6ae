"""Determines the level of a backup, and the snapshot to compare it with.

Every snapshot is complete and restores on its own, so any existing one of the same FileSet can be
compared with: an incremental backup uses the newest, or where that lacks half of what the newest
whole one has, as when a disk was not mounted, that one. A differential one uses the last full one,
or if that is gone the first that came after it, else as an incremental: that minimizes what is read
again. Without any an incremental or differential backup becomes full. So it does when the last
full one is older than Max Full Interval, or when a full one failed and Rerun Failed Levels is set.
An incremental one becomes differential by Max Diff Interval. Age counts by the server's clock, from
when backups were made, whether or not their snapshots still exist.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.config.settings.job import JobSettings
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.runs import last_failed_level
from strongroom.director.catalog.snapshots import newest_snapshot, oldest_snapshot
from strongroom.director.results.snapshots import Snapshot
from strongroom.engine.filesets.spec import FileSetSpec

_NONE_YET = "there is no snapshot of this job yet"


class LevelDecision(NamedTuple):
    """The level, the id of the snapshot to compare with ("" for none), and why it was raised."""

    level: str
    parent: str
    reason: str


def fileset_digest(spec: FileSetSpec) -> str:
    """A digest, 32 digits, of what a FileSet selects, not of how that is stored."""
    chosen = msgspec.structs.replace(
        spec,
        name="",
        includes=tuple(
            msgspec.structs.replace(
                include,
                options=tuple(
                    msgspec.structs.replace(options, compression=None, signature=None)
                    for options in include.options
                ),
            )
            for include in spec.includes
        ),
    )
    return blake3(msgspec.json.encode(chosen)).hexdigest(16)


def decide_level(
    catalog: Catalog, job: JobSettings, client: str, storage: str, level: str, digest: str
) -> LevelDecision:
    """Decide about a backup that was requested as `level`.

    digest: of its FileSet now, "" where a change of it does not matter.
    """
    if level == "full":
        return LevelDecision("full", "", "")
    known = _Known(catalog, job.name, client, storage, digest)
    newest = known.newest()
    if newest is None:
        return LevelDecision("full", "", known.why_none())
    full_ns = known.last_ns("full")
    now_ns = clock.now_ns()
    if job.max_full_interval_seconds and not full_ns:
        reason = "Max Full Interval is set, and it is not known when the last full backup was"
        return LevelDecision("full", "", reason)
    if _is_older(full_ns, job.max_full_interval_seconds, now_ns):
        return LevelDecision("full", "", "the last full backup is older than Max Full Interval")
    failed = ""
    if job.rerun_failed_levels:
        failed = last_failed_level(catalog, job.name, client, full_ns)
    if failed == "full":
        return LevelDecision("full", "", "the last full backup failed")
    reason = ""
    if level == "incremental":
        since_ns = max(full_ns, known.last_ns("differential"))
        if since_ns and _is_older(since_ns, job.max_diff_interval_seconds, now_ns):
            reason = "the last differential backup is older than Max Diff Interval"
        elif failed == "differential":
            reason = "the last differential backup failed"
    if level == "differential" or reason:
        return LevelDecision("differential", known.beginning(full_ns) or known.best(newest), reason)
    return LevelDecision("incremental", known.best(newest), "")


class _Known(NamedTuple):
    """The snapshots of a job on a client in a storage; `digest`: only of this FileSet, "": any."""

    catalog: Catalog
    job: str
    client: str
    storage: str
    digest: str

    def newest(self, **wanted: Any) -> Snapshot | None:
        """Of the existing snapshots, whatever their level: each is complete."""
        return newest_snapshot(**self._asdict(), **wanted)

    def best(self, newest: Snapshot) -> str:
        """The one to compare with of which the least is read again."""
        whole = self.newest(whole=True) if newest.missing_paths else None
        if whole and (newest.files * 2 <= whole.files or newest.bytes * 2 <= whole.bytes):
            return whole.id
        return newest.id

    def last_ns(self, level: str) -> int:
        """When a level was last backed up, even if its snapshot is gone; 0: unknown."""
        found = self.newest(levels=(level,), with_removed=True)
        return found.server_ns if found else 0

    def beginning(self, since_ns: int) -> str:
        """The first existing one of those received since, or ""."""
        found = oldest_snapshot(**self._asdict(), since_ns=since_ns)
        return found.id if found else ""

    def why_none(self) -> str:
        """Why there is nothing to compare with."""
        of_any = self._replace(digest="")
        if of_any.newest():
            return "the FileSet has changed since the last backup"
        was_one = of_any.newest(with_removed=True)
        return "no snapshot of this job is left" if was_one else _NONE_YET


def _is_older(time_ns: int, interval_seconds: int, now_ns: int) -> bool:
    return bool(interval_seconds) and now_ns - time_ns > interval_seconds * SECOND_NS
