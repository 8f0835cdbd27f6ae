"""Paths chosen for a restore; a directory includes everything in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

MarkState = Literal["", "marked", "within"]


class MarkedPaths:
    """Marked paths of one snapshot, with their sizes where those are known."""

    def __init__(self) -> None:
        self._sizes: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[bytes]:
        return iter(sorted(self._sizes))

    @property
    def size_bytes(self) -> int:
        """Bytes of the files that were marked themselves."""
        return sum(self._sizes.values())

    def state(self, path: bytes) -> MarkState:
        """Whether `path` is marked, or within a directory that is."""
        if path in self._sizes:
            return "marked"
        above = path
        while b"/" in above.strip(b"/"):
            above = above.rpartition(b"/")[0]
            if above in self._sizes:
                return "within"
        return ""

    def toggle(self, path: bytes, size_bytes: int = 0) -> bool:
        """Mark or unmark; False, and nothing changes, when a directory above is marked.

        Marking a directory removes the marks below it, which it includes.
        """
        if path in self._sizes:
            del self._sizes[path]
            return True
        if self.state(path) == "within":
            return False
        below = path.rstrip(b"/") + b"/"
        for marked in [one for one in self._sizes if one.startswith(below)]:
            del self._sizes[marked]
        self._sizes[path] = size_bytes
        return True

    def clear(self) -> None:
        """Unmark everything."""
        self._sizes.clear()
