"""Display of progress: a live line, plain lines, or JSON objects.

One thread wakes up, reads the counts and draws; the job's threads only add. No lock is held while
drawing, so a slow terminal does not slow the job.
"""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING

from strongroom.cli.quantities import duration_text, size_text
from strongroom.clock import elapsed_seconds
from strongroom.errors import OutputClosedError
from strongroom.progress import CountedProgress, NullProgress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from strongroom.cli.terminal import Terminal
    from strongroom.progress import Counts, Progress

LIVE_INTERVAL_SECONDS = 0.25
PLAIN_INTERVAL_SECONDS = 10.0
RATE_WINDOW_SECONDS = 5.0


class ProgressRates:
    """Reads the counts of one job and computes its rates; for one thread."""

    def __init__(self, progress: CountedProgress) -> None:
        self._progress = progress
        self._started_seconds = elapsed_seconds()
        self._marks: list[tuple[float, int]] = [(self._started_seconds, 0)]

    def snapshot(self) -> dict[str, object]:
        """The counts now, as the object `--json` shows; rates in units a second."""
        counts = self._progress.counts()
        now = elapsed_seconds()
        self._marks.append((now, counts.bytes))
        while len(self._marks) > 2 and now - self._marks[1][0] >= RATE_WINDOW_SECONDS:
            del self._marks[0]
        since, bytes_then = self._marks[0]
        rate = max(0, counts.bytes - bytes_then) / max(now - since, 1e-6)
        return {
            "type": "progress",
            "message": counts.message,
            "elapsed_seconds": round(now - self._started_seconds, 3),
            "files": counts.files,
            "bytes": counts.bytes,
            "stored_bytes": counts.stored_bytes,
            "errors": counts.errors,
            "total_files": counts.total_files,
            "total_bytes": counts.total_bytes,
            "total_is_estimate": counts.total_is_estimate,
            "bytes_per_second": round(rate),
            "remaining_seconds": self._remaining_seconds(counts, now),
        }

    def _remaining_seconds(self, counts: Counts, now: float) -> float | None:
        """Time left at the average rate so far; None while unknown."""
        spent = now - self._started_seconds
        for done, expected in (
            (counts.bytes, counts.total_bytes),
            (counts.files, counts.total_files),
        ):
            if expected and done:
                return round(max(0, expected - done) * spent / done, 1)
        return None


def progress_text(counts: dict[str, object]) -> str:
    """The text of one line from the result of `ProgressRates.snapshot`."""
    parts = [str(counts["message"])]
    done_files, total_files = counts["files"], counts["total_files"]
    done_bytes, total_bytes = counts["bytes"], counts["total_bytes"]
    of = " of about" if counts["total_is_estimate"] else " of"
    if isinstance(total_bytes, int) and isinstance(done_bytes, int) and total_bytes:
        parts[0] += f" {min(100, 100 * done_bytes // total_bytes)}%"
    elif isinstance(total_files, int) and isinstance(done_files, int) and total_files:
        parts[0] += f" {min(100, 100 * done_files // total_files)}%"
    if isinstance(done_files, int) and (done_files or total_files):
        of_files = f"{of} {total_files:,}" if isinstance(total_files, int) else ""
        parts.append(f"{done_files:,}{of_files} files")
    if isinstance(done_bytes, int) and (done_bytes or total_bytes):
        of_bytes = f"{of} {size_text(total_bytes)}" if isinstance(total_bytes, int) else ""
        parts.append(f"{size_text(done_bytes)}{of_bytes}")
        if isinstance(rate := counts["bytes_per_second"], int):
            parts.append(f"{size_text(rate)}/s")
    if isinstance(stored := counts["stored_bytes"], int) and stored:
        parts.append(f"{size_text(stored)} stored")
    if counts["errors"]:
        parts.append(f"{counts['errors']} errors")
    if isinstance(remaining := counts["remaining_seconds"], float):
        parts.append(f"{duration_text(remaining)} left")
    return ", ".join(parts)


def show_progress(terminal: Terminal, title: str) -> AbstractContextManager[Progress]:
    """Show the work done inside a `with` block; gives the Progress that the job counts in.

    A live line on a terminal; else a plain line (with --json an object of type `progress`)
    every ten seconds; nothing with --quiet.
    """
    if terminal.quiet and not terminal.as_json:
        return nullcontext(NullProgress())
    return _drawn(terminal, title)


@contextmanager
def _drawn(terminal: Terminal, title: str) -> Iterator[Progress]:
    """Draw the counts until the block ends; the live line is gone when it does."""
    progress = CountedProgress(title)
    rates = ProgressRates(progress)
    ended = threading.Event()
    live = terminal.messages.isatty() and not terminal.as_json

    def draw() -> None:
        counts = rates.snapshot()
        if terminal.as_json:
            terminal.emit(counts)
            terminal.flush()
        elif live:
            columns = shutil.get_terminal_size().columns
            terminal.show_live_line(progress_text(counts)[: columns - 1])
        else:
            terminal.message_line(progress_text(counts))

    def draw_until_ended() -> None:
        # The command itself notices at its next write that its output was closed.
        with suppress(OutputClosedError):
            while not ended.wait(LIVE_INTERVAL_SECONDS if live else PLAIN_INTERVAL_SECONDS):
                draw()

    drawer = threading.Thread(target=draw_until_ended, name="progress", daemon=True)
    drawer.start()
    try:
        yield progress
    finally:
        ended.set()
        drawer.join()
        terminal.clear_live_line()
