"""Requests that do not depend on each other, made at the same time of a store that is distant.

Each costs a round trip, and a store says how many it takes together (`AnswersTogether`); of any
other one follows the other. No thread is left when these functions return, so a process may fork
afterwards.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from strongroom.base import clock
from strongroom.base.errors import CancelledError
from strongroom.engine.stores.capabilities import AnswersTogether
from strongroom.engine.stores.store import Kind, Store

_Result = TypeVar("_Result")

_LOOK_SECONDS: Final = 0.0005
# Where the machine is so busy that a thread does not get to its end.
_LONGEST_END_SECONDS: Final = 10.0


def most_together(store: Store) -> int:
    """How many requests a store takes at the same time; 1 where that would save nothing."""
    taking = store.capability(AnswersTogether)
    return 1 if taking is None else max(1, taking.most_together)


def at_once(store: Store, *works: Callable[[], _Result]) -> list[_Result]:
    """What each of some calls of a store gives, in order. Raises what the first raises.

    Calls that read, unless the store takes changes of several threads.
    """
    count = min(most_together(store), len(works))
    if count < 2:
        return [work() for work in works]
    waiting = deque(enumerate(works))
    results: dict[int, _Result] = {}
    failures: dict[int, Exception] = {}

    def run() -> None:
        while True:
            try:
                number, work = waiting.popleft()
            except IndexError:
                return
            try:
                results[number] = work()
            except CancelledError:
                # A job that is cancelled does not wait for the others.
                raise
            except Exception as error:  # noqa: BLE001 - the caller raises it
                failures[number] = error

    threads = [threading.Thread(target=run, name="reading", daemon=True) for _ in range(count - 1)]
    for thread in threads:
        thread.start()
    run()
    for thread in threads:
        await_end(thread)
    if failures:
        raise failures[min(failures)]
    return [results[number] for number in range(len(works))]


def read_each(
    store: Store,
    names: Sequence[str],
    read: Callable[[str], _Result],
) -> Iterator[tuple[str, _Result | Exception]]:
    """What `read` gives for objects that were listed, in the order of names, or what it raises."""

    def tried(name: str) -> _Result | Exception:
        try:
            return read(name)
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the caller raises it
            return error

    taking = store.capability(AnswersTogether)
    count = 1 if taking is None or taking.has_read_ahead else max(1, taking.most_together)
    for first in range(0, len(names), count):
        some = names[first : first + count]
        yield from zip(some, at_once(store, *(partial(tried, one) for one in some)), strict=True)


def delete_each(
    store: Store, kind: Kind, names: Sequence[str]
) -> Iterator[tuple[str, Exception | None]]:
    """Remove objects; what is wrong where one is not removed. The others are removed all the same.

    Several at a time, in no order, where the store takes that.
    """

    def tried(name: str) -> Exception | None:
        try:
            store.delete(kind, name)
        except CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the caller raises it
            return error
        return None

    taking = store.capability(AnswersTogether)
    count = taking.most_together if taking is not None and taking.takes_changes else 1
    for first in range(0, len(names), count):
        some = names[first : first + count]
        yield from zip(some, at_once(store, *(partial(tried, one) for one in some)), strict=True)


def await_end(thread: threading.Thread) -> None:
    """Return when a thread is missing from the process.

    Before Python 3.13 `join` returns when the thread runs no Python any more. At its very end it
    takes a lock of OpenSSL: copied by a fork, that is never released, and the child waits forever.
    """
    thread.join()
    task = f"/proc/self/task/{thread.native_id}"
    deadline = clock.elapsed_seconds() + _LONGEST_END_SECONDS
    while os.path.exists(task) and clock.elapsed_seconds() < deadline:
        time.sleep(_LOOK_SECONDS)
