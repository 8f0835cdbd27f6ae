"""Shards that wait for the same server have one number of scan threads."""

from __future__ import annotations

import pytest

from strongroom.engine.backup.shards.scan_pace import (
    EXAMINE,
    GIVEN,
    MOST,
    OTHER,
    QUICK,
    WAITS,
    Pace,
    ShardPace,
    SharedPace,
)

MILLISECOND_NS = 1_000_000


def back_up(pace: SharedPace, shards: list[ShardPace], rate: float, turns: int) -> None:
    """Each shard keeps its threads busy, and the server makes `rate` operations a millisecond."""
    for _ in range(turns):
        under_way = sum(shard.threads for shard in shards)
        for shard in shards:
            shard.begin()
            shard.is_full()
            waited_ns = round(max(1.0, under_way / rate) * MILLISECOND_NS)
            shard.took(EXAMINE, shard.threads, shard.threads, waited_ns * shard.threads)
        pace.adjust()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_shards_do_not_crowd_a_disk_that_answers_one_after_the_other(count: int) -> None:
    pace = SharedPace(count, Pace())
    shards = [pace.of_shard(number) for number in range(count)]
    back_up(pace, shards, 1.0, 200)
    seen = []
    for _ in range(100):
        back_up(pace, shards, 1.0, 1)
        seen.append(shards[0].threads)
    assert sum(seen) / len(seen) <= 3
    assert len({shard.threads for shard in shards}) == 1


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_server_with_room_gets_as_many_as_are_tried_from_each(count: int) -> None:
    pace = SharedPace(count, Pace())
    shards = [pace.of_shard(number) for number in range(count)]
    assert {shard.threads for shard in shards} == {4}
    back_up(pace, shards, 1e9, 50)
    assert {shard.threads for shard in shards} == {64}
    assert pace.choice() == (64, MOST)


def test_the_most_there_were_is_told_though_there_are_fewer_again() -> None:
    pace = SharedPace(2, Pace())
    shards = [pace.of_shard(number) for number in range(2)]
    back_up(pace, shards, 1e9, 50)
    back_up(pace, shards, 8.0, 50)
    assert shards[0].threads < 64
    assert pace.choice() == (64, WAITS)


def test_after_a_change_calls_are_only_counted_from_some_time_on() -> None:
    pace = SharedPace(1, Pace())
    shard = pace.of_shard(0)
    assert shard.since_ns == 0
    back_up(pace, [shard], 1e9, 10)
    assert shard.threads > 4
    assert shard.since_ns > 0


def test_a_shard_has_one_thread_until_it_needs_more() -> None:
    pace = SharedPace(2, Pace())
    assert not pace.is_adjusted
    assert pace.choice() == (1, QUICK)
    pace.of_shard(1).begin()
    assert (pace.threads_of(0), pace.threads_of(1)) == (1, 4)
    assert pace.is_adjusted


def test_a_number_that_was_given_stays() -> None:
    pace = SharedPace(1, Pace(9, 9))
    shard = pace.of_shard(0)
    assert pace.choice() == (1, GIVEN)
    back_up(pace, [shard], 1e9, 50)
    assert not pace.is_adjusted
    assert shard.threads == 9
    assert pace.choice() == (9, GIVEN)


def test_calls_that_are_not_alike_say_nothing() -> None:
    pace = SharedPace(1, Pace())
    shard = pace.of_shard(0)
    shard.begin()
    for turn in range(100):
        shard.is_full()
        shard.took(OTHER, 100, 100, MILLISECOND_NS << (turn % 8))
        pace.adjust()
    assert shard.threads == 4
