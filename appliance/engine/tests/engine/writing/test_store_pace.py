"""How many blocks may wait for the thread that stores."""

from __future__ import annotations

import threading

from strongroom.engine.writing.store_pace import LEAST_QUEUED, BlockQueue, StorePace

TURNS = 400


def test_the_queue_grows_while_both_sides_wait_and_not_beyond_its_bound() -> None:
    pace = StorePace(48)
    for turn in range(TURNS):
        before = pace.queued_blocks
        longer = pace.queued(turn % 2 * (before - 1), had_to_wait=turn % 2 == 1)
        assert pace.queued_blocks == before + longer
    assert pace.queued_blocks == 48


def test_a_store_that_is_the_bound_gets_no_longer_queue() -> None:
    pace = StorePace(64)
    for _ in range(TURNS):
        pace.queued(pace.queued_blocks - 1, had_to_wait=True)
    assert pace.queued_blocks == LEAST_QUEUED


def test_a_queue_that_is_not_needed_any_more_is_shortened() -> None:
    pace = StorePace(64)
    for turn in range(TURNS):
        pace.queued(turn % 2 * (pace.queued_blocks - 1), had_to_wait=turn % 2 == 1)
    assert pace.queued_blocks == 64
    for _ in range(TURNS):
        pace.queued(0, had_to_wait=False)
    assert pace.queued_blocks == LEAST_QUEUED


def test_a_bound_of_one_block_holds() -> None:
    pace = StorePace(1)
    for turn in range(TURNS):
        pace.queued(0, had_to_wait=turn % 2 == 1)
        assert pace.queued_blocks == 1


def test_a_full_queue_makes_wait_until_there_is_room() -> None:
    queue = BlockQueue(1)
    assert queue.enter() == (0, False)
    entered = threading.Event()

    def enter() -> None:
        assert queue.enter() == (1, True)
        entered.set()

    waiting = threading.Thread(target=enter)
    waiting.start()
    assert not entered.wait(0.05)
    queue.leave()
    assert entered.wait(60)
    waiting.join()
