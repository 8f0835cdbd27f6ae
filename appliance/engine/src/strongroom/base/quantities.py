"""Sizes, durations, counts and limits: the units, plurals and figures of all messages."""

from __future__ import annotations


def size_text(size_bytes: float) -> str:
    """`size_bytes` in the unit that leaves one to four digits: `0 B`, `1.5 KiB`, `12.0 GiB`."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(size) < 1024 or unit == "PiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError  # the loop always ends in PiB


def duration_text(seconds: float) -> str:
    """`seconds` in hours, minutes and seconds: `3.2 s`, `4:05`, `1:02:03`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def counted(number: int, word: str) -> str:
    """`1 file`, `12,301 files`, `2 entries`, `3 days`: `word` is the singular."""
    if number == 1:
        return f"1 {word}"
    plural = f"{word[:-1]}ies" if word.endswith("y") and word[-2] not in "aeo" else f"{word}s"
    return f"{number:,} {plural}"


def lowest_limit(*limits: int) -> int:
    """The lowest of limits of which 0 means none; 0 where there is none."""
    return min(filter(None, limits), default=0)
