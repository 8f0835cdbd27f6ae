"""Text from others in a form that is safe for a log line, and times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from strongroom.clock import SECOND_NS
from strongroom.printable import printable

if TYPE_CHECKING:
    from datetime import tzinfo

LONGEST_LOGGED: Final = 300


def shown(text: object, most: int = LONGEST_LOGGED) -> str:
    """The text with a limited length, and printable characters only."""
    return printable(str(text), most)


def shown_time(time_ns: int, zone: tzinfo = UTC) -> str:
    """`2026-11-22 21:00 CET`, "" for 0."""
    if not time_ns:
        return ""
    moment = datetime.fromtimestamp(time_ns // SECOND_NS, UTC).astimezone(zone)
    return f"{moment:%Y-%m-%d %H:%M %Z}"
