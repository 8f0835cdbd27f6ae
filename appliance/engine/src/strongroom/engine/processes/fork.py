"""Starts a child as a forked process, and contains the first code that runs in it.

Forking is cheap because nothing is loaded again: pages of the coordinator are shared until
written. It must happen before the coordinator starts any thread. A child dies with its
coordinator: the closed channel ends it, SIGTERM makes it abandon its task, and the kernel kills
it when the coordinator has ended or the timeout has passed.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Final, NoReturn, TypeVar

from strongroom.base import clock
from strongroom.base.errors import StrongroomError
from strongroom.base.printable import flush_standard_streams
from strongroom.engine.processes.channel import ChannelClosedError, ChildChannel, failure

_Received = TypeVar("_Received")

_PR_SET_PDEATHSIG: Final = 1
# How long a child may take to end when the job is aborted.
END_SECONDS: Final = 2.0
_END_POLL_SECONDS: Final = 0.005


class _StoppedError(BaseException):
    """The job was aborted; raised at any point of the child."""


def fork_child(
    channel_end: socket.socket,
    decode: Callable[[memoryview], _Received],
    run: Callable[[ChildChannel[_Received]], None],
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
    return _be_child(parent, channel_end, decode, run, to_close)


def await_children(pids: list[int], ends: Iterable[socket.socket]) -> None:
    """Wait until the children, which were asked to finish, have ended; `ends`: of channels."""
    for end in ends:
        end.close()
    for pid in pids:
        os.waitpid(pid, 0)


def stop_children(pids: list[int], ends: Iterable[socket.socket]) -> None:
    """End children of an aborted job, and wait for them; `ends`: ours of their channels."""
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    # Not before: a child that cleans up because of a closed channel would be broken off.
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


def _be_child(
    parent: int,
    channel_end: socket.socket,
    decode: Callable[[memoryview], _Received],
    run: Callable[[ChildChannel[_Received]], None],
    to_close: list[socket.socket],
) -> NoReturn:
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The coordinator may have ended before the kernel knew what to do then.
        if os.getppid() != parent:
            os._exit(status)
        # Ctrl-C at the terminal signals every process; only the coordinator handles it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _stop)
        for end in to_close:
            end.close()
        # A child creates no cycles, and collecting would unshare the coordinator's pages.
        gc.disable()
        channel = ChildChannel(channel_end, decode)
        try:
            run(channel)
            status = 0
        except (ChannelClosedError, _StoppedError):
            status = 0
        except StrongroomError as error:
            channel.send(failure(error))
        except BaseException:  # noqa: BLE001 - the coordinator raises it
            text = f"a child process failed; please report this:\n{traceback.format_exc()}"
            channel.send(failure(StrongroomError(text)))
    finally:
        # Not sys.exit: exit handlers and buffers are the coordinator's, and it runs them itself.
        os._exit(status)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # Once is enough: what follows only closes and cleans up.
    signal.signal(number, signal.SIG_IGN)
    raise _StoppedError
