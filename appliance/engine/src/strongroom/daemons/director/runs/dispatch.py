"""Decides which waiting runs may start now: priorities and limits, without side effects.

As in Bareos, a lower number starts first. While anything runs, only runs of its priority start;
one of a lower number waits for the others to end unless it and all of them allow mixed priorities.
A run that is held back by a limit also holds back all of higher numbers, or it might never start.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Contender:
    """A run as limits see it. client, storage: "" where it uses none. reads: from the storage."""

    id: str
    job: str
    client: str
    storage: str
    priority: int
    reads: bool = False
    allows_mixed: bool = False


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """How many runs may be under way at once, by name; what is not named has no limit.

    storage_reads: of runs that read; 0 is no limit of its own.
    """

    director: int
    clients: Mapping[str, int] = field(default_factory=dict)
    storages: Mapping[str, int] = field(default_factory=dict)
    storage_reads: Mapping[str, int] = field(default_factory=dict)
    jobs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """Ids to start, in order, and for each other run why it waits."""

    start: tuple[str, ...]
    reasons: Mapping[str, str]


def choose(
    waiting: Sequence[Contender], running: Iterable[Contender], limits: ConcurrencyLimits
) -> Decision:
    """Decide. `waiting`: what could start now, the longest waiting first."""
    occupied = list(running)
    use = _Use(occupied)
    start: list[str] = []
    reasons: dict[str, str] = {}
    held_back: Contender | None = None
    for contender in sorted(waiting, key=lambda one: one.priority):
        reason = _reason(contender, occupied, held_back) or use.reason(contender, limits)
        if reason:
            reasons[contender.id] = reason
            held_back = held_back or contender
            continue
        start.append(contender.id)
        occupied.append(contender)
        use.add(contender)
    return Decision(tuple(start), reasons)


def _reason(
    contender: Contender, occupied: Sequence[Contender], held_back: Contender | None
) -> str:
    if held_back is not None and held_back.priority < contender.priority:
        return f"waits behind run {held_back.id[:8]}, which has priority {held_back.priority}"
    if not occupied:
        return ""
    first = min(one.priority for one in occupied)
    if contender.priority > first:
        return f"waits for runs of priority {first} to end"
    last = max(one.priority for one in occupied)
    mixes = contender.allows_mixed and all(one.allows_mixed for one in occupied)
    if contender.priority < last and not mixes:
        return f"waits for runs of priority {last} to end, which it may not be mixed with"
    return ""


class _Use:
    """How much of each limit is used."""

    def __init__(self, occupied: Iterable[Contender]) -> None:
        self._all = 0
        self._clients: Counter[str] = Counter()
        self._storages: Counter[str] = Counter()
        self._reads: Counter[str] = Counter()
        self._jobs: Counter[str] = Counter()
        for one in occupied:
            self.add(one)

    def add(self, one: Contender) -> None:
        self._all += 1
        self._jobs[one.job] += 1
        if one.client:
            self._clients[one.client] += 1
        if one.storage:
            self._storages[one.storage] += 1
            self._reads[one.storage] += one.reads

    def reason(self, one: Contender, limits: ConcurrencyLimits) -> str:
        if self._all >= limits.director:
            return f"the director runs {self._all} of at most {limits.director} jobs"
        for what, name, used, most in (
            ("job", one.job, self._jobs, limits.jobs),
            ("client", one.client, self._clients, limits.clients),
            ("storage", one.storage, self._storages, limits.storages),
        ):
            if name in most and used[name] >= most[name]:
                return f"{what} {name} has {used[name]} of at most {most[name]} runs"
        reads = limits.storage_reads.get(one.storage, 0)
        if one.reads and reads and self._reads[one.storage] >= reads:
            return f"storage {one.storage} has {reads} of at most {reads} runs that read"
        return ""
