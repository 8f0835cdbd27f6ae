"""Problems of reading a source."""

from __future__ import annotations

from errno import ENOENT
from typing import Final, NamedTuple

# Of a whole file system, see `scan.mounts.unsized_devices`.
UNSIZED: Final = (
    "files there say that they are empty, so their content is not backed up; leave it out with "
    "--one-file-system or --exclude, or read single files with --stdin"
)


class Problem(NamedTuple):
    """Something that could not be read, or changed while it was."""

    path: bytes
    errno: int
    text: str

    @property
    def is_harmless(self) -> bool:
        """Whether the snapshot is still complete: the entry vanished before it was read."""
        return self.errno == ENOENT
