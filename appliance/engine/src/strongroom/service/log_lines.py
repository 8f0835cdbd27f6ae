"""Log lines: their format, which prevents peers from forging some, and limits to their number.

Messages contain text from peers: names, ids, errors. So a message is always one line, unprintable
characters are escaped (newlines, a terminal's control sequences), and it has at most
LONGEST_MESSAGE characters. Lines of a traceback begin with CONTINUATION.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.printable import printable

_DAY_NS: Final = 86400 * SECOND_NS
MOST_A_MINUTE: Final = 10
MINUTE_SECONDS: Final = 60.0
# Of more keys than these within a minute all others are counted together.
_MOST_KEYS: Final = 1000

_About = TypeVar("_About", bound=Hashable)


@dataclass(slots=True)
class _Count(Generic[_About]):
    about: _About
    until: float
    admitted: int = 0
    left_out: int = 0


class Throttle(Generic[_About]):
    """Of what others can cause, admits ten a minute of each key, and counts the rest.

    Safe for threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Hashable, _Count[_About]] = {}

    def admit(self, key: Hashable, about: _About, others: _About) -> bool:
        """Whether one more is admitted; it is counted either way.

        about: what `over` says of those left out. others: in its place where there are too many
        keys.
        """
        with self._lock:
            if key not in self._counts and len(self._counts) >= _MOST_KEYS:
                key = about = others
            count = self._counts.get(key)
            if count is None:
                until = clock.elapsed_seconds() + MINUTE_SECONDS
                count = self._counts[key] = _Count(about, until)
            if count.admitted < MOST_A_MINUTE:
                count.admitted += 1
                return True
            count.left_out += 1
            return False

    def over(self, *, at_end: bool = False) -> list[tuple[_About, int]]:
        """How many were left out in minutes that are over; `at_end`: in all."""
        now = clock.elapsed_seconds()
        with self._lock:
            over = {key: one for key, one in self._counts.items() if at_end or now >= one.until}
            for key in over:
                del self._counts[key]
        return [(one.about, one.left_out) for one in over.values() if one.left_out]


class LimitedLines:
    """Lines that peers can cause: ten a minute of each topic, then the number left out.

    left_out: the text for that, with {count} and {topic}.
    """

    def __init__(
        self, log: logging.Logger, left_out: str = "{count} more connections were refused"
    ) -> None:
        self._log = log
        self._left_out = left_out
        self._throttle = Throttle[str]()

    def warn(self, message: str, *values: object) -> None:
        """Log a line, or count it; all of these are one topic."""
        self.log("", logging.WARNING, message, *values)

    def log(
        self,
        topic: str,
        level: int,
        message: str,
        *values: object,
        fault: BaseException | None = None,
    ) -> None:
        """Log a line about a topic, with the traceback of a `fault`, or count it."""
        self.flush()
        if self._throttle.admit(topic, topic, "others"):
            self._log.log(level, message, *values, exc_info=fault)

    def flush(self) -> None:
        """Log how many were left out in minutes that are over; to be called regularly."""
        for topic, count in self._throttle.over():
            self._log.warning("%s", self._left_out.format(count=count, topic=topic))


class DailyLog:
    """Writes to `log`; a topic is reported again after a day, or at once after `forget`."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged_ns: dict[str, int] = {}

    def warn(self, topic: str, text: str) -> None:
        """A warning about `topic`, unless it was logged within a day."""
        self._tell(self._log.warning, topic, text)

    def error(self, topic: str, text: str) -> None:
        """The same as an error."""
        self._tell(self._log.error, topic, text)

    def _tell(self, write: Callable[[str, str], None], topic: str, text: str) -> None:
        now_ns = clock.now_ns()
        if abs(now_ns - self._logged_ns.get(topic, -_DAY_NS)) >= _DAY_NS:
            self._logged_ns[topic] = now_ns
            write("%s", text)

    def forget(self, topic: str) -> None:
        """What was reported `topic` is over."""
        self._logged_ns.pop(topic, None)


LONGEST_MESSAGE: Final = 8 << 10
CONTINUATION: Final = "  | "
# Of a longer traceback this many first and last lines are kept.
_MOST_LINES_OF_AN_END: Final = 100
# Syslog priorities, which the journal uses too.
_LEVELS: Final = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


def one_line(text: str) -> str:
    """Text from others, made safe for a log: one line, printable, and limited in length."""
    shown = printable(text[:LONGEST_MESSAGE])
    if len(text) <= LONGEST_MESSAGE and len(shown) <= LONGEST_MESSAGE:
        return shown
    return f"{shown[:LONGEST_MESSAGE]}... ({len(text)} characters)"


class PeopleLines(logging.Formatter):
    """Lines for people, with the level as a word."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - name in logging
        """The first line of a record, or the only one."""
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """All lines of a record."""
        first, *more = super().format(record).splitlines()
        if len(more) > 2 * _MOST_LINES_OF_AN_END:
            left_out = f"({len(more) - 2 * _MOST_LINES_OF_AN_END} lines more)"
            more = [*more[:_MOST_LINES_OF_AN_END], left_out, *more[-_MOST_LINES_OF_AN_END:]]
        return "\n".join([first, *(CONTINUATION + one_line(line) for line in more)])


class JournalLines(PeopleLines):
    """Lines for the journal, each with its priority, also those of a traceback."""

    def __init__(self) -> None:
        logging.Formatter.__init__(self, "%(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """All lines of a record."""
        level = _LEVELS.get(record.levelno, 6)
        return "\n".join(f"<{level}>{line}" for line in super().format(record).split("\n"))
