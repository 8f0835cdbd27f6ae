"""The number of scan threads, against simulated file systems that answer late."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from strongroom.engine.backup.shards.scan_pace import GIVEN, MOST, TREE, WAITS, Pace

# Seconds that an operation waits with so many of them under way.
Server = Callable[[int], float]


def server(latency: float, rate: float = float("inf")) -> Server:
    """One that answers after `latency`, and at most `rate` operations a second."""
    return lambda threads: max(latency, threads / rate)


def rate_of(answers: Server, threads: int) -> float:
    return threads / answers(threads)


def run(
    pace: Pace, answers: Server, calls: int, noise: Random | None = None, busy: int = 999
) -> None:
    """`calls` calls of one operation; a tree that has `busy` of them at once."""
    done = 0
    under_way = [pace.threads] * min(busy, pace.threads)
    while done < calls:
        # Each call was begun when so many were under way.
        begun_with = under_way.pop(0)
        waited = answers(min(busy, begun_with))
        if noise is not None:
            waited *= noise.uniform(0.7, 1.5)
        if busy > pace.threads:
            pace.is_full()
        if begun_with == pace.threads:
            pace.took("examine", 1, 1, waited)
            pace.adjust()
        done += 1
        while len(under_way) < min(busy, pace.threads):
            under_way.append(pace.threads)


@pytest.mark.parametrize("latency", [0.0002, 0.001, 0.005, 0.05])
def test_a_server_with_room_gets_as_many_as_are_tried(latency):
    pace = Pace(8, 64)
    run(pace, server(latency), 600)
    assert (pace.threads, pace.bound) == (64, MOST)


@pytest.mark.parametrize("worth", [2, 4, 8, 20, 40])
def test_a_server_at_its_limit_is_kept_there_and_not_crowded(worth):
    answers = server(0.001, worth / 0.001)
    pace = Pace(8, 64)
    run(pace, answers, 4000)
    seen = []
    for _ in range(50):
        run(pace, answers, 100)
        seen.append(pace.threads)
    best = max(rate_of(answers, threads) for threads in range(1, 65))
    mean = sum(rate_of(answers, threads) for threads in seen) / len(seen)
    assert mean >= 0.9 * best
    assert max(seen) <= 3 * worth + 1


@pytest.mark.parametrize("seed", range(5))
def test_noise_does_not_keep_it_from_what_is_worth_having(seed):
    pace = Pace(8, 64)
    noise = Random(seed)
    run(pace, server(0.002), 3000, noise)
    seen = []
    for _ in range(50):
        run(pace, server(0.002), 100, noise)
        seen.append(pace.threads)
    assert sum(seen) / len(seen) > 0.8 * 64


def test_what_was_in_memory_first_does_not_count_as_the_shortest_wait():
    pace = Pace(8, 64)
    run(pace, server(0.0), 500)
    run(pace, server(0.005), 2000)
    assert pace.threads == 64


@pytest.mark.parametrize("worth", [1, 2, 4])
def test_a_server_that_is_crowded_from_the_beginning_gets_no_more(worth):
    answers = server(0.0002, worth / 0.0002)
    pace = Pace(8, 64)
    run(pace, answers, 3000)
    assert pace.highest == 16
    assert pace.threads <= 8


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_a_disk_that_answers_one_after_the_other_gets_few(shards):
    # All shards do the same.
    answers = server(0.0003, 1 / 0.0003 / shards)
    pace = Pace(16, 64)
    run(pace, answers, 1500)
    seen = []
    for _ in range(50):
        run(pace, answers, 100)
        seen.append(pace.threads)
    assert sum(seen) / len(seen) <= 3


def test_kinds_that_take_turns_do_not_hide_that_a_disk_is_crowded():
    # A directory is examined, then its files are read: a judgement sees one kind alone.
    pace = Pace(16, 64)
    highest = []
    for turn in range(400):
        for _ in range(60):
            pace.is_full()
            waited = pace.threads * 0.0003
            pace.took("examine" if turn % 2 else "read", 1, 1, waited * (1 + turn % 2))
            pace.adjust()
        highest.append(pace.threads)
    assert max(highest[100:]) <= 4


def test_a_server_that_becomes_slower_or_is_shared_is_followed():
    pace = Pace(8, 64)
    run(pace, server(0.001), 2000)
    run(pace, server(0.001, 4000), 6000)
    assert pace.threads <= 12
    assert pace.bound == WAITS
    run(pace, server(0.001), 6000)
    assert pace.threads == 64


def test_a_tree_without_more_at_once_does_not_raise_it():
    pace = Pace(8, 64)
    run(pace, server(0.001), 2000, busy=5)
    assert (pace.threads, pace.bound) == (8, TREE)


def test_kinds_are_compared_with_themselves():
    pace = Pace(8, 64)
    for turn in range(400):
        pace.is_full()
        if turn % 7 < 4:
            pace.took("examine", 16, 64, 64 * 0.001)
        else:
            pace.took("read", 16, 16, 16 * 0.02)
        pace.adjust()
    assert pace.threads == 64


def test_waits_that_are_a_small_part_of_all_do_not_decide():
    # The first look-ups are answered from memory; then content is waited for, and they take longer.
    pace = Pace(4, 64)
    for _ in range(12):
        pace.is_full()
        pace.took("examine", 1, 4, 4 * 0.0007)
        pace.adjust()
    before = pace.threads
    for _ in range(3 * before):
        pace.is_full()
        pace.took("examine", 1, 4, 4 * 0.002)
        pace.took("attributes", 1, 4, 4 * 0.24)
        pace.adjust()
    assert before <= pace.threads == pace.highest
    for _ in range(800):
        pace.is_full()
        pace.took("examine", 1, 4, 4 * 0.002)
        pace.took("attributes", 1, 4, 4 * 0.24)
        pace.adjust()
    assert pace.threads == 64


def test_a_trial_ends_where_nothing_comes_that_it_can_be_judged_by():
    # Look-ups crowd at first; then they come from memory, and content is waited for.
    pace = Pace(4, 64)
    for wait in (0.001, 0.001, 0.003):
        threads = pace.threads
        for _ in range(2 * threads):
            pace.is_full()
            pace.took("examine", 1, 4, 4 * wait)
        pace.adjust()
    low = pace.threads
    assert low < pace.highest
    for _ in range(400):
        pace.is_full()
        pace.took("read", 1, 4, 4 * 0.09)
        pace.adjust()
    assert pace.threads == 64


def test_directories_that_wait_count_where_their_entries_do_not():
    # NFS gives attributes with the names.
    pace = Pace(4, 64)
    noise = Random(1)
    for _ in range(2000):
        pace.is_full()
        pace.took("list", 1, 1, 0.005 * noise.uniform(0.8, 1.3))
        pace.took("examine", 1, 20, 20 * 0.00005 * noise.uniform(1, 12))
        pace.adjust()
    assert pace.threads == 64


def test_something_in_the_way_for_a_moment_does_not_keep_it_low():
    pace = Pace(4, 64)
    run(pace, server(0.005), 24)
    run(pace, server(0.015), 24)
    run(pace, server(0.005), 600)
    assert pace.threads == 64


@pytest.mark.parametrize("seed", range(3))
def test_noise_at_the_limit_does_not_change_the_number_all_the_time(seed):
    noise = Random(seed)
    pace = Pace(4, 64)
    answers = server(0.001, 16 / 0.001)
    run(pace, answers, 2000, noise)
    changes = 0
    for _ in range(1000):
        before = pace.threads
        run(pace, answers, 10, noise)
        changes += pace.threads != before
    # 10,000 calls of some 16 threads.
    assert changes <= 50


def test_a_number_that_was_given_stays():
    pace = Pace(9, 9)
    run(pace, server(0.001, 1000), 1000)
    assert (pace.threads, pace.highest, pace.bound) == (9, 9, GIVEN)
