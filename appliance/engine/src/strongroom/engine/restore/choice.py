"""Which rows of a snapshot a restore wants: --include and --exclude patterns.

A row is wanted when it, or a directory it is in, matches an include pattern (or there is none)
and neither it nor a directory it is in matches an exclude pattern. Directories that only lead to
something wanted are *passed*: they are created only if something in them is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.rows.rows import Rows, slice_rows
from strongroom.engine.rows.views import join_path, path_key, split_path
from strongroom.engine.scan.patterns import Patterns

LEFT_OUT: Final = 0
WANTED: Final = 1
PASSED: Final = 2


class Choice:
    """Decides for the names of one directory at a time. Paths are those of the snapshot."""

    def __init__(self, includes: Patterns | None, excludes: Patterns | None) -> None:
        self._includes = includes
        self._excludes = excludes

    @property
    def takes_all(self) -> bool:
        """Whether there is no pattern at all."""
        return self._includes is None and self._excludes is None

    def includes(self, path: bytes) -> bool:
        """Whether the directory `path`, or one it is in, is included: all of it is wanted."""
        if self._includes is None:
            return True
        steps = path.split(b"/") if path else []
        for number, name in enumerate(steps):
            if _match(self._includes, b"/".join(steps[:number]), [name], [True])[0]:
                return True
        return False

    def choose(
        self,
        directory: bytes,
        names: Sequence[bytes],
        are_directories: Sequence[bool],
        *,
        is_wanted: bool,
    ) -> list[int]:
        """LEFT_OUT, WANTED or PASSED for each name; `is_wanted`: the directory itself is wanted."""
        if is_wanted or self._includes is None:
            chosen = [WANTED] * len(names)
        else:
            matched = _match(self._includes, directory, names, are_directories)
            chosen = [
                WANTED if is_match else PASSED if is_directory else LEFT_OUT
                for is_match, is_directory in zip(matched, are_directories, strict=True)
            ]
        if self._excludes is not None:
            excluded = _match(self._excludes, directory, names, are_directories)
            chosen = [
                LEFT_OUT if is_out else value
                for is_out, value in zip(excluded, chosen, strict=True)
            ]
        return chosen


def _match(
    patterns: Patterns,
    directory: bytes,
    names: Sequence[bytes],
    are_directories: Sequence[bool],
) -> list[bool]:
    asked = patterns.for_directory(directory)
    if asked is None:
        return [False] * len(names)
    return asked.match(names, are_directories)


def rows_of_places(listing: Listing, base: bytes, places: Sequence[bytes]) -> Iterator[Rows]:
    """The rows below `base` that are at or below some paths, and those that lead to them, in order.

    places: none below another. So a listing of millions is not read for one file.
    """
    if any(not place or place == base or is_above(place, base) for place in places):
        yield from listing.rows(base)
        return
    below = [place for place in places if not base or is_above(base, place)]
    # What leads to a place, and the place itself: names by directory.
    leading: dict[bytes, set[bytes]] = {}
    for place in below:
        directory, name = split_path(place)
        while name:
            leading.setdefault(directory, set()).add(name)
            if directory == base:
                break
            directory, name = split_path(directory)
    order = [(path_key(directory), directory, True) for directory in leading]
    order += [(path_key(place), place, False) for place in below]
    for _, directory, is_leading in sorted(order):
        if not is_leading:
            yield from listing.rows(directory)
            continue
        for name in sorted(leading[directory]):
            for rows in listing.directory_from(directory, name):
                if rows.name_list()[0] == name:
                    yield slice_rows(rows, 0, 1)
                break


def is_above(path: bytes, other: bytes) -> bool:
    """Whether `other` is below the directory `path`."""
    return not path or other.startswith(path + b"/")


class BackedUp:
    """Distinguishes what a snapshot has completely from directories that only lead there.

    Of the latter a snapshot holds the row but not the other entries, so an existing one is left
    unchanged and nothing in it is surplus.
    """

    def __init__(self, roots: Sequence[bytes], base: bytes) -> None:
        """`roots`: the paths that were backed up; `base`: the snapshot's path at the target."""
        self._roots = frozenset(root.strip(b"/") for root in roots)
        self._deepest = max((root.count(b"/") + 1 for root in self._roots if root), default=0)
        self._base = base

    def source_of(self, place: bytes) -> bytes:
        """The snapshot's path of `place`."""
        return join_path(self._base, place) if self._base and place else self._base or place

    def __call__(self, place: bytes) -> bool:
        """Whether all of the directory at `place` was backed up."""
        # A list of files may have named any number of roots.
        path = b"/".join(self.source_of(place).split(b"/", self._deepest)[: self._deepest])
        while path not in self._roots:
            if not path:
                return False
            path = path.rpartition(b"/")[0]
        return True
