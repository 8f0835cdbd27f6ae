"""Sizes and durations for display."""

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
