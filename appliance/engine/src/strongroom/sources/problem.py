"""Problems of reading a source."""

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
        """Whether the snapshot is still complete: the entry vanished before it was read."""
        return self.errno == ENOENT
