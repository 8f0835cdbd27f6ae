"""Measures what several processes do at once: each prepares, then all begin together.

Processes and not threads, so that the interpreter's lock is not measured.
"""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from strongroom.base import clock
from strongroom.base.errors import StrongroomError, UsageError

_READY: Final = b"r"
_DONE: Final = b"d"
_FAILED: Final = b"f"
_RESULT: Final = struct.Struct("<dqq")
_LONGEST_MESSAGE: Final = 4096


class Worker(NamedTuple):
    """What one process does: `step` again and again, and at the end it tells two `counts`.

    `step` returns how many units (bytes) it has done.
    """

    step: Callable[[], int]
    counts: Callable[[], tuple[int, int]]


class Together(NamedTuple):
    """Sums over all processes: units a second, and the two counts."""

    rate: float
    counts: tuple[int, int]


def rate_together(
    prepare: Callable[[], Callable[[], int]], seconds: float, processes: int
) -> float:
    """The sum of the rates of so many processes, in units a second.

    Each calls `prepare`, and what that returns again and again for `seconds`; it returns how many
    units (bytes) it has done. Raises UsageError with what a process failed of.
    """
    return work_together(lambda: Worker(prepare(), _no_counts), seconds, processes).rate


def work_together(prepare: Callable[[], Worker], seconds: float, processes: int) -> Together:
    """Let so many processes work for `seconds`; each prepares, then all begin together.

    Raises UsageError with what a process failed of.
    """
    begin_read, begin_write = os.pipe()
    pids: list[int] = []
    results: list[int] = []
    try:
        for _ in range(processes):
            result_read, result_write = os.pipe()
            pid = os.fork()
            if not pid:
                _be_worker(prepare, seconds, begin_read, begin_write, result_write)
            os.close(result_write)
            pids.append(pid)
            results.append(result_read)
        for result in results:
            _require(result, _READY, 1)
        os.close(begin_write)
        begin_write = -1
        found = [
            _RESULT.unpack(_require(result, _DONE, 1 + _RESULT.size)[1:]) for result in results
        ]
        rates, first, second = zip(*found, strict=True)
        return Together(sum(rates), (sum(first), sum(second)))
    finally:
        for descriptor in (begin_read, begin_write, *results):
            if descriptor >= 0:
                os.close(descriptor)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _no_counts() -> tuple[int, int]:
    return 0, 0


def _require(result: int, kind: bytes, size: int) -> bytes:
    """The next message of a process. Raises UsageError when it is not of this kind."""
    data = os.read(result, 1)
    if data == _FAILED:
        raise UsageError(os.read(result, _LONGEST_MESSAGE).decode("utf-8", "replace"))
    if data != kind:
        raise UsageError("a process that measures has ended; is there enough memory?")
    while len(data) < size:
        more = os.read(result, size - len(data))
        if not more:
            raise UsageError("a process that measures has ended; is there enough memory?")
        data += more
    return data


def _be_worker(
    prepare: Callable[[], Worker],
    seconds: float,
    begin_read: int,
    begin_write: int,
    result: int,
) -> NoReturn:
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.close(begin_write)
        step, counts = prepare()
        step()
        os.write(result, _READY)
        os.read(begin_read, 1)
        started = clock.elapsed_seconds()
        done = 0
        elapsed = 0.0
        while elapsed < seconds:
            done += step()
            elapsed = clock.elapsed_seconds() - started
        os.write(result, _DONE + _RESULT.pack(done / elapsed, *counts()))
    except StrongroomError as error:
        os.write(result, _FAILED + str(error).encode()[:_LONGEST_MESSAGE])
    except BaseException as error:  # noqa: BLE001 - the other process raises it
        text = f"{type(error).__name__}: {error}"
        os.write(result, _FAILED + text.encode()[:_LONGEST_MESSAGE])
    finally:
        os._exit(0)
