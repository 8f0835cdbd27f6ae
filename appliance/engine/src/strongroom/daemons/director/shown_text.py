"""Texts of others as a line of a log may have them."""

from __future__ import annotations

from typing import Final

from strongroom.printable import printable

LONGEST_LOGGED: Final = 300


def shown(text: object, most: int = LONGEST_LOGGED) -> str:
    """So many characters at most, all of them printable."""
    return printable(str(text), most)
