"""Durations, sizes and speeds: numbers with units, parsed by pyparsing and remembered by text.

    duration   1 month 2 days 30 sec   bare numbers are seconds; `m` is a month, `mi` a minute
    size       1.5 g, 1g 512m, 5kb     k m g t p e count in 1024, kb mb gb ... in 1000
    speed      10 mb/s, 10 k           k/s m/s in 1024, kb/s mb/s in 1000; bytes per second

A unit of time is the first in the list that begins with what was written, so `secs` is none. Parts
add up and may have fractions. Every function gives None for text that is not such a measure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache, partial

from pyparsing import Group, Opt, ParseException, ParserElement, Regex

_TIME_UNITS = (
    ("n", 60),
    ("seconds", 1),
    ("months", 30 * 86400),
    ("minutes", 60),
    ("mins", 60),
    ("hours", 3600),
    ("days", 86400),
    ("weeks", 7 * 86400),
    ("quarters", 91 * 86400),
    ("years", 365 * 86400),
)
_SIZE_UNITS = {
    **{letter: 1024**power for power, letter in enumerate("kmgtpe", 1)},
    **{letter + "b": 1000**power for power, letter in enumerate("kmgtpe", 1)},
}
_SPEED_UNITS = (("k/s", 1024), ("kb/s", 1000), ("m/s", 1024**2), ("mb/s", 1000**2))
_LARGEST = 2**63 - 1
_LONGEST_TEXT = 500  # as Bareos; bounds the work as well


@cache
def _measure(number_pattern: str, unit_pattern: str) -> ParserElement:
    number = Regex(number_pattern)
    unit = Regex(unit_pattern, re.IGNORECASE | re.ASCII)
    grammar: ParserElement = Group(number + Opt(unit, default=""))[1, ...]
    return grammar


_NUMBER = r"[0-9]+(?:\.[0-9]*)?"
_NUMBER_WITH_EXPONENT = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"


def _total(text: str, grammar: ParserElement, factor_of: Callable[[str], int | None]) -> int | None:
    if len(text) > _LONGEST_TEXT:
        return None
    try:
        parts = grammar.parse_string(text, parse_all=True)
    except ParseException:
        return None
    total = 0.0
    for number, unit in parts:
        factor = factor_of(unit.lower()) if unit else 1
        if factor is None:
            return None
        total += float(number) * factor
    return int(total) if total <= _LARGEST else None


def _begins(units: tuple[tuple[str, int], ...], unit: str) -> int | None:
    return next((factor for name, factor in units if name.startswith(unit)), None)


@lru_cache(maxsize=4096)
def duration_seconds(text: str) -> int | None:
    """Seconds of a duration."""
    return _total(text, _measure(_NUMBER, r"[a-z]+"), partial(_begins, _TIME_UNITS))


@lru_cache(maxsize=4096)
def size_bytes(text: str) -> int | None:
    """Bytes of a size."""
    return _total(text, _measure(_NUMBER_WITH_EXPONENT, r"[a-z]+"), _SIZE_UNITS.get)


@lru_cache(maxsize=4096)
def speed_bytes_per_second(text: str) -> int | None:
    """Bytes per second of a speed."""
    return _total(text, _measure(_NUMBER, r"[a-z/]+"), partial(_begins, _SPEED_UNITS))


def duration_words(seconds: int) -> str:
    """A duration as the printer writes it: the largest units that divide it without rest."""
    if seconds == 0:
        return "0"
    words = []
    for unit, factor in (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1)):
        count, seconds = divmod(seconds, factor)
        if count:
            words.append(f"{count} {unit}")
    return " ".join(words)
