"""The format of log lines, which prevents peers from forging lines of a daemon's log.

Messages contain text from peers: names, ids, errors. So a message is always one line, unprintable
characters are escaped (newlines, a terminal's control sequences), and it has at most
LONGEST_MESSAGE characters. Lines of a traceback begin with CONTINUATION.
"""

from __future__ import annotations

import logging
from typing import Final

from strongroom.printable import printable

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
