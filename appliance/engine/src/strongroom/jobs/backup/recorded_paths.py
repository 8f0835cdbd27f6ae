"""The paths that a snapshot says it was made of: those named, or the folders above them.

A list may name millions of files, and an envelope, which everybody who lists snapshots reads, has
room for some thousands.
"""

from __future__ import annotations

from typing import Final

from strongroom.repo.snapshots import ENVELOPE_SIZE_LIMIT

# The rest is for tags and options.
_MOST_BYTES: Final = ENVELOPE_SIZE_LIMIT // 2
_OVERHEAD_BYTES: Final = 5


def recorded_paths(paths: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """`paths` where there is room for them, else the deepest folders above them that fit."""
    if _fits(paths):
        return paths
    parts = [path.split(b"/") for path in paths]
    # All of them fit at the depth `low` and not at `high`.
    low, high = 0, max(map(len, parts))
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(_cut(parts, middle)):
            low = middle
        else:
            high = middle
    return _cut(parts, low)


def _cut(parts: list[list[bytes]], depth: int) -> tuple[bytes, ...]:
    found = {tuple(one[:depth]) for one in parts}
    # One that is a path of its own holds those below it.
    shorter = {one for one in found if len(one) < depth}
    kept = [
        one
        for one in found
        if not shorter or not any(one[:end] in shorter for end in range(1, len(one)))
    ]
    return tuple(b"/".join(one) for one in sorted(kept))


def _fits(paths: tuple[bytes, ...]) -> bool:
    return sum(map(len, paths)) + _OVERHEAD_BYTES * len(paths) <= _MOST_BYTES
