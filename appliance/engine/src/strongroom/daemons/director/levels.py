"""Which level a backup gets in the end, and what it is compared with.

Without a full snapshot of the job that is still there an incremental or differential backup is
full. So it is when the last full one is older than Max Full Interval, when the FileSet has
changed since (unless Ignore FileSet Changes), or when a full one failed and Rerun Failed Levels is
set. An incremental one becomes differential by Max Diff Interval. Age counts by the server's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from blake3 import blake3

from strongroom import clock
from strongroom.daemons.director.catalog.runs import last_failed_level
from strongroom.daemons.director.catalog.snapshots import newest_snapshot

if TYPE_CHECKING:
    from strongroom.config.model import Resource
    from strongroom.daemons.director.catalog.database import Catalog
    from strongroom.scan.fileset import FileSetSpec

_SECOND_NS = 1_000_000_000


class LevelDecision(NamedTuple):
    """The level, the id of the snapshot to compare with ("" for none), and why it was raised."""

    level: str
    parent: str
    reason: str


def fileset_digest(spec: FileSetSpec) -> str:
    """32 digits that stand for what a FileSet chooses, not for how that is stored."""
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
    catalog: Catalog, job: Resource, client: str, storage: str, level: str, digest: str
) -> LevelDecision:
    """Decide about a backup that was asked for as `level`; `digest` is of its FileSet now."""
    if level == "full":
        return LevelDecision("full", "", "")
    newest = {
        kind: newest_snapshot(catalog, job=job.name, client=client, storage=storage, levels=levels)
        for kind, levels in (
            ("full", ("full",)),
            ("differential", ("differential",)),
            ("any", ()),
        )
    }
    full = newest["full"]
    if full is None:
        return LevelDecision("full", "", "there is no full snapshot of this job yet")
    fileset = job.fileset
    ignores = fileset is not None and fileset.ignore_fileset_changes
    if full.fileset_digest and digest != full.fileset_digest and not ignores:
        return LevelDecision("full", "", "the FileSet has changed since the last full snapshot")
    now_ns = clock.now_ns()
    if _is_older(full.server_ns, job.max_full_interval_seconds, now_ns):
        return LevelDecision("full", "", "the last full snapshot is older than Max Full Interval")
    failed = ""
    if job.rerun_failed_levels:
        failed = last_failed_level(catalog, job.name, client, full.server_ns)
    if failed == "full":
        return LevelDecision("full", "", "the last full backup failed")
    if level == "incremental":
        differential = newest["differential"]
        since_ns = max(full.server_ns, differential.server_ns if differential else 0)
        if _is_older(since_ns, job.max_diff_interval_seconds, now_ns):
            reason = "the last differential snapshot is older than Max Diff Interval"
            return LevelDecision("differential", full.id, reason)
        if failed == "differential":
            return LevelDecision("differential", full.id, "the last differential backup failed")
    if level == "differential":
        return LevelDecision("differential", full.id, "")
    parent = newest["any"]
    return LevelDecision("incremental", parent.id if parent else full.id, "")


def _is_older(time_ns: int, interval_seconds: int | None, now_ns: int) -> bool:
    return bool(interval_seconds) and now_ns - time_ns > int(interval_seconds or 0) * _SECOND_NS
