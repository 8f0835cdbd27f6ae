"""Texts in a form that every database accepts.

PostgreSQL accepts no NUL, no database accepts half of a surrogate pair, and indexed values must not
be long. Names in a snapshot are set by its writer, so all of that can occur.
"""

from __future__ import annotations

from typing import Any, Final

# Job and client are in one index, whose rows PostgreSQL limits to 2,704 bytes.
LONGEST_NAME: Final = 300
LONGEST_TEXT: Final = 4096
_MOST_TAGS: Final = 1000
_NAMES: Final = frozenset(("client", "fileset", "job", "level", "pool", "storage"))


def plain(value: Any) -> Any:
    """A text as every database accepts it, of any length; other values unchanged."""
    if not isinstance(value, str):
        return value
    return value.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def plain_columns(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its texts as every database accepts them, and limited in length."""
    return {column: _plain_column(column, value) for column, value in row.items()}


def plain_tags(tags: tuple[str, ...]) -> list[str]:
    """The tags of a snapshot, limited in number."""
    return [plain(tag)[:LONGEST_NAME] for tag in tags[:_MOST_TAGS]]


def _plain_column(column: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return plain(value)[: LONGEST_NAME if column in _NAMES else LONGEST_TEXT]
