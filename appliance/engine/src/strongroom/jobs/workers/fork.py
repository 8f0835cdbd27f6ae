"""Starts a worker as a forked process, and contains the first code that runs in it.

Forking is cheap because nothing is loaded again: pages of the coordinator are shared until
written. It must happen before the coordinator starts any thread. A worker dies with its
coordinator: the closed channel ends it, SIGTERM makes it abandon its task, and the kernel kills
it when the coordinator has ended or the timeout has passed.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import time
import traceback
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from strongroom import clock
from strongroom.errors import StrongroomError
from strongroom.jobs.workers.channel import ChannelClosedError, WorkerChannel
from strongroom.jobs.workers.messages import failure
from strongroom.printable import flush_standard_streams

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable
    from types import FrameType

_Received = TypeVar("_Received")

_PR_SET_PDEATHSIG: Final = 1
# How long a worker may take to end when the job is aborted.
END_SECONDS: Final = 2.0
_END_POLL_SECONDS: Final = 0.005


class _StoppedError(BaseException):
    """The job was aborted; raised at any point of the worker."""


def fork_worker(
    channel_end: socket.socket,
    decode: Callable[[memoryview], _Received],
    run: Callable[[WorkerChannel[_Received]], None],
    to_close: list[socket.socket],
) -> int:
    """Run `run(channel)` in a new process; returns its pid.

    `decode` takes what the coordinator sends; `to_close` are the coordinator's ends, which the
    child must not keep open.
    """
    parent = os.getpid()
    flush_standard_streams()
    pid = os.fork()
    if pid:
        channel_end.close()
        return pid
    return _be_worker(parent, channel_end, decode, run, to_close)


def await_workers(pids: list[int], ends: Iterable[socket.socket]) -> None:
    """Wait until the workers, which were told to finish, have ended; `ends`: of their channels."""
    for end in ends:
        end.close()
    for pid in pids:
        os.waitpid(pid, 0)


def stop_workers(pids: list[int], ends: Iterable[socket.socket]) -> None:
    """End workers of an aborted job, and wait for them; `ends`: ours of their channels."""
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    # Not before: a worker that cleans up because of a closed channel would be broken off.
    for end in ends:
        end.close()
    deadline = clock.elapsed_seconds() + END_SECONDS
    running = list(pids)
    while running and clock.elapsed_seconds() < deadline:
        running = [pid for pid in running if not os.waitpid(pid, os.WNOHANG)[0]]
        if running:
            time.sleep(_END_POLL_SECONDS)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _be_worker(
    parent: int,
    channel_end: socket.socket,
    decode: Callable[[memoryview], _Received],
    run: Callable[[WorkerChannel[_Received]], None],
    to_close: list[socket.socket],
) -> NoReturn:
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(status)
        # Ctrl-C at the terminal signals every process; only the coordinator handles it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _stop)
        for end in to_close:
            end.close()
        # A worker creates no cycles, and collecting would unshare the coordinator's pages.
        gc.disable()
        channel = WorkerChannel(channel_end, decode)
        try:
            run(channel)
            status = 0
        except (ChannelClosedError, _StoppedError):
            status = 0
        except StrongroomError as error:
            channel.send(failure(error))
        except BaseException:  # noqa: BLE001 - the coordinator raises it
            text = f"a worker process failed; please report this:\n{traceback.format_exc()}"
            channel.send(failure(StrongroomError(text)))
    finally:
        os._exit(status)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # Once is enough: what follows only closes and cleans up.
    signal.signal(number, signal.SIG_IGN)
    raise _StoppedError
