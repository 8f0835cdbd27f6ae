"""Sizes as people write them for options."""

from __future__ import annotations

from typing import Final

from strongroom.base.errors import UsageError

_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_bytes(text: str, option: str) -> int:
    """Bytes of `500M` and the like. Raises UsageError, which names the option."""
    number = text.lower().removesuffix("ib").removesuffix("b")
    unit = number[-1:] if number[-1:] in _UNITS else ""
    digits = number[: len(number) - len(unit)]
    if not digits.isdecimal():
        raise UsageError(f"{option} {text}: write a number of bytes, or one with K, M, G or T")
    return int(digits) * _UNITS[unit]
