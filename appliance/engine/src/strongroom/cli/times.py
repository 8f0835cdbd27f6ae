"""Times for input and display, in local time; JSON uses `clock.utc_text`."""

from __future__ import annotations

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import UsageError


def time_text(time_ns: int) -> str:
    """`2026-11-21 13:10:38`, local time; `@seconds` where the calendar ends."""
    return clock.local_text(time_ns)


def parse_moment(text: str) -> int:
    """A time in ns since 1970: a date and time, `@seconds`, or how long ago (`36h`, `7d`).

    Local time where no offset is stated; a date alone means its start. Raises UsageError.
    """
    from datetime import datetime

    from strongroom.engine.prune.retention import parse_duration

    stripped = text.strip()
    if stripped.startswith("@") and stripped[1:].removeprefix("-").isdecimal():
        return int(stripped[1:]) * SECOND_NS
    try:
        moment = datetime.fromisoformat(stripped)
        seconds = int(moment.replace(microsecond=0).timestamp())
        return seconds * SECOND_NS + moment.microsecond * 1000
    except (ValueError, OverflowError):
        pass
    try:
        return parse_duration(stripped).before(clock.now_ns())
    except UsageError as error:
        raise UsageError(
            f"{text!r} is not a time; write for example 2026-11-21, '2026-11-21 13:10', "
            "2026-11-21T13:10Z, @1700000000, or how long ago: 36h, 7d, 6m (months)"
        ) from error
