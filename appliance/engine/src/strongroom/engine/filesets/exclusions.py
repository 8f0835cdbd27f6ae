"""Which rows of a directory a backup keeps: patterns, markers, cache directories, sizes.

`compile_selection` gives None when everything is kept, so that a backup without exclusions has no
overhead. A directory that is excluded by a pattern has no row and is not entered. One with a
marker file or a cache tag keeps its own row and the marker's, nothing else in it.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom.engine.rows.left_out import EXCLUDED, MARKED
from strongroom.engine.rows.rows import COLUMN_COUNT, MODE, SIZE
from strongroom.engine.scan.patterns import Patterns, and_resolved, read_pattern_file

CACHE_TAG_NAME: Final = b"CACHEDIR.TAG"
CACHE_TAG_SIGNATURE: Final = b"Signature: 8a477f597d28d172789f06886806bc55"
_OPEN_MARKER: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Judgement(NamedTuple):
    """What to do with the entries of a directory.

    kept: for each whether it has a row; None: all have. left: directories that have a row but are
    not entered. treatments: one byte an entry, a position in the table of treatments; None: all
    have the job's settings. noted: why names are left out where that does not follow from their
    names (of `rows.left_out`); b"" is the directory itself.
    """

    kept: list[bool] | None
    left: frozenset[bytes] = frozenset()
    treatments: bytes | None = None
    noted: Mapping[bytes, int] = {}


class SelectionOptions(msgspec.Struct, frozen=True):
    """What to leave out.

    exclude, exclude_files: patterns (see `patterns`) and files of them; the files' patterns come
    after the others. `..._ignoring_case`: the same, case-insensitive.
    exclude_caches: directories with a CACHEDIR.TAG of the right signature.
    exclude_if_present: markers, each NAME or NAME:HEADER, a file that begins with HEADER.
    one_file_system: stay on the file systems of the paths given (enforced by the walker).
    exclude_larger_than_bytes, exclude_smaller_than_bytes: regular files only.
    """

    exclude: tuple[bytes, ...] = ()
    exclude_ignoring_case: tuple[bytes, ...] = ()
    exclude_files: tuple[bytes, ...] = ()
    exclude_files_ignoring_case: tuple[bytes, ...] = ()
    exclude_caches: bool = False
    exclude_if_present: tuple[bytes, ...] = ()
    one_file_system: bool = False
    exclude_larger_than_bytes: int | None = None
    exclude_smaller_than_bytes: int | None = None


class SelectionRules(msgspec.Struct, frozen=True):
    """The options, pattern files read, as a snapshot records them.

    patterns: each with whether it ignores case. markers: name and header.
    """

    patterns: tuple[tuple[bytes, bool], ...] = ()
    markers: tuple[tuple[bytes, bytes], ...] = ()
    smallest_bytes: int = 0
    largest_bytes: int | None = None


class Selection:
    """Compiled rules."""

    def __init__(self, rules: SelectionRules) -> None:
        """Raises UsageError for a pattern that is not well formed."""
        self.rules = rules
        self._patterns = Patterns(rules.patterns) if rules.patterns else None
        self._markers = rules.markers
        self._smallest_bytes = rules.smallest_bytes
        self._largest_bytes = rules.largest_bytes

    def filter(self, path: bytes, names: list[bytes], stats: array[int]) -> list[bool] | None:
        """For each of `names` whether `judge` keeps it; None when it keeps all."""
        return self.judge(path, names, stats).kept

    def judge(self, path: bytes, names: list[bytes], stats: array[int]) -> Judgement:
        """What to do with `names`.

        `path` is the directory, which must be the working directory; `stats` as `stat_rows`
        returns it. `names` may be a slice of the directory.
        """
        marker = self._marker_present()
        if marker is not None:
            return Judgement([name == marker for name in names], noted={b"": MARKED})
        keep: list[bool] | None = None
        asked = self._patterns.for_directory(path) if self._patterns is not None else None
        if asked is not None:
            directories: list[bool] = []
            if asked.wants_directories:
                directories = list(map(stat.S_ISDIR, stats[MODE::COLUMN_COUNT]))
            excluded = asked.match(names, directories)
            if any(excluded):
                keep = [not one for one in excluded]
        if self._smallest_bytes or self._largest_bytes is not None:
            fits = self._fitting_sizes(stats)
            if not all(fits):
                noted = {name: EXCLUDED for name, fit in zip(names, fits, strict=True) if not fit}
                keep = fits if keep is None else [a and b for a, b in zip(keep, fits, strict=True)]
                return Judgement(keep, noted=noted)
        return Judgement(keep)

    def reason(self, path: bytes, name: bytes, mode: int, size_bytes: int) -> str:
        """Why `judge` left `name` out; the directory `path` must be the working directory."""
        if (marker := self._marker_present()) is not None:
            return f"its folder holds {printable(marker)}"
        is_directory = stat.S_ISDIR(mode)
        if self._patterns is not None:
            pattern = self._patterns.excluding(path, name, is_directory=is_directory)
            if pattern:
                return f"excluded by {printable(pattern)}"
        if size_bytes < self._smallest_bytes:
            return f"{size_bytes:,} bytes, fewer than {self._smallest_bytes:,}"
        return f"{size_bytes:,} bytes, more than {self._largest_bytes:,}"

    def _fitting_sizes(self, stats: array[int]) -> list[bool]:
        sizes = stats[SIZE::COLUMN_COUNT]
        modes = stats[MODE::COLUMN_COUNT]
        smallest = self._smallest_bytes
        largest = max(sizes, default=0) if self._largest_bytes is None else self._largest_bytes
        return [
            smallest <= size <= largest or not stat.S_ISREG(mode)
            for size, mode in zip(sizes, modes, strict=True)
        ]

    def _marker_present(self) -> bytes | None:
        for name, header in self._markers:
            if _has_marker(name, header):
                return name
        return None


def compile_selection(options: SelectionOptions) -> Selection | None:
    """The selection, or None when nothing is excluded.

    Reads the pattern files. Raises UsageError for a file that cannot be read, a pattern or a
    marker that is not well formed, or sizes that no file can have.
    """
    patterns = [(pattern, False) for pattern in options.exclude]
    patterns += [(pattern, True) for pattern in options.exclude_ignoring_case]
    for path in options.exclude_files:
        patterns += [(pattern, False) for pattern in read_pattern_file(path)]
    for path in options.exclude_files_ignoring_case:
        patterns += [(pattern, True) for pattern in read_pattern_file(path)]
    markers = tuple(map(_parse_marker, options.exclude_if_present))
    if options.exclude_caches:
        markers += ((CACHE_TAG_NAME, CACHE_TAG_SIGNATURE),)
    smallest, largest = options.exclude_smaller_than_bytes or 0, options.exclude_larger_than_bytes
    if smallest < 0 or (largest is not None and largest < smallest):
        raise UsageError("the size limits leave no file to back up")
    if not patterns and not markers and not smallest and largest is None:
        return None
    rules = SelectionRules(tuple(and_resolved(patterns)), markers, smallest, largest)
    return Selection(rules)


def _parse_marker(text: bytes) -> tuple[bytes, bytes]:
    name, _, header = text.partition(b":")
    if not name or b"/" in name or b"\0" in name or name in (b".", b".."):
        shown = printable(text)
        raise UsageError(f"marker {shown!r} must be a file's name, or NAME:HEADER")
    return name, header


def _has_marker(name: bytes, header: bytes) -> bool:
    """Whether the working directory holds the marker; one that cannot be read does not count."""
    try:
        if not header:
            os.lstat(name)
            return True
        fd = os.open(name, _OPEN_MARKER)
        try:
            return stat.S_ISREG(os.fstat(fd).st_mode) and os.read(fd, len(header)) == header
        finally:
            os.close(fd)
    except OSError:
        return False
