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

import mmap
from typing import Final, NamedTuple

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.engine.knobs.table import MOST_SCAN_THREADS

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
_MOST_UNKNOWN: Final = 8
# Waits that are shorter are not distinguished: what is in memory answers immediately.
_SHORTEST_SECONDS: Final = 50e-6

# What bounds the number: the file system answers immediately, so one thread is enough; it was
# given; it is the most that is tried; more would only wait longer; more threads were not faster.
QUICK, GIVEN, MOST, WAITS, TREE = BOUNDS = ("quick", "given", "most", "waits", "tree")


class _Kind(msgspec.Struct):
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


class _Trial(msgspec.Struct, frozen=True):
    """Half as many threads are tried.

    `threads`: before the first halving. `continues`: halve on while it helps. `helped`, `failed`:
    whether it did, and how often it did not. `unreported`: how often nothing that ended could say.
    """

    threads: int
    continues: bool
    helped: bool = False
    failed: int = 0
    unreported: int = 0


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
        """Judge what was reported, if it is enough.

        If the number changes: how many seconds calls continue to wait as they did before.
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
            self._halve(_Trial(self.threads, continues=self._doubles))
            self._doubles = False
        elif not self._is_full:
            self.bound = TREE
        elif crowding < _ROOM and (not self._doubles or self._is_tried_with_fewer()):
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
            if trial.continues and self.threads > 1:
                self._halve(msgspec.structs.replace(trial, helped=True))
        elif trial.helped:
            self.threads *= 2
        elif trial.failed + 1 < _TRIALS and self.threads > 1:
            self._halve(msgspec.structs.replace(trial, failed=trial.failed + 1))
        else:
            self.threads = trial.threads
            self._begin_anew()

    def _wait_for_more(self, trial: _Trial) -> None:
        """Only calls of other kinds have ended since: wait for some that can be compared.

        If none comes, what was crowded then is not a part of what waits now.
        """
        if trial.unreported + 1 < _MOST_UNKNOWN:
            self._trial = msgspec.structs.replace(trial, unreported=trial.unreported + 1)
            return
        self._trial = None
        self._doubles = trial.continues and not trial.helped
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

    def _is_tried_with_fewer(self) -> bool:
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


# One number of scan threads for all shards, in memory that they share.
#
# Shards that wait for one server, disk or link each see what all of them do to it: one that has
# fewer threads than before waits as long as ever if the others have more. So each only counts its
# calls; the coordinator adds them up and decides for all (`Pace`). Each word is written by one
# process.

# What calls do; each is compared with its own kind. OTHER calls differ too much to be compared.
OTHER: Final = ""
LIST, EXAMINE, ATTRIBUTES, READ = KINDS = ("list", "examine", "attributes", "read")
# Words of a shard: calls, operations and nanoseconds waited of each kind; how often all threads
# were in use; whether it has needed threads at all.
_KIND_WORDS: Final = 3
_FULL: Final = _KIND_WORDS * len(KINDS)
_IS_USED: Final = _FULL + 1
# Two cache lines for each shard, to avoid false sharing.
_WORDS: Final = 16
_WORD_BYTES: Final = 8
# Words of the coordinator, after those of the shards: the number of threads; the time from which
# on calls are counted.
_THREADS: Final = 0
_SINCE: Final = 1


class ScanChoice(NamedTuple):
    """Threads that shards scanned with at most, and what kept them from more."""

    threads: int
    bound: str


class ShardPace:
    """What a shard sees of the pace, and tells."""

    def __init__(self, words: memoryview, common: memoryview) -> None:
        self._words = words
        self._common = common

    @property
    def threads(self) -> int:
        """How many there should be now."""
        return self._common[_THREADS]

    @property
    def since_ns(self) -> int:
        """The time (`clock.elapsed_seconds`) from which on calls that begin are counted."""
        return self._common[_SINCE]

    def begin(self) -> None:
        """The shard needs threads."""
        self._words[_IS_USED] = 1

    def is_full(self) -> None:
        """Calls wait for a thread: all are in use."""
        self._words[_FULL] += 1

    def took(self, kind: str, calls: int, operations: int, waited_ns: int) -> None:
        """So many calls have ended: with so many operations, which waited so long together."""
        if kind == OTHER:
            return
        at = _KIND_WORDS * KINDS.index(kind)
        self._words[at] += calls
        self._words[at + 1] += operations
        self._words[at + 2] += waited_ns


class SharedPace:
    """The coordinator's. Create it before the shards are forked."""

    def __init__(self, shard_count: int, pace: Pace) -> None:
        memory = mmap.mmap(-1, (shard_count + 1) * _WORDS * _WORD_BYTES)
        self._words = memoryview(memory).cast("Q")
        self._shard_count = shard_count
        self._pace = pace
        self._common = self._of(shard_count)
        self._common[_THREADS] = pace.threads
        self._reported = [0] * _IS_USED

    def of_shard(self, number: int) -> ShardPace:
        """That of a shard."""
        return ShardPace(self._of(number), self._common)

    def threads_of(self, number: int) -> int:
        """Threads that a shard scans with now: its own, until it needs more."""
        return self._pace.threads if self._words[number * _WORDS + _IS_USED] else 1

    @property
    def is_adjusted(self) -> bool:
        """Whether there is something to adjust: no number was given, and shards need threads."""
        return not self._pace.is_fixed and self._used() > 0

    def adjust(self) -> None:
        """Add up what the shards reported, and choose the number."""
        used = self._used()
        shards = [self._of(number)[:_IS_USED].tolist() for number in range(self._shard_count)]
        reported = list(map(sum, zip(*shards, strict=True)))
        new = [now - before for now, before in zip(reported, self._reported, strict=True)]
        self._reported = reported
        if new[_FULL]:
            self._pace.is_full()
        for place, kind in enumerate(KINDS):
            calls, operations, waited_ns = new[_KIND_WORDS * place :][:_KIND_WORDS]
            if calls:
                self._pace.took(kind, calls / used, operations, waited_ns / SECOND_NS)
        settles = self._pace.adjust()
        if settles is not None:
            self._common[_SINCE] = round((clock.elapsed_seconds() + settles) * SECOND_NS)
            self._common[_THREADS] = self._pace.threads

    def choice(self) -> ScanChoice:
        """What was chosen so far."""
        if self._used():
            return ScanChoice(self._pace.highest, self._pace.bound)
        return ScanChoice(1, GIVEN if self._pace.is_fixed else QUICK)

    def _used(self) -> int:
        return sum(self._words[_IS_USED : self._shard_count * _WORDS : _WORDS])

    def _of(self, number: int) -> memoryview:
        return self._words[number * _WORDS : (number + 1) * _WORDS]
