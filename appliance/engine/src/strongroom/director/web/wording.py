"""Ages, times and states in words, and addresses of our pages."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.director.results.formats import path_text
from strongroom.director.results.runs import Run

_STEPS: Final = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
# Signs beside the words, so that a state is not shown by its colour alone.
SIGNS: Final = {
    "done": "✓",
    "ok": "✓",
    "incomplete": "!",
    "failed": "✗",
    "late": "!",
    "new": "?",
    "cancelled": "×",  # noqa: RUF001 - a sign, not the letter x
    "running": "▶",
    "queued": "…",
    "waiting": "…",
    "error": "✗",
    "warning": "!",
}


def number(count: int) -> str:
    """`12,345`."""
    return f"{count:,}"


def duration(seconds: float) -> str:
    """`3 hours`: the largest unit of which there are two, or the next smaller one."""
    for length, word in _STEPS:
        if seconds >= 2 * length or (length == 1):
            count = int(seconds // length)
            return f"{count} {word}{'' if count == 1 else 's'}"
    raise AssertionError


def age(time_ns: int, now_ns: int | None = None) -> str:
    """`3 hours ago`, `in 2 days`, `never` for 0."""
    if not time_ns:
        return "never"
    seconds = ((clock.now_ns() if now_ns is None else now_ns) - time_ns) / SECOND_NS
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def moment(time_ns: int, zone: ZoneInfo) -> str:
    """`2026-11-22 21:04` in a time zone; in UTC where the calendar ends."""
    try:
        at = datetime.fromtimestamp(time_ns // SECOND_NS, UTC).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        return clock.utc_text(time_ns)
    return f"{at:%Y-%m-%d %H:%M}"


def offset_seconds(zone: ZoneInfo) -> int:
    """By how much a time zone is ahead of UTC now."""
    offset = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC).astimezone(zone).utcoffset()
    return int(offset.total_seconds()) if offset is not None else 0


def run_seconds(run: Run) -> float:
    """How long a run takes or took."""
    if not run.started_ns:
        return 0.0
    return max(0, (run.ended_ns or clock.now_ns()) - run.started_ns) / SECOND_NS


def link(page: str, /, **query: str | int | bytes | None) -> str:
    """The address of one of our pages; a path of a snapshot (bytes) as the API takes it."""
    words: list[tuple[str, str]] = []
    for name, value in query.items():
        if isinstance(value, bytes):
            words.append(path_word(value, name))
        elif value not in ("", None):
            words.append((name, str(value)))
    return f"{page}?{urlencode(words, errors='surrogateescape')}" if words else page


def path_word(path: bytes, name: str = "path") -> tuple[str, str]:
    """A path of a snapshot as the name and value of a query or form.

    What does not print would not be shown as it is, so it is not sent as text either.
    """
    text = path_text(path)
    if isinstance(text, str) and text.isprintable():
        return name, text
    return f"{name}_base64", base64.b64encode(path).decode("ascii")
