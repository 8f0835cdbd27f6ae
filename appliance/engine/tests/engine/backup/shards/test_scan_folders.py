"""Which file systems are scanned with threads, found out from what their calls do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit.descriptors import is_readable
from strongroom.engine.backup.shards.scan_folders import Place, Places, ScanPlan
from strongroom.engine.backup.shards.scan_pace import Pace, ShardPace, SharedPace
from strongroom.engine.backup.shards.scan_threads import Lot, ScanPool, Steps, run_here

LOTS = 60
CALLS = 5


def pace_of(asked: int = 0) -> ShardPace:
    return SharedPace(1, Pace(asked, asked) if asked else Pace()).of_shard(0)


def unknown() -> Place:
    return Place(pace_of(), is_slow=False, is_settled=False)


def scanning(call: Callable[[int], Any], seen: list[Any]) -> Steps:
    """LOTS lots of CALLS calls, which get numbers."""
    for lot in range(LOTS):
        numbers = range(lot * CALLS, (lot + 1) * CALLS)
        calls = [lambda number=number: call(number) for number in numbers]
        seen.extend((yield Lot(calls, operations=CALLS)))


def wait(number: int) -> int:
    time.sleep(0.01)
    return number


def compute(number: int) -> int:
    sum(range(20_000))
    return number


def test_a_file_system_that_makes_wait_gets_threads_in_the_midst_of_a_directory() -> None:
    place = unknown()
    seen: list[int] = []
    steps = scanning(wait, seen)
    rest = run_here(steps, place)
    assert rest is not None
    assert place.is_slow
    assert len(seen) + len(rest[1]) < LOTS * CALLS
    pool = ScanPool(pace_of())
    pool.begin(steps, *rest)
    while pool.running:
        is_readable(pool.descriptor)
        pool.proceed()
    # Nothing was left out or done twice.
    assert seen == list(range(LOTS * CALLS))


def test_calls_that_compute_do_not_count_as_waiting(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    for call in (compute, lambda number: (os.lstat(path), number)[1]):
        place = unknown()
        seen: list[int] = []
        assert run_here(scanning(call, seen), place) is None
        assert not place.is_slow
        assert seen == list(range(LOTS * CALLS))


def test_one_call_that_waits_alone_says_nothing_of_the_others() -> None:
    def sometimes(number: int) -> int:
        return (wait if number % CALLS == 0 else compute)(number)

    place = unknown()
    seen: list[int] = []
    assert run_here(scanning(sometimes, seen), place) is None
    assert not place.is_slow
    assert seen == list(range(LOTS * CALLS))


def test_what_turned_slow_is_tried_again_without_threads() -> None:
    place = unknown()
    run_here(scanning(wait, []), place)
    assert place.is_slow
    assert not place.is_due
    while not place.is_due:
        time.sleep(0.05)
    place.try_without()
    assert run_here(scanning(compute, []), place) is None
    assert not place.is_slow


def test_a_file_system_that_becomes_slow_later_is_noticed() -> None:
    place = unknown()
    assert run_here(scanning(compute, []), place) is None
    # It is checked now and then only.
    for _ in range(2):
        run_here(scanning(wait, []), place)
    assert place.is_slow


def test_a_wide_directory_is_not_one_call_until_it_is_known_to_be_quick() -> None:
    place = unknown()
    names = list(range(10_000))
    windows = place.windows(names)
    assert len(windows) > 1000
    assert [name for window in windows for name in window] == names
    assert run_here(scanning(compute, []), place) is None
    windows = place.windows(names)
    assert len(windows) < 100
    assert [name for window in windows for name in window] == names
    assert place.windows([]) == [[]]


def test_a_directory_belongs_to_the_innermost_mount() -> None:
    places = Places(ScanPlan(0, {b"": False, b"home": True, b"home/local": False}), pace_of())
    for path, is_slow in (
        (b"", False), (b"homes", False), (b"home", True), (b"home/a/b", True),
        (b"home/local", False), (b"home/local/c", False), (b"etc/x", False),
    ):  # fmt: skip
        assert places.of(path).is_slow is is_slow
    deep = b"/x" * 100_000
    # As long as its text: each step up would copy all that is left of it.
    assert places.of(b"home/local" + deep) is places.of(b"home/local")
    assert places.of(b"home" + deep) is places.of(b"home")
    assert places.of(b"srv" + deep) is places.of(b"")


def test_a_number_that_was_asked_for_holds_everywhere() -> None:
    for asked, is_slow in ((1, False), (7, True)):
        place = Places(ScanPlan(asked, {}), pace_of(asked)).of(b"home/a")
        assert place.is_slow is is_slow
        run_here(scanning(wait, []), place)
        assert place.is_slow is is_slow
        assert not place.is_due
