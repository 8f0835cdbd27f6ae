"""Processes count together, and one that is killed while it counts stops no other."""

from __future__ import annotations

import os
import signal
from threading import Thread

from kit.killed_process import KILLED, in_child
from strongroom.engine.stores.shared_counts import SharedCounts


def test_forked_processes_and_threads_count_the_same_numbers() -> None:
    counts = SharedCounts(2)

    def count() -> None:
        for _ in range(500):
            counts.add(1)

    def count_in_threads() -> None:
        threads = [Thread(target=count) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            status = 1
            try:
                count_in_threads()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    count_in_threads()
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert (counts[0], counts[1]) == (0, 4 * 3 * 500)


def test_a_process_killed_while_it_counts_stops_no_other() -> None:
    counts = SharedCounts(1)

    def die_counting() -> None:
        with counts.alone():
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(die_counting) == KILLED
    assert counts.add(0) == 1
    assert in_child(lambda: counts.add(0)) == 0
    assert counts[0] == 2


def test_a_process_that_is_forked_while_a_thread_counts_counts_too() -> None:
    counts = SharedCounts(1)
    with counts.alone():
        child = os.fork()
        if not child:
            status = 1
            try:
                # It would wait for a thread that it does not have.
                signal.alarm(20)
                status = 0 if counts._threads.acquire(timeout=5.0) else 1  # noqa: SLF001
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
