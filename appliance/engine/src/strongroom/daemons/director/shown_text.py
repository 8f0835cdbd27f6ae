"""Text from others in a form that is safe for a log line."""

from __future__ import annotations

from typing import Final

from strongroom.printable import printable

LONGEST_LOGGED: Final = 300


def shown(text: object, most: int = LONGEST_LOGGED) -> str:
    """The text with a limited length, and printable characters only."""
    return printable(str(text), most)
