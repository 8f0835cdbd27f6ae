"""Texts that every database takes.

PostgreSQL takes no NUL, nobody takes half of a surrogate pair, and what is in an index may not be
long. Names in a snapshot are its writer's word, so all of that comes.
"""

from __future__ import annotations

from typing import Any, Final

# Job and client are in one index, of whose rows PostgreSQL takes 2,704 bytes.
LONGEST_NAME: Final = 300
LONGEST_TEXT: Final = 4096
_MOST_TAGS: Final = 1000
_NAMES: Final = frozenset(("client", "fileset", "job", "level", "pool", "storage"))


def plain(value: Any) -> Any:
    """A text as every database takes it, of any length; what is no text as it is."""
    if not isinstance(value, str):
        return value
    return value.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def plain_columns(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its texts as every database takes them, and no longer than it does."""
    return {column: _plain_column(column, value) for column, value in row.items()}


def plain_tags(tags: tuple[str, ...]) -> list[str]:
    """The tags of a snapshot, of which it may have any number."""
    return [plain(tag)[:LONGEST_NAME] for tag in tags[:_MOST_TAGS]]


def _plain_column(column: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return plain(value)[: LONGEST_NAME if column in _NAMES else LONGEST_TEXT]
