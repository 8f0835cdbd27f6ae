"""Texts and data in a form that every database accepts and that an API response can have.

PostgreSQL accepts no NUL, no database accepts half of a surrogate pair, and indexed values must not
be long. Names in a snapshot are set by its writer, so all of that can occur. Summaries and other
data of agents may be nested to any depth.
"""

from __future__ import annotations

from typing import Any, Final

# Job and client are in one index, whose rows PostgreSQL limits to 2,704 bytes.
LONGEST_NAME: Final = 300
LONGEST_TEXT: Final = 4096
MOST_DATA_DEPTH: Final = 16
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


def shallow(data: Any) -> Any:
    """Data of the catalog unchanged, unless it is nested too deep for a response."""
    return left_out() if _is_deep(data, MOST_DATA_DEPTH) else data


def left_out() -> dict[str, Any]:
    """The placeholder for data that cannot be stored or shown."""
    return {"left_out": "it was too long, or too deep"}


def _is_deep(value: Any, room: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    if not room:
        return True
    inner = value.values() if isinstance(value, dict) else value
    return any(_is_deep(one, room - 1) for one in inner)
