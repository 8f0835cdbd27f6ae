"""When a pack is finished: by its size, and by its age where little goes through; who writes it."""

import threading
import time

import pytest

from strongroom.base import clock
from strongroom.engine.content.codecs import Compression
from strongroom.engine.repository.packs import KIND_DATA
from strongroom.engine.writing.pack_lanes import (
    OPEN_PACKS,
    OPEN_SECONDS,
    WORTH_FINISHING_BYTES,
    BlockLane,
    LaneSettings,
    NewBlock,
)

BLOCK_BYTES = 64 << 10


class Pack:
    """Counts what it is given; its footer is itself."""

    def __init__(self, opened: list["Pack"]) -> None:
        opened.append(self)
        self.size_bytes = 0
        self.is_aborted = False

    def add(
        self, block_id, chunk_ids, chunk_lengths, codec, compressed, raw_length, *, offered
    ) -> None:
        self.size_bytes += len(compressed)

    def finish(self) -> "Pack":
        return self

    def abort(self) -> None:
        self.is_aborted = True


class Packs:
    """A PackTarget over two lists."""

    def __init__(self, packs, make) -> None:
        self._packs, self._make = packs, make

    def open_pack(self, kind):
        assert kind == KIND_DATA
        return self._make()

    def take(self, footer) -> None:
        self._packs["finished"].append(footer)


@pytest.fixture
def now(monkeypatch):
    seconds = [1000.0]
    monkeypatch.setattr(clock, "elapsed_seconds", lambda: seconds[0])
    return seconds


@pytest.fixture
def packs():
    return {"opened": [], "finished": []}


@pytest.fixture
def lane(packs):
    settings = LaneSettings((Compression("none"),), 0, 1, 32 << 20)
    made = BlockLane(settings, Packs(packs, lambda: Pack(packs["opened"])))
    yield made
    made.finish()
    assert sorted(map(id, packs["finished"])) == sorted(map(id, packs["opened"]))


def store(lane: BlockLane, count: int) -> None:
    for number in range(count):
        block = number.to_bytes(4, "little") * (BLOCK_BYTES // 4)
        lane.store(NewBlock(bytes(24), bytes(24), [BLOCK_BYTES]), [block])


def test_packs_stay_open_while_they_are_young(lane, packs, now):
    store(lane, OPEN_PACKS * 40)
    now[0] += OPEN_SECONDS - 1
    store(lane, OPEN_PACKS * 40)
    assert len(packs["opened"]) == OPEN_PACKS


def test_a_pack_that_was_open_for_long_is_finished_with_its_next_block(lane, packs, now):
    store(lane, OPEN_PACKS * 40)
    first = list(packs["opened"])
    assert len(first) == OPEN_PACKS
    assert all(pack.size_bytes > WORTH_FINISHING_BYTES for pack in first)
    now[0] += OPEN_SECONDS
    # Which of them takes a block is drawn: this many leave out none but by a chance of 2 ** -60.
    store(lane, 60)
    assert len(packs["opened"]) == 2 * OPEN_PACKS, "the age of a new pack begins anew"
    lane.finish()
    assert all(any(one is done for done in packs["finished"]) for one in first)


def test_a_pack_that_holds_next_to_nothing_waits_for_more(lane, packs, now):
    store(lane, OPEN_PACKS)
    now[0] += 100 * OPEN_SECONDS
    store(lane, OPEN_PACKS)
    assert len(packs["opened"]) <= OPEN_PACKS


class SlowPack(Pack):
    """Keeps what it is given, and makes wait for each block."""

    seconds = 0.005

    def __init__(self, opened, kept, threads) -> None:
        super().__init__(opened)
        self.kept = kept
        self.threads = threads

    def add(self, block_id, *rest, **options) -> None:
        time.sleep(self.seconds)
        super().add(block_id, *rest, **options)
        self.kept.append((block_id, bytes(rest[3])))
        self.threads.add(threading.current_thread().name)


def adaptive(packs, kept, threads, pack=SlowPack) -> BlockLane:
    settings = LaneSettings((Compression("none"),), 0, 64, 32 << 20, adapts=True)
    make = lambda: pack(packs["opened"], kept, threads)  # noqa: E731
    return BlockLane(settings, Packs(packs, make))


def store_reusing_the_buffer(lane: BlockLane, count: int) -> list[tuple[bytes, bytes]]:
    buffer = bytearray(BLOCK_BYTES)
    given = []
    for number in range(count):
        buffer[:] = number.to_bytes(4, "little") * (BLOCK_BYTES // 4)
        block_id = number.to_bytes(24, "little")
        given.append((block_id, bytes(buffer)))
        lane.store(NewBlock(block_id, bytes(24), [BLOCK_BYTES]), [memoryview(buffer)])
    return given


def test_a_store_that_makes_wait_gets_a_thread_and_every_block(packs):
    kept, threads = [], set()
    lane = adaptive(packs, kept, threads)
    given = store_reusing_the_buffer(lane, 150)
    lane.finish()
    assert sorted(kept) == sorted(given)
    # Those of the beginning were stored by the shard's own thread.
    assert len(threads) == 2
    assert sorted(map(id, packs["finished"])) == sorted(map(id, packs["opened"]))


def test_a_store_that_takes_blocks_at_once_gets_no_thread(packs):
    class QuickPack(SlowPack):
        seconds = 0

        def add(self, block_id, *rest, **options) -> None:
            self.threads.add(threading.current_thread().name)

    seen = []
    # Beside much other work this process may have had to wait itself, once.
    for _ in range(3):
        threads = set()
        lane = adaptive(packs, [], threads, QuickPack)
        store_reusing_the_buffer(lane, 500)
        lane.finish()
        seen.append(threads)
    assert {threading.current_thread().name} in seen


def test_what_the_thread_cannot_store_ends_the_job(packs):
    class FullPack(SlowPack):
        def add(self, block_id, *rest, **options) -> None:
            if block_id[0] == 100:
                raise OSError(28, "no space")
            super().add(block_id, *rest, **options)

    lane = adaptive(packs, [], set(), FullPack)

    def store_all() -> None:
        store_reusing_the_buffer(lane, 150)
        lane.finish()

    with pytest.raises(OSError, match="no space"):
        store_all()
    lane.abort()
    assert all(pack.is_aborted for pack in packs["opened"])
