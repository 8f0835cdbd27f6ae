"""Text from others in a form that is safe for a log line, and times."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from strongroom.base.clock import SECOND_NS
from strongroom.base.printable import printable

LONGEST_LOGGED: Final = 300
_KTLS_WAYS: Final = (("ktls_send", "sending"), ("ktls_receive", "receiving"))


def shown(text: object, most: int = LONGEST_LOGGED) -> str:
    """The text with a limited length, and printable characters only."""
    return printable(str(text), most)


def connection_text(security: dict[str, Any]) -> str:
    """The security of a run's connection to the storage daemon; "" if it was not reported.

    It is reported by the agent, so it is limited in length.
    """
    if not security:
        return ""
    ways = [word for way, word in _KTLS_WAYS if security.get(way) is True]
    used = f"kTLS for {' and '.join(ways)}" if ways else "no kTLS"
    return shown(f"{security.get('mode', '?')}, {security.get('cipher', '?')}, {used}")


def shown_time(time_ns: int, zone: tzinfo = UTC) -> str:
    """`2026-11-22 21:00 CET`, "" for 0."""
    if not time_ns:
        return ""
    moment = datetime.fromtimestamp(time_ns // SECOND_NS, UTC).astimezone(zone)
    return f"{moment:%Y-%m-%d %H:%M %Z}"
