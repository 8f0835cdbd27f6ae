"""Messages to a running job process: another limit, or to stop.

No thread may run when the job forks its workers, so the kernel sends a signal (SIGIO) whenever
there is input; the handler reads it in the main thread. Stop, the end of the input and SIGTERM end
the job by CancelledError, the time limit (SIGALRM) by TimeLimitError. That happens once: afterwards
the job only cleans up.
"""

from __future__ import annotations

import fcntl
import os
import signal
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from strongroom.daemons.job_process.messages import (
    LARGEST_LINE_BYTES,
    SetLimit,
    decode_to_job,
)
from strongroom.errors import EXIT_TERMINATED, CancelledError, TimeLimitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_INPUT: Final = 0
_READ_BYTES: Final = 1 << 16

Description = TypeVar("Description")


class JobInput:
    """Standard input of the job. One main thread; handlers run in it."""

    def __init__(self) -> None:
        self._pending = b""
        self._ends_job = False
        self._set_limit: Callable[[int], None]
        self._maximum_run_seconds = 0

    def description(self, decoder: msgspec.json.Decoder[Description]) -> Description:
        """Wait for the first line. Raises UsageError when it is missing or invalid."""
        received = bytearray()
        while True:
            data = os.read(_INPUT, _READ_BYTES)
            end = data.find(b"\n")
            if end >= 0:
                break
            received += data
            if not data or len(received) > LARGEST_LINE_BYTES:
                raise UsageError("this process is started by a daemon, which sends its description")
        line, self._pending = bytes(received + data[:end]), data[end + 1 :]
        try:
            return decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UsageError(f"this is not a job description: {error}") from error

    def listen(self, set_limit: Callable[[int], None], maximum_run_seconds: int) -> None:
        """Handle messages from now on, until `ignore`. maximum_run_seconds: 0 is no limit."""
        self._set_limit = set_limit
        self._maximum_run_seconds = maximum_run_seconds
        self._ends_job = True
        signal.signal(signal.SIGTERM, self._terminated)
        signal.signal(signal.SIGALRM, self._time_is_up)
        signal.signal(signal.SIGIO, self._readable)
        if maximum_run_seconds:
            signal.setitimer(signal.ITIMER_REAL, maximum_run_seconds)
        fcntl.fcntl(_INPUT, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(_INPUT, fcntl.F_GETFL)
        fcntl.fcntl(_INPUT, fcntl.F_SETFL, flags | os.O_NONBLOCK | os.O_ASYNC)
        # Input that arrived before the signal was requested.
        self._take()

    def ignore(self) -> None:
        """Stop handling: the job is done or has failed, and nothing ends it any more."""
        self._ends_job = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def close(self) -> None:
        """Before the process ends: a daemon that closes the pipe must not kill it at its end."""
        self.ignore()
        # The interpreter resets signal handlers to the default, but not this setting.
        signal.signal(signal.SIGIO, signal.SIG_IGN)

    def _readable(self, number: int, frame: FrameType | None) -> None:
        self._take()

    def _terminated(self, number: int, frame: FrameType | None) -> None:
        self._cancel("told to stop (SIGTERM)")

    def _time_is_up(self, number: int, frame: FrameType | None) -> None:
        if self._ends_job:
            self._ends_job = False
            raise TimeLimitError(
                f"the job ran for {self._maximum_run_seconds} seconds, its time limit"
            )

    def _cancel(self, reason: str) -> None:
        if self._ends_job:
            self.ignore()
            raise CancelledError(reason, EXIT_TERMINATED)

    def _take(self) -> None:
        if os.getpid() != self._owner():
            return
        is_open = True
        while is_open:
            try:
                data = os.read(_INPUT, _READ_BYTES)
            except BlockingIOError:
                break
            is_open = bool(data)
            self._pending += data
        *lines, self._pending = self._pending.split(b"\n")
        for line in lines:
            try:
                message = decode_to_job(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                # A message of a newer daemon; unknown ones are optional.
                continue
            if isinstance(message, SetLimit):
                self._set_limit(message.maximum_bytes_per_second)
            else:
                self._cancel("cancelled")
        if not is_open:
            self._cancel("the daemon that started it has ended")

    def _owner(self) -> int:
        owner: int = fcntl.fcntl(_INPUT, fcntl.F_GETOWN)
        return owner
