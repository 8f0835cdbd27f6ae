"""Display of progress: a live line, plain lines, or JSON objects.

One thread wakes up, reads the counts and draws; the job's threads only add. No lock is held while
drawing, so a slow terminal does not slow the job.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from strongroom.base.clock import elapsed_seconds
from strongroom.base.errors import OutputClosedError
from strongroom.base.progress import CountedProgress, Counts, NullProgress, Progress
from strongroom.base.quantities import duration_text, size_text
from strongroom.cli.terminal import JsonObject, Terminal

LIVE_INTERVAL_SECONDS = 0.25
PLAIN_INTERVAL_SECONDS = 10.0
RATE_WINDOW_SECONDS = 5.0
_LONGEST_SECONDS = 365 * 24 * 3600.0


class ProgressRates:
    """Reads the counts of one job and computes its rates; for one thread."""

    def __init__(self, progress: CountedProgress) -> None:
        self._progress = progress
        self._started_seconds = elapsed_seconds()
        self._marks: list[tuple[float, int]] = [(self._started_seconds, 0)]

    def snapshot(self) -> JsonObject:
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
            "percent": _percent(counts),
            "bytes_per_second": round(rate),
            "remaining_seconds": self._remaining_seconds(counts, now),
        }

    def _remaining_seconds(self, counts: Counts, now: float) -> float | None:
        """Time left at the average rate so far; None while unknown."""
        spent = now - self._started_seconds
        for done, expected in _measures(counts):
            if expected and done:
                left = max(0, expected - done) * spent / done
                # Sizes of sparse files say little about the work: no job takes so long.
                return round(left, 1) if left < _LONGEST_SECONDS else None
        return None


def _percent(counts: Counts) -> int | None:
    """How much is done, of 100; None while the total is not known."""
    expected = [(done, total) for done, total in _measures(counts) if total]
    return min(100, 100 * expected[0][0] // expected[0][1]) if expected else None


def _measures(counts: Counts) -> tuple[tuple[int, int | None], ...]:
    """What is done and what is expected, the better measure first."""
    return (counts.bytes, counts.total_bytes), (counts.files, counts.total_files)


def progress_text(counts: JsonObject, columns: int | None = None) -> str:
    """The text of one line from the result of `ProgressRates.snapshot`.

    columns: how long it may be; what matters least is left out first. None: any length.
    """
    shown = _Shown(counts)
    full = shown.line(shown.files(), shown.size(), shown.rate(), shown.stored())
    if columns is None or len(full) <= columns:
        return full
    shorter = (
        shown.line(shown.files(), shown.size()),
        shown.line(shown.files(with_total=False), shown.size()),
        shown.line(shown.size()),
        shown.line(shown.size(with_total=False)),
        shown.line(shown.files(with_total=False)) if not shown.size() else shown.line(),
    )
    return next((text for text in shorter if len(text) <= columns), shown.line()[:columns])


class _Shown:
    """The parts of a progress line, "" where there is nothing to say."""

    def __init__(self, counts: JsonObject) -> None:
        self._counts = counts
        self._of = " of about" if counts["total_is_estimate"] else " of"

    def line(self, *parts: str) -> str:
        """What is done, how far, `parts`, errors, and how long it takes still."""
        return ", ".join(filter(None, (self._head(), *parts, self._errors(), self._left())))

    def files(self, *, with_total: bool = True) -> str:
        done, total = self._number("files"), self._number("total_files")
        if not done and not total:
            return ""
        of = f"{self._of} {total:,}" if total is not None and with_total else ""
        return f"{done or 0:,}{of} files"

    def size(self, *, with_total: bool = True) -> str:
        done, total = self._number("bytes"), self._number("total_bytes")
        if not done and not total:
            return ""
        of = f"{self._of} {size_text(total)}" if total is not None and with_total else ""
        return f"{size_text(done or 0)}{of}"

    def rate(self) -> str:
        rate = self._number("bytes_per_second")
        return f"{size_text(rate)}/s" if rate is not None and self.size() else ""

    def stored(self) -> str:
        stored = self._number("stored_bytes")
        return f"{size_text(stored)} stored" if stored else ""

    def _head(self) -> str:
        percent = self._number("percent")
        return f"{self._counts['message']}{'' if percent is None else f' {percent}%'}"

    def _errors(self) -> str:
        errors = self._counts["errors"]
        return f"{errors} errors" if errors else ""

    def _left(self) -> str:
        remaining = self._counts["remaining_seconds"]
        return f"{duration_text(remaining)} left" if isinstance(remaining, float) else ""

    def _number(self, name: str) -> int | None:
        value = self._counts[name]
        return value if isinstance(value, int) else None


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
            terminal.show_live_line(progress_text(counts, columns - 1))
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
