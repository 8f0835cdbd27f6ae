"""Checks that a snapshot that an agent reports exists, and is its own.

The repository decides: the snapshot's envelope must name the client and the job of the run. Where
the director cannot access the repository, or it is unavailable, the agent's report is accepted,
with a line in the log; opening or removing such a snapshot checks it later (`ownership`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.snapshots import SnapshotRecord
from strongroom.errors import DamageError, ObjectMissingError, StrongroomError
from strongroom.repo.snapshots import read_snapshot

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.net.control.messages import RunEnded
    from strongroom.repo.snapshots import Snapshot

_CLOCK_TOLERANCE_NS: Final = 600 * SECOND_NS
_ID_DIGITS: Final = 64
_MOST_COUNTED: Final = 1 << 62


class Confirmed(NamedTuple):
    """The snapshot for the catalog, and lines for the run's log."""

    record: SnapshotRecord
    lines: list[tuple[str, str]]


def confirm_snapshot(context: DirectorContext, run: RunRecord, message: RunEnded) -> Confirmed:
    """Look up the snapshot of a backup.

    Raises ObjectMissingError when it does not exist, DamageError when its content does not match
    its name or it belongs to another client or job.
    """
    snapshot_id = message.snapshot
    if len(snapshot_id) != _ID_DIGITS or any(c not in "0123456789abcdef" for c in snapshot_id):
        raise DamageError(f"the agent reports an invalid snapshot id: {snapshot_id[:80]!r}")
    try:
        snapshot, received_ns = _read(context, run.storage, snapshot_id)
    except DamageError:
        raise
    except (StrongroomError, OSError) as error:
        record = _from_summary(run, message.summary, snapshot_id)
        return Confirmed(record, [("warning", f"the snapshot could not be looked up: {error}")])
    if snapshot.host != run.client or snapshot.job != run.job:
        raise DamageError(
            f"snapshot {snapshot_id[:8]} is of job {snapshot.job!r} of {snapshot.host!r}, not of "
            "this run; find out what the agent did"
        )
    lines: list[tuple[str, str]] = []
    start_ns = snapshot.start_ns
    if run.started_ns and abs(start_ns - run.started_ns) > _CLOCK_TOLERANCE_NS:
        seconds = (start_ns - run.started_ns) / SECOND_NS
        lines.append(
            ("warning", f"the client's clock is about {seconds:+.0f} s off; ours was taken")
        )
        start_ns = run.started_ns
    return Confirmed(record_of(snapshot, run, start_ns, received_ns), lines)


def record_of(
    snapshot: Snapshot, run: RunRecord, start_ns: int, received_ns: int
) -> SnapshotRecord:
    """A snapshot of a run for the catalog; `received_ns`: when the store got it."""
    totals = snapshot.totals
    return SnapshotRecord(
        id=snapshot.id,
        client=run.client,
        job=run.job,
        fileset=run.fileset,
        fileset_digest=run.fileset_digest,
        storage=run.storage,
        pool=run.pool,
        level=run.level,
        run=run.id,
        original=snapshot.original,
        start_ns=start_ns,
        server_ns=received_ns,
        files=count_of(totals.files),
        bytes=count_of(totals.content_bytes),
        stored_bytes=count_of(totals.stored_bytes),
        errors=count_of(snapshot.error_count),
        tags=snapshot.tags,
    )


def count_of(value: int) -> int:
    """A number from a snapshot, 0 if no database accepts it."""
    return value if 0 <= value < _MOST_COUNTED else 0


def _read(context: DirectorContext, storage: str, snapshot_id: str) -> tuple[Snapshot, int]:
    """A snapshot, and when it came: its own time if it agrees with the store's.

    Its own time alone is set by its writer, which could evade Minimum Retention or extend it for
    ever; and the director's own clock may have jumped.
    """
    repository = context.repositories.open(storage)
    try:
        snapshot = read_snapshot(repository.store, repository.key, snapshot_id)
        for info in repository.store.list("snapshots"):
            if info.name == snapshot_id:
                said_ns, stored_ns = snapshot.server_ns, info.modified_ns
                is_true = abs(said_ns - stored_ns) <= _CLOCK_TOLERANCE_NS
                return snapshot, said_ns if is_true else stored_ns
    finally:
        repository.close()
    raise ObjectMissingError(f"snapshot {snapshot_id[:8]} was removed while it was looked up")


def _from_summary(run: RunRecord, summary: dict[str, Any], snapshot_id: str) -> SnapshotRecord:
    def count(name: str) -> int:
        value = summary.get(name)
        return count_of(value) if isinstance(value, int) else 0

    return SnapshotRecord(
        id=snapshot_id,
        client=run.client,
        job=run.job,
        fileset=run.fileset,
        fileset_digest=run.fileset_digest,
        storage=run.storage,
        pool=run.pool,
        level=run.level,
        run=run.id,
        start_ns=run.started_ns,
        server_ns=clock.now_ns(),
        files=count("files"),
        bytes=count("size_bytes"),
        stored_bytes=count("stored_bytes"),
        errors=count("problems"),
    )
