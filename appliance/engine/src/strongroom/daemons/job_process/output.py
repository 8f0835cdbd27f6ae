"""What a job process writes: reports as JSON lines, and nothing else, on its first standard output.

`_lock` guards the descriptor and the counts of ReportedProgress theirs, so any thread may report.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.daemons.job_process.messages import JobEnded, JobLog, JobProgress, encode_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strongroom.net.control.messages import LogLevel

PROGRESS_SECONDS: Final = 1.0
LONGEST_TEXT: Final = 64 << 10


class JobOutput:
    """The reports of one job. Reports are lost without a word when nobody reads them any more."""

    def __init__(self, stored_bytes: Callable[[], int] = lambda: 0) -> None:
        """Takes standard output for itself: what others print there goes to standard error.

        `stored_bytes`: what went to the store so far; jobs that write there know only at the end.
        """
        self._stored_bytes = stored_bytes
        self._lock = threading.Lock()
        self._file = os.dup(1)
        os.set_inheritable(self._file, False)
        os.dup2(2, 1)
        self._is_open = True

    def log(self, level: LogLevel, text: str) -> None:
        """A line of the log; one that is too long is cut."""
        if len(text) > LONGEST_TEXT:
            text = text[:LONGEST_TEXT] + " ..."
        self._write(JobLog(time_ns=clock.now_ns(), level=level, text=text))

    def progress(self, counts: JobProgress) -> None:
        """The counts so far."""
        self._write(counts)

    def ended(self, end: JobEnded) -> None:
        """The last line."""
        self._write(end)

    @contextmanager
    def shown_progress(self, title: str) -> Iterator[ReportedProgress]:
        """Report the counts every second until the block ends. Starts a thread."""
        progress = ReportedProgress(title, self._stored_bytes)
        ended = threading.Event()

        def report() -> None:
            while not ended.wait(PROGRESS_SECONDS):
                self.progress(progress.counts())

        thread = threading.Thread(target=report, name="progress", daemon=True)
        thread.start()
        try:
            yield progress
        finally:
            ended.set()
            thread.join()
            self.progress(progress.counts())

    def _write(self, message: JobProgress | JobLog | JobEnded) -> None:
        line = memoryview(encode_line(message))
        with self._lock:
            while line and self._is_open:
                try:
                    line = line[os.write(self._file, line) :]
                except OSError:
                    # The agent has died, so the end of our input will stop the job.
                    self._is_open = False


class ReportedProgress:
    """Counts of one job; a Progress."""

    def __init__(self, title: str, stored_bytes: Callable[[], int]) -> None:
        self._written_bytes = stored_bytes
        self._lock = threading.Lock()
        self._files = self._bytes = self._stored_bytes = self._errors = 0
        self._total_files: int | None = None
        self._total_bytes: int | None = None
        self._message = title

    def total(
        self,
        files: int | None = None,
        bytes: int | None = None,  # noqa: A002
        *,
        is_estimate: bool = False,
    ) -> None:
        """Set what is expected in the end; None leaves a figure as it was."""
        with self._lock:
            self._total_files = self._total_files if files is None else files
            self._total_bytes = self._total_bytes if bytes is None else bytes

    def add(
        self,
        files: int = 0,
        bytes: int = 0,  # noqa: A002
        stored_bytes: int = 0,
        errors: int = 0,
    ) -> None:
        """Count work as done."""
        with self._lock:
            self._files += files
            self._bytes += bytes
            self._stored_bytes += stored_bytes
            self._errors += errors

    def message(self, text: str) -> None:
        """Replace what the job is said to be doing."""
        with self._lock:
            self._message = text

    def counts(self) -> JobProgress:
        """The counts now."""
        with self._lock:
            return JobProgress(
                files=self._files,
                bytes=self._bytes,
                stored_bytes=max(self._stored_bytes, self._written_bytes()),
                errors=self._errors,
                total_files=self._total_files,
                total_bytes=self._total_bytes,
                message=self._message,
            )
