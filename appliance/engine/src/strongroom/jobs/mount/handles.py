"""Open directories of a mounted repository: their entries from any offset on.

An offset is the number of entries before it: 0 is `.`, 1 is `..`, the names follow. For a
directory of a snapshot a handle stores only where each of its slices began, so that a directory
of millions of names takes no memory and reading resumes where it stopped.
"""

from __future__ import annotations

import stat
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strongroom.jobs.looking.row_lookup import RowLookup, Slice

_DOTS: Final = (b".", b"..")


class Entry(NamedTuple):
    """A name in a directory; `next_offset` is where reading continues after it."""

    name: bytes
    mode: int
    inode: int
    next_offset: int


class DirectoryHandle(Protocol):
    """An open directory."""

    def entries(self, offset: int) -> Iterator[Entry]:
        """The entries from `offset` on."""


class FolderHandle:
    """A directory whose names are all known."""

    def __init__(self, names: Sequence[tuple[bytes, int, int]]) -> None:
        """`names`: (name, mode, inode) each."""
        self._names = [(name, stat.S_IFDIR, 0) for name in _DOTS] + list(names)

    def entries(self, offset: int) -> Iterator[Entry]:
        """The entries from `offset` on."""
        for number, (name, mode, inode) in enumerate(self._names[offset:], offset + 1):
            yield Entry(name, mode, inode, number)


class RowsHandle:
    """A directory of a snapshot."""

    def __init__(
        self, lookup: RowLookup, path: bytes, inode_of: Callable[[Slice, int], int]
    ) -> None:
        self._lookup = lookup
        self._path = path
        self._inode_of = inode_of
        self._positions = [0]
        self._first_names = [b""]

    def entries(self, offset: int) -> Iterator[Entry]:
        """The entries from `offset` on. Raises DamageError."""
        for number, name in enumerate(_DOTS[offset:], offset + 1):
            yield Entry(name, stat.S_IFDIR, 0, number)
        position = max(offset - len(_DOTS), 0)
        known = bisect_right(self._positions, position) - 1
        at = self._positions[known]
        for piece in self._lookup.directory_from(self._path, self._first_names[known]):
            if at > self._positions[-1]:
                self._positions.append(at)
                self._first_names.append(piece.names[0])
            for row in range(max(0, position - at), len(piece.names)):
                # The root's own row has no name.
                if piece.names[row]:
                    yield Entry(
                        piece.names[row],
                        piece.mode(row),
                        self._inode_of(piece, row),
                        at + row + 1 + len(_DOTS),
                    )
            at += len(piece.names)
