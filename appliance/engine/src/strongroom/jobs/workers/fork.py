"""Starts a shard as a forked process, and is the first code that runs in it.

Forking is cheap because nothing is loaded anew: pages of the coordinator are shared until written.
It must happen before the coordinator starts any thread. A shard dies with its coordinator: the
closed channel ends it, SIGTERM makes it drop what it is at, and the kernel kills it when the
coordinator is gone or has waited long enough.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, Final, NoReturn

from strongroom import clock
from strongroom.errors import StrongroomError
from strongroom.jobs.workers.channel import ChannelClosedError, ShardChannel

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import FrameType

_PR_SET_PDEATHSIG: Final = 1
# How long a shard may take to end when the job is broken off.
_END_SECONDS: Final = 2.0
_END_POLL_SECONDS: Final = 0.005


class _StoppedError(BaseException):
    """The job was broken off; raised wherever the shard happens to be."""


def fork_shard(
    channel_end: socket.socket, run: Callable[[ShardChannel], None], to_close: list[socket.socket]
) -> int:
    """Run `run(channel)` in a new process; returns its pid.

    `to_close` are the coordinator's ends, which the child must not keep open.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        channel_end.close()
        return pid
    return _be_shard(parent, channel_end, run, to_close)


def await_shards(pids: list[int]) -> None:
    """Until the shards, which were told to finish, have ended."""
    for pid in pids:
        os.waitpid(pid, 0)


def stop_shards(pids: list[int]) -> None:
    """End shards whose job is broken off, and wait until they have."""
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    deadline = clock.elapsed_seconds() + _END_SECONDS
    running = list(pids)
    while running and clock.elapsed_seconds() < deadline:
        running = [pid for pid in running if not os.waitpid(pid, os.WNOHANG)[0]]
        if running:
            time.sleep(_END_POLL_SECONDS)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _be_shard(
    parent: int,
    channel_end: socket.socket,
    run: Callable[[ShardChannel], None],
    to_close: list[socket.socket],
) -> NoReturn:
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(status)
        # A key typed at the terminal reaches every process; only the coordinator decides.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _stop)
        for end in to_close:
            end.close()
        # Nothing a shard makes is cyclic, and collecting would unshare the coordinator's pages.
        gc.disable()
        channel = ShardChannel(channel_end)
        try:
            run(channel)
            status = 0
        except (ChannelClosedError, _StoppedError):
            status = 0
        except StrongroomError as error:
            channel.send(["failed", error.error_id, error.exit_code, str(error)])
        except BaseException:  # noqa: BLE001 - the coordinator raises it
            text = f"a shard process failed; please report this:\n{traceback.format_exc()}"
            channel.send(["failed", StrongroomError.error_id, StrongroomError.exit_code, text])
    finally:
        os._exit(status)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    # Once is enough: what follows is to close and remove what is half done.
    signal.signal(number, signal.SIG_IGN)
    raise _StoppedError
