"""What editors of other systems put into texts: a mark of the byte order, UTF-16, other quotes."""

from __future__ import annotations

from typing import Final

from strongroom.base.errors import UsageError

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_MARKS: Final = tuple(
    mark.encode() for mark in "\u201c\u201d\u201e\u201f\u2018\u2019\u201a\u201b\u00ab\u00bb"
)


def plain_text(data: bytes, what: str) -> bytes:
    """The text of a file without a byte order mark. UsageError where it is UTF-16."""
    # Text in UTF-16 that no one marked has a NUL in each ASCII character.
    if data.startswith(_UTF_16) or (len(data) > 1 and data[:2].count(0) == 1):
        raise UsageError(f"{what} is UTF-16: save it as UTF-8")
    return data.removeprefix(BYTE_ORDER_MARK)


def has_typographic_quotes(text: bytes) -> bool:
    """Whether a text is in quotes that a word processor made of straight ones."""
    return text.startswith(_MARKS) and text.endswith(_MARKS)
