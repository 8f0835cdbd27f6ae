"""Writes reports as JSON lines, and nothing else, to the job process's original standard output.

`_lock` guards the descriptor, so any thread may report.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.daemons.job_process.messages import JobEnded, JobLog, JobProgress, encode_line
from strongroom.progress import CountedProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strongroom.net.control.messages import LogLevel
    from strongroom.progress import Counts

PROGRESS_SECONDS: Final = 1.0
LONGEST_TEXT: Final = 64 << 10


class JobOutput:
    """The reports of one job. They are dropped silently once the reader is gone."""

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
        self._write(JobLog(time_ns=clock.now_ns(), level=level, text=text))

    def ended(self, end: JobEnded) -> None:
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
        self._write(
            JobProgress(
                files=counts.files,
                bytes=counts.bytes,
                stored_bytes=max(counts.stored_bytes, self._stored_bytes()),
                errors=counts.errors,
                total_files=counts.total_files,
                total_bytes=counts.total_bytes,
                total_is_estimate=counts.total_is_estimate,
                message=counts.message,
                stage_seconds=dict(counts.stage_seconds),
                queued_blocks=counts.queued_blocks,
            )
        )

    def _write(self, message: JobProgress | JobLog | JobEnded) -> None:
        line = memoryview(encode_line(message))
        with self._lock:
            while line and self._is_open:
                try:
                    line = line[os.write(self._file, line) :]
                except OSError:
                    # The daemon is dead, so the end of our input will stop the job.
                    self._is_open = False
