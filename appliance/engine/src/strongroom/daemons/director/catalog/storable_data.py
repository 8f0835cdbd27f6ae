"""Summaries and other data of agents, no deeper than an answer of the API can have them."""

from __future__ import annotations

from typing import Any, Final

MOST_DATA_DEPTH: Final = 16


def shallow(data: Any) -> Any:
    """Data of the catalog as it is, unless it is nested so deep that no answer can have it."""
    return left_out() if _is_deep(data, MOST_DATA_DEPTH) else data


def left_out() -> dict[str, Any]:
    """What stands where data would be that cannot be kept or shown."""
    return {"left_out": "it was too long, or too deep"}


def _is_deep(value: Any, room: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    if not room:
        return True
    inner = value.values() if isinstance(value, dict) else value
    return any(_is_deep(one, room - 1) for one in inner)
