"""What a source could not give."""

from __future__ import annotations

from errno import ENOENT
from typing import NamedTuple


class Problem(NamedTuple):
    """Something that could not be read, or changed while it was."""

    path: bytes
    errno: int
    text: str

    @property
    def is_harmless(self) -> bool:
        """Whether the snapshot misses nothing: what vanished before it was read is not in it."""
        return self.errno == ENOENT
