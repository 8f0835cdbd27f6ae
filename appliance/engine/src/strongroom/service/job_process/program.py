"""The life of a job process: its description, the job, its last report.

Standard input brings the description as one JSON line and later SetLimit or Stop (messages);
standard output carries reports, one JSON line each; other output goes to standard error.
SIGTERM, Stop or the end of the input stop the job within a second: unfinished objects are removed,
what was stored is found by the next run.

No thread may run when the job forks its workers, so the kernel sends a signal (SIGIO) whenever
there is input; the handler reads it in the main thread. Stop, the end of the input and SIGTERM end
the job by CancelledError, the time limit (SIGALRM) by TimeLimitError. That happens once: afterwards
the job only cleans up. Any thread may report.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, TypeVar

import msgspec

from strongroom.base import clock
from strongroom.base.errors import (
    EXIT_BUG,
    EXIT_TERMINATED,
    CancelledError,
    ConnectionLostError,
    MemoryLimitError,
    OperatingSystemError,
    StrongroomError,
    TimeLimitError,
    UsageError,
)
from strongroom.base.printable import guard_standard_streams
from strongroom.base.process_memory import forbid_inspection, limit_memory
from strongroom.base.progress import CountedProgress, Counts
from strongroom.net.control.messages import LogLevel, RunEnded, RunLog, RunProgress
from strongroom.service.job_process.messages import (
    LARGEST_LINE_BYTES,
    SetLimit,
    decode_to_job,
    encode_line,
)

_INPUT: Final = 0
_READ_BYTES: Final = 1 << 16
PROGRESS_SECONDS: Final = 1.0
LONGEST_TEXT: Final = 64 << 10
# How long a storage daemon may be unreachable without a break before the job fails.
PATIENCE_SECONDS: Final = 15 * 60.0
_SHORTEST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
Description = TypeVar("Description")
Result = TypeVar("Result")
# Restores and backups go first. With it the kernel gives the process the lowest priority of best
# effort for disks, too.
HOUSEKEEPING_NICENESS: Final = 15


def run_program(
    decoder: msgspec.json.Decoder[Description],
    do: Callable[[Description, JobInput, JobOutput], RunEnded],
) -> int:
    """Run the job on standard input; returns the exit code, which the last report has too.

    `do` calls `listen` as soon as it can be stopped; whatever it raises ends the job.
    """
    # numpy would start a thread for every core, which nothing here uses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    guard_standard_streams()
    forbid_inspection()
    limit_memory()
    job_input = JobInput()
    try:
        description = job_input.description(decoder)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")  # noqa: TID251 - it is guarded
        return error.exit_code
    output = JobOutput()
    try:
        ended = do(description, job_input, output)
    except BaseException as error:  # noqa: BLE001 - it is reported
        job_input.ignore()
        ended = ended_by(error, output)
    job_input.close()
    output.ended(ended)
    return ended.exit_code


def give_way(niceness: int = HOUSEKEEPING_NICENESS) -> None:
    """Let other programs go first from now on; what the process inherited may be more already."""
    # A sandbox that forbids it must not end the job.
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))


def ended_by(error: BaseException, output: JobOutput) -> RunEnded:
    """The end of a job that raised this; an internal error is logged with its traceback."""
    if isinstance(error, OSError):
        names = [os.fsdecode(name) for name in (error.filename,) if isinstance(name, str | bytes)]
        text = ": ".join([*names, error.strerror or str(error)])
        error = OperatingSystemError(text)
    if isinstance(error, MemoryError):
        error = MemoryLimitError("the job takes more memory than it may have")
    if isinstance(error, StrongroomError):
        is_cancelled = isinstance(error, CancelledError | TimeLimitError)
        return RunEnded(
            status="cancelled" if is_cancelled else "failed",
            exit_code=error.exit_code,
            error_id=error.error_id,
            error=str(error),
        )
    output.log("error", "".join(traceback.format_exception(error)))
    return RunEnded(
        status="failed",
        exit_code=EXIT_BUG,
        error_id="bug",
        error=f"internal error in Strongroom, please report it: {type(error).__name__}: {error}",
    )


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
        self._cancel("stopped by SIGTERM")

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


class JobOutput:
    """The reports of one job; `_lock` guards the descriptor.

    They are dropped silently once the reader is gone.
    """

    def __init__(self) -> None:
        """Takes over standard output: other output there goes to standard error."""
        self._stored_bytes: Callable[[], int] = lambda: 0
        self._lock = threading.Lock()
        self._file = os.dup(1)
        os.set_inheritable(self._file, False)
        os.dup2(2, 1)
        self._is_open = True

    def count_stored_bytes(self, stored_bytes: Callable[[], int]) -> None:
        """Set the source of the bytes sent so far, for jobs that know them only at the end."""
        self._stored_bytes = stored_bytes

    def log(self, level: LogLevel, text: str) -> None:
        """Report a line of the log; a long one is truncated."""
        if len(text) > LONGEST_TEXT:
            text = text[:LONGEST_TEXT] + " ..."
        self._write(RunLog(time_ns=clock.now_ns(), level=level, text=text))

    def ended(self, end: RunEnded) -> None:
        """The last line."""
        self._write(end)

    @contextmanager
    def shown_progress(self, title: str) -> Iterator[CountedProgress]:
        """Report the counts every second until the block ends. Starts a thread."""
        progress = CountedProgress(title)
        ended = threading.Event()

        def report() -> None:
            while not ended.wait(PROGRESS_SECONDS):
                self._report(progress.counts())

        thread = threading.Thread(target=report, name="progress", daemon=True)
        thread.start()
        try:
            yield progress
        finally:
            ended.set()
            thread.join()
            self._report(progress.counts())

    def _report(self, counts: Counts) -> None:
        progress = msgspec.convert(counts, RunProgress, from_attributes=True)
        stored_bytes = max(counts.stored_bytes, self._stored_bytes())
        self._write(msgspec.structs.replace(progress, stored_bytes=stored_bytes))

    def _write(self, message: RunProgress | RunLog | RunEnded) -> None:
        line = memoryview(encode_line(message))
        with self._lock:
            while line and self._is_open:
                try:
                    line = line[os.write(self._file, line) :]
                except OSError:
                    # The daemon is dead, so the end of our input will stop the job.
                    self._is_open = False


def persist(attempt: Callable[[], Result], output: JobOutput) -> Result:
    """Repeat until it succeeds or fails for good; only a lost connection is retried.

    Every kind of job may be repeated from its beginning: a backup does not send stored data again,
    a restore recognizes the files that it has written already, and housekeeping finds what is left.
    Raises what `attempt` raises; ConnectionLostError after the time limit.
    """
    pause_seconds = _SHORTEST_PAUSE_SECONDS
    lost_since: float | None = None
    while True:
        started = clock.elapsed_seconds()
        try:
            return attempt()
        except ConnectionLostError as error:
            now = clock.elapsed_seconds()
            if lost_since is None or now - started > _LONGEST_PAUSE_SECONDS:
                # It worked for a while in between.
                lost_since, pause_seconds = now, _SHORTEST_PAUSE_SECONDS
            if now - lost_since > PATIENCE_SECONDS:
                raise
            output.log("warning", f"{error}; trying again in {pause_seconds:.0f} s")
            time.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
