"""When a pack is finished: by its size, and by its age where little goes through."""

import pytest

from strongroom import clock
from strongroom.content.codecs import Compression
from strongroom.jobs.writing.pack_lanes import (
    OPEN_PACKS,
    OPEN_SECONDS,
    WORTH_FINISHING_BYTES,
    BlockLane,
    LaneSettings,
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
    made = BlockLane(settings, lambda: Pack(packs["opened"]), packs["finished"].append)
    yield made
    made.finish()
    assert sorted(map(id, packs["finished"])) == sorted(map(id, packs["opened"]))


def store(lane: BlockLane, count: int) -> None:
    for number in range(count):
        block = number.to_bytes(4, "little") * (BLOCK_BYTES // 4)
        lane.store(bytes(24), bytes(24), [BLOCK_BYTES], [block])


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
