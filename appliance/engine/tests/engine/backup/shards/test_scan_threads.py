"""The threads of a shard: what runs at once, what waits, and how errors come back."""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kit.descriptors import is_readable
from strongroom.engine.backup.shards.scan_pace import (
    ATTRIBUTES,
    EXAMINE,
    READ,
    Pace,
    ShardPace,
    SharedPace,
)
from strongroom.engine.backup.shards.scan_threads import (
    BYTES_IN_FLIGHT,
    Lot,
    ScanPool,
    Steps,
    run_here,
)


def drive(pool: ScanPool) -> None:
    while pool.running:
        is_readable(pool.descriptor, 10)
        pool.proceed()


def run_in_pool(*generators: Steps) -> None:
    pool = ScanPool(SharedPace(1, Pace(4, 4)).of_shard(0))
    for steps in generators:
        pool.begin(steps)
    drive(pool)


def refuse() -> None:
    raise FileNotFoundError(2, "gone")


@pytest.mark.parametrize("run", [run_here, run_in_pool])
def test_results_come_in_the_order_of_their_calls(run: Callable[[Steps], None]) -> None:
    seen = []

    def steps() -> Steps:
        seen.append((yield Lot([lambda: 1, lambda: 2, lambda: 3])))
        seen.append((yield Lot([lambda: 4])))

    run(steps())
    assert seen == [[1, 2, 3], [4]]


@pytest.mark.parametrize("run", [run_here, run_in_pool])
def test_an_error_of_the_system_is_raised_where_the_lot_was_asked_for(
    run: Callable[[Steps], None],
) -> None:
    seen = []

    def steps() -> Steps:
        try:
            yield Lot([lambda: 1, refuse])
        except FileNotFoundError as error:
            seen.append(error.errno)
        seen.append((yield Lot([lambda: 2])))

    run(steps())
    assert seen == [2, [2]]


@pytest.mark.parametrize("run", [run_here, run_in_pool])
def test_what_a_generator_does_not_handle_ends_the_run(run: Callable[[Steps], None]) -> None:
    def steps() -> Steps:
        yield Lot([refuse])

    with pytest.raises(FileNotFoundError):
        run(steps())


def test_calls_of_all_generators_run_at_once() -> None:
    barrier = threading.Barrier(4, timeout=10)

    def steps() -> Steps:
        yield Lot([barrier.wait, barrier.wait])

    run_in_pool(steps(), steps())


def test_each_thread_has_a_working_directory_of_its_own(tmp_path: Path) -> None:
    before = os.getcwd()
    barrier = threading.Barrier(4, timeout=10)
    seen = set()

    def visit(name: str) -> str:
        (tmp_path / name).mkdir()
        os.chdir(tmp_path / name)
        barrier.wait()
        return os.path.basename(os.getcwd())

    def steps() -> Steps:
        names = [f"{number}" for number in range(4)]
        for name, found in zip(
            names, (yield Lot([lambda name=name: visit(name) for name in names])), strict=True
        ):
            seen.add((name, found))

    run_in_pool(steps())
    assert seen == {(f"{number}", f"{number}") for number in range(4)}
    assert os.getcwd() == before


def test_lots_with_much_content_wait_for_room_and_others_pass_by() -> None:
    lock = threading.Lock()
    held = most = 0
    passed = threading.Event()

    def heavy() -> None:
        nonlocal held, most
        with lock:
            held += 1
            most = max(most, held)
        passed.wait(10)
        with lock:
            held -= 1

    def reading() -> Steps:
        yield Lot([heavy], BYTES_IN_FLIGHT // 2 + 1)

    def looking() -> Steps:
        yield Lot([passed.set])

    run_in_pool(reading(), reading(), reading(), looking())
    assert most == 1


def test_only_calls_that_began_with_the_threads_there_are_count() -> None:
    told: list[tuple[str, int, int]] = []

    class Told(ShardPace):
        since = 0

        @property
        def since_ns(self) -> int:
            return self.since

        def took(self, kind: str, calls: int, operations: int, waited_ns: int) -> None:
            told.append((kind, calls, operations))

    two_threads = memoryview(array("Q", [2, 0]))
    pace = Told(memoryview(array("Q", bytes(128))), two_threads)
    pool = ScanPool(pace)

    def steps() -> Steps:
        yield Lot([int] * 4, 0, EXAMINE, 16)
        pace.since = 1 << 62
        yield Lot([int] * 4, 0, EXAMINE, 16)

    pool.begin(steps())
    drive(pool)
    assert told == [(EXAMINE, 1, 4)] * 4


def test_a_call_is_told_of_when_it_ends_and_all_operations_are_counted() -> None:
    told: list[int] = []

    class Told(ShardPace):
        def took(self, kind: str, calls: int, operations: int, waited_ns: int) -> None:
            told.append(operations)

    pool = ScanPool(Told(memoryview(array("Q", bytes(128))), memoryview(array("Q", [1, 0]))))

    def steps() -> Steps:
        # The last call finds what the others told, though the lot is not done.
        yield Lot([int, int, lambda: seen.extend(told)], 0, EXAMINE, 10)

    seen: list[int] = []
    pool.begin(steps())
    drive(pool)
    assert len(seen) == 2
    assert sum(told) == 10


def test_a_greater_number_of_threads_is_used_within_a_lot() -> None:
    common = array("Q", [2, 0])
    barrier = threading.Barrier(4, timeout=10)

    def grow() -> None:
        common[0] = 4

    def steps() -> Steps:
        yield Lot([grow, *[barrier.wait] * 4], 0, EXAMINE, 5)

    pool = ScanPool(ShardPace(memoryview(array("Q", bytes(128))), memoryview(common)))
    pool.begin(steps())
    drive(pool)


def test_threads_that_the_system_refuses_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    common = array("Q", [2, 0])
    done = 0
    start = threading.Thread.start

    def refuse_later(thread: threading.Thread) -> None:
        if common[0] > 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    def make() -> None:
        nonlocal done
        done += 1
        # More are wanted while calls are under way, then fewer than are wanted now.
        common[0] = 16 if done < 10 else 1

    def steps() -> Steps:
        yield Lot([make] * 40, 0, EXAMINE, 40)
        yield Lot([make] * 40, 0, EXAMINE, 40)

    monkeypatch.setattr(threading.Thread, "start", refuse_later)
    pool = ScanPool(ShardPace(memoryview(array("Q", bytes(128))), memoryview(common)))
    pool.begin(steps())
    for _ in range(100):
        if not pool.running:
            break
        is_readable(pool.descriptor, 1)
        pool.proceed()
    assert done == 80
    assert not pool.running


def test_without_any_thread_the_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_all(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def steps() -> Steps:
        yield Lot([int])

    monkeypatch.setattr(threading.Thread, "start", refuse_all)
    pool = ScanPool(SharedPace(1, Pace(4, 4)).of_shard(0))
    with pytest.raises(RuntimeError, match="thread"):
        pool.begin(steps())


def test_directories_are_examined_in_turn_and_read_before_more_are_examined() -> None:
    pool = ScanPool(SharedPace(1, Pace(1, 1)).of_shard(0))
    all_begun = threading.Event()
    made: list[str] = []

    def steps(name: str, kind: str) -> Steps:
        calls = [partial(made.append, f"{name}{number}") for number in range(2)]
        yield Lot(calls, 0, kind, 2)

    def hold() -> Steps:
        yield Lot([partial(all_begun.wait, 10)])

    pool.begin(hold())
    for name, kind in (("a", EXAMINE), ("b", EXAMINE), ("c", READ), ("d", ATTRIBUTES)):
        pool.begin(steps(name, kind))
    all_begun.set()
    drive(pool)
    assert made == ["c0", "c1", "d0", "d1", "a0", "b0", "a1", "b1"]


def test_more_directories_than_threads_are_under_way() -> None:
    pool = ScanPool(SharedPace(1, Pace(2, 2)).of_shard(0))
    begun = 0

    def steps() -> Steps:
        yield Lot([int])

    while pool.has_room:
        pool.begin(steps())
        begun += 1
    drive(pool)
    assert begun == 4
