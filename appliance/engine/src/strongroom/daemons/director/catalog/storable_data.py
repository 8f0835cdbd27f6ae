"""Summaries and other data of agents, limited to the depth that an API response can have."""

from __future__ import annotations

from typing import Any, Final

MOST_DATA_DEPTH: Final = 16


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
