"""How many calls to a slow file system are worth having under way at once, in each shard.

Calls that wait for a server wait side by side, so more of them are faster, up to where the server,
a link or this machine has as much as it can do: from there on each only waits longer. So the number
doubles while calls wait about as long as ever; where they wait nearly twice as long it is halved,
and grows by a quarter from then on, up to what was too many. The first time it is halved on and on
while that shortens the waits, for the number that it began with may have been too many. If halving
it twice does not shorten the waits, it was not the crowd: the file system has become slower, and
the number is what it was before.

Calls of different kinds (look-ups, reads) are each compared with their own kind, if that is a part
of what is waited for: a network file system that gives attributes with the names answers look-ups
from memory, and how long those take says nothing of the server.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from strongroom.knobs.table import MOST_SCAN_THREADS

FIRST_THREADS: Final = 4
# A judgement takes so many calls of each thread: few while the number doubles or is tried at half,
# more later, so that it is not changed for the sake of noise.
_CALLS_A_THREAD: Final = 2
_LATER_CALLS_A_THREAD: Final = 6
# What was begun before a change is not compared with what comes after it; for at most so long.
_MOST_SETTLING_SECONDS: Final = 1.0
# The mean of so many operations of a kind is compared.
_OPERATIONS: Final = 12
# Waits, as a multiple of the shortest ones, below which there is room for more, and from which on
# there are too many; and the part of them at which a halving has helped.
_ROOM: Final = 1.4
_CROWD: Final = 1.8
_EASED: Final = 0.75
# The part of all waits of late that a kind needs to be judged by; what was waited counts less with
# every judgement.
_TELLING: Final = 0.1
_FADING: Final = 0.9
_TRIALS: Final = 2
# A trial ends after so many judgements that say nothing of it.
_MOST_UNTOLD: Final = 8
# Waits that are shorter are not told apart: what is in memory answers at once.
_SHORTEST_SECONDS: Final = 50e-6

# What bounds the number: the file system answers at once, so one thread is enough; it was given;
# it is the most that is tried; more would only wait longer; there was no more to examine at once.
QUICK, GIVEN, MOST, WAITS, TREE = BOUNDS = ("quick", "given", "most", "waits", "tree")


@dataclass(slots=True)
class _Kind:
    """Operations of a kind: those since the last judgement, and the shortest mean wait so far.

    `lately_seconds`: what they waited together, of which less counts the longer it is ago.
    `before_seconds`: the mean wait before the last halving, 0 where there was none.
    `first_threads`: how many threads there were when it was first judged, 0 before.
    """

    operations: int = 0
    waited_seconds: float = 0.0
    lately_seconds: float = 0.0
    shortest_seconds: float = 0.0
    before_seconds: float = 0.0
    first_threads: int = 0

    @property
    def is_enough(self) -> bool:
        return self.operations >= _OPERATIONS

    @property
    def mean_seconds(self) -> float:
        return max(_SHORTEST_SECONDS, self.waited_seconds / self.operations)


@dataclass(frozen=True, slots=True)
class _Trial:
    """Half as many threads are tried.

    `threads`: before the first halving. `goes_on`: halve on while it helps. `helped`, `failed`:
    whether it did, and how often it did not. `untold`: how often nothing that ended could say.
    """

    threads: int
    goes_on: bool
    helped: bool = False
    failed: int = 0
    untold: int = 0


class Pace:
    """`threads` says how many now; with `most` equal to `first` it stays so."""

    def __init__(self, first: int = FIRST_THREADS, most: int = MOST_SCAN_THREADS) -> None:
        self.threads = first
        self.highest = first
        self.is_fixed = first == most
        self.bound = GIVEN if self.is_fixed else TREE
        self._first = first
        self._most = most
        self._kinds: dict[str, _Kind] = {}
        self._calls = 0.0
        self._waited_seconds = 0.0
        self._is_full = False
        self._doubles = True
        # With how many calls waited too long, the last time.
        self._crowd_threads = 0
        self._trial: _Trial | None = None

    def is_full(self) -> None:
        """Calls wait for a thread: all are in use."""
        self._is_full = True

    def took(self, kind: str, calls: float, operations: int, waited_seconds: float) -> None:
        """So many calls of a shard have ended: with so many operations, which waited together.

        Only calls that began when the number was what it is now.
        """
        found = self._kinds.setdefault(kind, _Kind())
        found.operations += operations
        found.waited_seconds += waited_seconds
        found.lately_seconds += waited_seconds
        self._calls += calls
        self._waited_seconds += waited_seconds

    def adjust(self) -> float | None:
        """Judge what was told, if it is enough.

        If the number changes: how many seconds calls go on to wait as they did before.
        """
        is_first = self._doubles or self._trial is not None
        calls = _CALLS_A_THREAD if is_first else _LATER_CALLS_A_THREAD
        if self.is_fixed or self._calls < calls * self.threads:
            return None
        before = self.threads
        settles = min(_MOST_SETTLING_SECONDS, self._waited_seconds / self._calls)
        self._judge()
        for one in self._kinds.values():
            one.lately_seconds *= _FADING
            if one.is_enough or self.threads != before:
                one.operations, one.waited_seconds = 0, 0.0
        self._calls = self._waited_seconds = 0
        self._is_full = False
        return None if self.threads == before else settles

    def _judge(self) -> None:
        crowding = self._crowding()
        if self._trial is not None:
            eased = self._against_before()
            if eased is not None:
                self._end_trial(self._trial, eased <= _EASED)
            elif self._telling():
                self._wait_for_more(self._trial)
        elif crowding is None:
            # Only calls of a new kind, which say nothing yet.
            return
        elif crowding >= _CROWD and self.threads > 1:
            self.bound = WAITS
            self._crowd_threads = self.threads
            self._halve(_Trial(self.threads, goes_on=self._doubles))
            self._doubles = False
        elif not self._is_full:
            self.bound = TREE
        elif crowding < _ROOM and (not self._doubles or self._is_told_by_fewer()):
            # Where there is room with as many as were too many once, something else was in the way.
            doubles = self._doubles or self.threads >= self._crowd_threads
            step = self.threads if doubles else max(1, self.threads // 4)
            self.threads = min(self._most, self.threads + step)
            self.highest = max(self.highest, self.threads)
            self.bound = MOST if self.threads == self._most else WAITS

    def _halve(self, trial: _Trial) -> None:
        self._trial = trial
        for kind in self._kinds.values():
            if kind.is_enough:
                kind.before_seconds = kind.mean_seconds
            elif not trial.helped:
                kind.before_seconds = 0.0
        self.threads //= 2

    def _end_trial(self, trial: _Trial, has_helped: bool) -> None:
        """Half as many threads were tried."""
        self._trial = None
        if has_helped:
            if trial.goes_on and self.threads > 1:
                self._halve(replace(trial, helped=True))
        elif trial.helped:
            self.threads *= 2
        elif trial.failed + 1 < _TRIALS and self.threads > 1:
            self._halve(replace(trial, failed=trial.failed + 1))
        else:
            self.threads = trial.threads
            self._begin_anew()

    def _wait_for_more(self, trial: _Trial) -> None:
        """Only calls of other kinds have ended since: wait for some that can be compared.

        If none comes, what was crowded then is no part of what waits now.
        """
        if trial.untold + 1 < _MOST_UNTOLD:
            self._trial = replace(trial, untold=trial.untold + 1)
            return
        self._trial = None
        self._doubles = trial.goes_on and not trial.helped
        self.threads = 2 * self.threads if trial.helped else trial.threads

    def _telling(self) -> list[_Kind]:
        """The kinds to judge by: enough of them have ended, and they are a part of what waits."""
        lately = sum(kind.lately_seconds for kind in self._kinds.values())
        return [
            kind
            for kind in self._kinds.values()
            if kind.is_enough and kind.lately_seconds >= _TELLING * lately
        ]

    def _crowding(self) -> float | None:
        """How long calls waited, as a multiple of the shortest waits of their kinds.

        None where no call was of a kind that was seen before and tells something.
        """
        waited = shortest = 0.0
        for kind in self._telling():
            mean = kind.mean_seconds
            is_new = not kind.shortest_seconds
            if is_new:
                kind.first_threads = self.threads
            if is_new or mean < kind.shortest_seconds:
                kind.shortest_seconds = mean
            if not is_new:
                waited += kind.operations * mean
                shortest += kind.operations * kind.shortest_seconds
        return waited / shortest if shortest else None

    def _is_told_by_fewer(self) -> bool:
        """Whether a kind that tells was judged with fewer threads, too: doubling was right.

        A kind that was first seen since would find any number good.
        """
        return self.threads == self._first or any(
            kind.first_threads < self.threads for kind in self._telling()
        )

    def _against_before(self) -> float | None:
        """How long calls waited, as a multiple of what they did before the last halving.

        None where no call can be compared.
        """
        compared = [one for one in self._telling() if one.before_seconds]
        before = sum(kind.operations * kind.before_seconds for kind in compared)
        waited = sum(kind.operations * kind.mean_seconds for kind in compared)
        return waited / before if before else None

    def _begin_anew(self) -> None:
        """The file system is slower than it was: compare with what it is now."""
        for kind in self._kinds.values():
            if kind.is_enough:
                kind.shortest_seconds = kind.mean_seconds
