"""Starts a shard as a forked process, and is the first code that runs in it.

Forking is cheap because nothing is loaded anew: pages of the coordinator are shared until written.
It must happen before the coordinator starts any thread. A shard dies with its coordinator: the
closed channel ends it, and the kernel does should it be stuck.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Final, NoReturn

from strongroom.errors import StrongroomError
from strongroom.jobs.channel import ChannelClosedError, ShardChannel

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_PR_SET_PDEATHSIG: Final = 1


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
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for end in to_close:
            end.close()
        # Nothing a shard makes is cyclic, and collecting would unshare the coordinator's pages.
        gc.disable()
        channel = ShardChannel(channel_end)
        try:
            run(channel)
            status = 0
        except ChannelClosedError:
            status = 0
        except StrongroomError as error:
            channel.send(["failed", error.error_id, error.exit_code, str(error)])
        except BaseException:  # noqa: BLE001 - the coordinator raises it
            text = f"a shard process failed; please report this:\n{traceback.format_exc()}"
            channel.send(["failed", StrongroomError.error_id, StrongroomError.exit_code, text])
    finally:
        os._exit(status)
