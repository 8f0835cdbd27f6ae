"""Checks that a snapshot that an agent reports exists, and that its run made it.

The repository decides: the snapshot's envelope must name the client and the job of the run, and
carry the tag of the run, which no one knew before the run was started. Its totals must be possible:
false ones are refused, never replaced. Then its listing is walked: one that refers to what is not
there, or whose totals are not those of its rows, is entered as *false*, with the reason: it is
shown, counts for nothing, and nothing keeps it. While the repository is unavailable nothing is
entered; the next comparison of catalog and repository does that (`reconciliation`). Only where the
director has no access to the repository at all is the agent's report accepted; nothing is removed
there either.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeGuard

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import DamageError, ObjectMissingError, StrongroomError
from strongroom.director.context import DirectorContext
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.shown_text import shown
from strongroom.engine.repository.snapshots import RUN_TAG, read_snapshot
from strongroom.engine.repository.snapshots import Snapshot as StoredSnapshot
from strongroom.net.control.messages import RunEnded

_log = logging.getLogger(__name__)
_CLOCK_TOLERANCE_NS: Final = 600 * SECOND_NS
_ID_DIGITS: Final = 64
_LATER: Final = "it is entered when catalog and repository are compared next"
_MOST_COUNTED: Final = 1 << 62


class Confirmed(NamedTuple):
    """The snapshot for the catalog (None: no one can look now), and lines for the run's log."""

    record: Snapshot | None
    lines: list[tuple[str, str]]


def confirm_snapshot(context: DirectorContext, run: Run, message: RunEnded) -> Confirmed:
    """Look up the snapshot of a backup.

    Raises ObjectMissingError when it does not exist, DamageError when its content does not match
    its name or it is not of this run.
    """
    snapshot_id = message.snapshot
    if len(snapshot_id) != _ID_DIGITS or any(c not in "0123456789abcdef" for c in snapshot_id):
        raise DamageError(f"the agent reports an invalid snapshot id: {snapshot_id[:80]!r}")
    try:
        snapshot, received_ns = _read(context, run.storage, snapshot_id)
    except DamageError:
        raise
    except (StrongroomError, OSError) as error:
        text = f"the snapshot could not be looked up: {error}"
        if run.storage in context.repositories.names:
            return Confirmed(None, [("warning", f"{text}; {_LATER}")])
        record = _from_summary(run, message.summary, snapshot_id)
        return Confirmed(record, [("warning", text)])
    if fault := fault_of(snapshot, run):
        raise DamageError(f"snapshot {snapshot_id[:8]} {fault}; find out what the agent did")
    lines: list[tuple[str, str]] = []
    start_ns = start_of(snapshot, run)
    if start_ns != snapshot.start_ns:
        seconds = (snapshot.start_ns - start_ns) / SECOND_NS
        lines.append(
            ("warning", f"the client's clock is about {seconds:+.0f} s off; ours was taken")
        )
    return Confirmed(record_of(snapshot, run, start_ns, received_ns), lines)


def walk_confirmed(context: DirectorContext, run: Run, confirmed: Confirmed) -> Confirmed:
    """Walk the snapshot; it is not entered where that cannot be done now. Blocks for long."""
    record = confirmed.record
    if record is None or run.storage not in context.repositories.names:
        return confirmed
    try:
        found = context.walk(run.storage, [record.id])
    except (StrongroomError, OSError) as error:
        text = f"the listing of the snapshot could not be walked: {error}; {_LATER}"
        return Confirmed(None, [*confirmed.lines, ("warning", text)])
    if record.id not in found:
        raise ObjectMissingError(f"snapshot {record.id[:8]} was removed while it was looked up")
    return confirmed._replace(record=replace(record, false_reason=found[record.id]))


def start_of(snapshot: StoredSnapshot, run: Run) -> int:
    """When the backup began: by its client's clock, unless ours says otherwise."""
    is_off = abs(snapshot.start_ns - run.started_ns) > _CLOCK_TOLERANCE_NS
    return run.started_ns if run.started_ns and is_off else snapshot.start_ns


def received_at(snapshot: StoredSnapshot, stored_ns: int) -> int:
    """When the store got it: the snapshot's own time if it agrees with the store's (stored_ns).

    Its own time alone is set by its writer, which could evade Minimum Retention or extend it
    forever
    ; and the director's own clock may have jumped.
    """
    is_true = abs(snapshot.server_ns - stored_ns) <= _CLOCK_TOLERANCE_NS
    return snapshot.server_ns if is_true else stored_ns


def fault_of(snapshot: StoredSnapshot, run: Run) -> str:
    """Why a snapshot that an agent stored is not the one that `run` made; "" if it is."""
    if snapshot.host != run.client or snapshot.job != run.job:
        # Anyone who may see the run may not know of the other client.
        claimed = shown(f"job {snapshot.job!r} of {snapshot.host!r}")
        _log.warning("run %s: snapshot %s says that it is of %s", run.id, snapshot.id, claimed)
        return "is of another job or client, not of this run"
    if run_tag(snapshot) != run.id:
        return "does not carry the tag of this run"
    if snapshot.original:
        return "claims to be a copy, which agents do not make"
    return false_total(snapshot)


def run_tag(snapshot: StoredSnapshot) -> str:
    """The id of the run that a snapshot says made it; "" if it names none, or several."""
    found = [tag[len(RUN_TAG) :] for tag in snapshot.tags if tag.startswith(RUN_TAG)]
    return found[0] if len(found) == 1 else ""


def false_total(snapshot: StoredSnapshot) -> str:
    """The number of a snapshot that cannot be true; "" if all can."""
    totals = snapshot.totals
    named = {
        "files": totals.files,
        "bytes of files": totals.content_bytes,
        "stored bytes": totals.stored_bytes,
        "errors": snapshot.error_count,
        "missing paths": snapshot.missing_paths,
    }
    false = [f"{value} {what}" for what, value in named.items() if not is_count(value)]
    return f"says that it has {false[0]}" if false else ""


def record_of(snapshot: StoredSnapshot, run: Run, start_ns: int, received_ns: int) -> Snapshot:
    """A snapshot of a run for the catalog; `received_ns`: when the store got it."""
    return replace(as_stored(snapshot, received_ns), start_ns=start_ns, **_of_run(run))


def as_stored(snapshot: StoredSnapshot, received_ns: int) -> Snapshot:
    """A snapshot for the catalog as far as it alone tells."""
    totals = snapshot.totals
    return Snapshot(
        id=snapshot.id,
        client=snapshot.host,
        job=snapshot.job,
        fileset=snapshot.fileset,
        level=snapshot.level,
        original=snapshot.original,
        start_ns=snapshot.start_ns,
        server_ns=received_ns,
        files=totals.files,
        bytes=totals.content_bytes,
        stored_bytes=totals.stored_bytes,
        errors=snapshot.error_count,
        missing_paths=snapshot.missing_paths,
        tags=snapshot.tags,
    )


def _of_run(run: Run) -> dict[str, Any]:
    """What its run says of a snapshot."""
    same = ("client", "job", "fileset", "fileset_digest", "storage", "pool", "level")
    return {"run": run.id} | {name: getattr(run, name) for name in same}


def is_count(value: object) -> TypeGuard[int]:
    """Whether this can be a number of files or bytes; databases accept no larger ones."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_COUNTED


def _read(context: DirectorContext, storage: str, snapshot_id: str) -> tuple[StoredSnapshot, int]:
    """A snapshot, and when the store got it."""
    repository = context.repositories.open(storage)
    try:
        snapshot = read_snapshot(repository.store, repository.key, snapshot_id)
        for info in repository.store.list("snapshots"):
            if info.name == snapshot_id:
                return snapshot, received_at(snapshot, info.modified_ns)
    finally:
        repository.close()
    raise ObjectMissingError(f"snapshot {snapshot_id[:8]} was removed while it was looked up")


def _from_summary(run: Run, summary: dict[str, Any], snapshot_id: str) -> Snapshot:
    def count(name: str) -> int:
        # Those that are no counts are reported in the run's log, with the other figures of the
        # summary.
        value = summary.get(name)
        return value if is_count(value) else 0

    return Snapshot(
        id=snapshot_id,
        **_of_run(run),
        start_ns=run.started_ns,
        server_ns=clock.now_ns(),
        files=count("files"),
        bytes=count("size_bytes"),
        stored_bytes=count("stored_bytes"),
        errors=count("problems"),
        missing_paths=count("missing_paths"),
    )
