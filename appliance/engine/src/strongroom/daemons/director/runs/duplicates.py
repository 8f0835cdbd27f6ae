"""Rules for a second run of a job while the first waits or runs, as in Bareos.

With Allow Duplicate Jobs both continue. Otherwise, of two backups: with Cancel Lower Level
Duplicates the one of the lower level ends, whichever it is. Then Cancel Queued Duplicates ends an
older one that waits, Cancel Running Duplicates one that runs. If none applies the new one ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strongroom.config.settings.job import DuplicateRules
    from strongroom.daemons.director.catalog.runs import RunRecord

_RANK: Final = {"incremental": 1, "differential": 2, "full": 3}


@dataclass(frozen=True, slots=True)
class DuplicateRuling:
    """Older runs to cancel, by id and why; `refusal`: why the new one ends instead, or ""."""

    cancelled: tuple[tuple[str, str], ...] = ()
    refusal: str = ""


def judge(new: RunRecord, others: Iterable[RunRecord], rules: DuplicateRules) -> DuplicateRuling:
    """Compare `new` with runs that have not ended."""
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
