"""Rules for a second run of a job while the first waits or runs.

Of the runs that schedules have started, only the newest of a job waits, so that a client that was
offline for weeks makes one backup and not one for each night. It has the highest level of those
that it replaces.

For the rest as in Bareos: with Allow Duplicate Jobs both continue. Otherwise, of two backups: with
Cancel Lower Level Duplicates the one of the lower level ends, whichever it is. Then Cancel Queued
Duplicates ends an older one that waits, Cancel Running Duplicates one that runs. If none applies
the new one ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec import structs

from strongroom.daemons.director.runs.run_request import RunRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strongroom.config.settings.job import DuplicateRules
    from strongroom.daemons.director.catalog.runs import RunRecord

_RANK: Final = {"incremental": 1, "differential": 2, "full": 3}


# The error id of a run that waited and was replaced by the next of its schedule.
REPLACED_ID: Final = "replaced"
# The beginnings of `requested_by` that are no person's; the second is of a job's Run directive.
_UNATTENDED: Final = ("schedule ", "run ")


@dataclass(frozen=True, slots=True)
class DuplicateRuling:
    """Older runs to cancel, by id and why; `refusal`: why the new one ends instead, or ""."""

    cancelled: tuple[tuple[str, str], ...] = ()
    refusal: str = ""


def judge(new: RunRecord, others: Iterable[RunRecord], rules: DuplicateRules) -> DuplicateRuling:
    """Compare `new` with runs that have not ended, those that `replaced` found left out."""
    cancelled: list[tuple[str, str]] = []
    if rules.allow:
        return DuplicateRuling()
    for old in others:
        if (old.job, old.client, old.kind) != (new.job, new.client, new.kind):
            continue
        new_rank, old_rank = _RANK.get(new.level, 0), _RANK.get(old.level, 0)
        if rules.cancel_lower_level and new_rank < old_rank:
            return DuplicateRuling(
                (), f"run {old.id} of the job, which is {old.level}, has not ended"
            )
        why = f"run {new.id} of the same job replaces it"
        lower = rules.cancel_lower_level and new_rank > old_rank
        cancels = rules.cancel_running if old.state == "running" else rules.cancel_queued
        if not lower and not cancels:
            return DuplicateRuling(
                (), f"run {old.id} of the job has not ended; duplicates are not allowed"
            )
        cancelled.append((old.id, why))
    return DuplicateRuling(tuple(cancelled))


def replaced(new: RunRecord, others: Iterable[RunRecord]) -> list[RunRecord]:
    """The waiting runs that a new run makes superfluous; none for another attempt."""
    if new.attempt > 1 or not new.requested_by.startswith(_UNATTENDED):
        return []
    return [
        old
        for old in others
        if (old.job, old.client, old.kind) == (new.job, new.client, new.kind)
        and old.state in ("queued", "waiting")
        and old.requested_by.startswith(_UNATTENDED)
    ]


def with_highest_level(new: RunRecord, old_runs: Iterable[RunRecord]) -> RunRecord:
    """The new run with the level of the highest of those that it replaces, and what goes with it.

    A weekly full backup must not be lost to the incremental one of the next night.
    """
    highest = max((new, *old_runs), key=_planned_rank)
    if _planned_rank(highest) == _planned_rank(new):
        return new
    wanted = RunRequest.of(highest)
    own = RunRequest.of(new)
    request = structs.replace(
        wanted,
        deadline_bounds_end=own.deadline_bounds_end,
        companion_depth=own.companion_depth,
    )
    return structs.replace(
        new,
        level=wanted.level or highest.level,
        pool=highest.pool,
        storage=highest.storage,
        fileset=highest.fileset,
        request=request.stored(),
    )


def _planned_rank(record: RunRecord) -> int:
    return _RANK.get(RunRequest.of(record).level or record.level, 0)
