"""Which Options block of an Include decides about an entry, compiled per directory.

Patterns are analysed once: literal paths are found by one dictionary lookup, `*.suffix` by one
comparison of endings; the rest is one regular expression of all patterns whose beginning matches
the directory. If nothing can match, a directory costs one lookup.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from strongroom.base.errors import UsageError
from strongroom.engine.filesets.posix_regex import PosixRegex
from strongroom.engine.filesets.spec import FileSetInclude, FileSetOptions, FileSetSpec
from strongroom.engine.scan.globs import fold_case, is_literal, translate_path_glob

MOST_TREATMENTS: Final = 256
# For an Include without an Options block.
USUAL_OPTIONS: Final = FileSetOptions()
EXCLUDED: Final = -1
_UNDECIDED: Final = -2
_SPECIAL: Final = re.compile(rb"[*?\[\\]")
_KEPT_COMBINATIONS: Final = 256


class StatedTreatment(NamedTuple):
    """How an entry is stored; None: by the job's settings."""

    compression: str | None = None
    signature: str | None = None
    acls: bool | None = None
    xattrs: bool | None = None


def treatment_of(options: FileSetOptions) -> StatedTreatment:
    """The storage settings of an Options block."""
    return StatedTreatment(options.compression, options.signature, options.acls, options.xattrs)


class PathGlobs:
    """Which paths match any of some patterns. `prefix` is the directory's path and a slash."""

    def __init__(self, globs: Iterable[str], *, ignores_case: bool, crosses_slashes: bool) -> None:
        self._folds = ignores_case
        # Directory -> names in it. End of a directory's path -> names in any such.
        self._literals: dict[bytes, frozenset[bytes]] = {}
        self._tails: dict[bytes, frozenset[bytes]] = {}
        self._others: list[tuple[bytes, bytes]] = []
        endings: list[bytes] = []
        beginnings: list[bytes] = []
        for text in globs:
            glob = fold_case(os.fsencode(text)) if ignores_case else os.fsencode(text)
            if glob[:1] not in (b"/", b"*", b"?", b"[", b"\\"):
                continue  # it matches no absolute path
            if is_literal(glob):
                _add_path(self._literals, glob)
            elif crosses_slashes and glob[:1] == b"*" and is_literal(glob[1:]):
                if b"/" in glob:
                    _add_path(self._tails, glob[1:])
                else:
                    endings.append(glob[1:])
            elif crosses_slashes and glob[-1:] == b"*" and is_literal(glob[:-1]):
                beginnings.append(glob[:-1])
            else:
                special = _SPECIAL.search(glob)
                head = glob[: special.start()] if special else glob
                pattern = translate_path_glob(glob, crosses_slashes=crosses_slashes)
                self._others.append((head, pattern))
        self._endings = tuple(endings)
        self._beginnings = tuple(beginnings)
        self._combination = lru_cache(_KEPT_COMBINATIONS)(self._combine)

    @property
    def is_empty(self) -> bool:
        """Whether nothing can match."""
        return not (
            self._literals or self._tails or self._endings or self._beginnings or self._others
        )

    def fits(self, prefix: bytes, names: Sequence[bytes]) -> list[bool] | None:
        """For each name whether it matches; None when none can."""
        if self._folds:
            prefix = fold_case(prefix)
        if self._beginnings and prefix.startswith(self._beginnings):
            return [True] * len(names)
        literals = self._literals.get(prefix, frozenset())
        for head, tails in self._tails.items():
            if prefix.endswith(head):
                literals |= tails
        beginnings = tuple(
            [head[len(prefix) :] for head in self._beginnings if head.startswith(prefix)]
        )
        numbers = tuple(
            [
                number
                for number, (head, _) in enumerate(self._others)
                if prefix.startswith(head) or head.startswith(prefix)
            ]
        )
        endings = self._endings
        if not (literals or endings or beginnings or numbers):
            return None
        if self._folds:
            names = [fold_case(name) for name in names]
        if endings or beginnings:
            found = [
                name in literals or name.endswith(endings) or name.startswith(beginnings)
                for name in names
            ]
        else:
            found = [name in literals for name in names]
        if not numbers:
            return found
        matches = self._combination(numbers)
        return [
            fit or matches(prefix + name) is not None
            for fit, name in zip(found, names, strict=True)
        ]

    def _combine(self, numbers: tuple[int, ...]) -> Callable[[bytes], re.Match[bytes] | None]:
        return re.compile(b"|".join([self._others[number][1] for number in numbers])).fullmatch


class _EntryTest:
    """Which entries of one kind (directories, or all others) match a block's patterns."""

    def __init__(
        self, wild: Sequence[str], wild_base: Sequence[str], regex: Sequence[str],
        options: FileSetOptions,
    ) -> None:  # fmt: skip
        ignores_case = options.ignore_case
        self._paths = PathGlobs(
            wild, ignores_case=ignores_case, crosses_slashes=not options.enhanced_wild
        )
        self._names = PathGlobs(
            ["/" + glob for glob in wild_base], ignores_case=ignores_case, crosses_slashes=False
        )
        self._regexes = [PosixRegex(os.fsencode(text), ignores_case=ignores_case) for text in regex]

    def fits(self, prefix: bytes, names: Sequence[bytes]) -> list[bool] | None:
        found = self._paths.fits(prefix, names)
        if not self._names.is_empty:
            found = _either(found, self._names.fits(b"/", names))
        if self._regexes:
            found = _either(
                found,
                [any(regex.fits(prefix + name) for regex in self._regexes) for name in names],
            )
        return found


class OptionsBlock:
    """One Options block."""

    def __init__(self, options: FileSetOptions) -> None:
        """Raises UsageError for a regular expression that is not well formed."""
        self.options = options
        self.treatment = treatment_of(options)
        base = [glob for glob in options.wild_file if options.enhanced_wild and "/" not in glob]
        whole = [glob for glob in options.wild_file if glob not in base]
        self._directories = _EntryTest(
            (*options.wild, *options.wild_dir), (), (*options.regex, *options.regex_dir), options
        )
        self._others = _EntryTest(
            (*options.wild, *whole), base, (*options.regex, *options.regex_file), options
        )
        self.bounds_sizes = options.smallest_bytes is not None or options.largest_bytes is not None

    def fits(
        self, prefixes: Sequence[bytes], names: Sequence[bytes], directories: Sequence[bool]
    ) -> list[bool] | None:
        """For each entry whether a pattern matches; None when none does."""
        of_directories = of_others = None
        for prefix in prefixes:
            if any(directories):
                of_directories = _either(of_directories, self._directories.fits(prefix, names))
            if not all(directories):
                of_others = _either(of_others, self._others.fits(prefix, names))
        if of_directories is None and of_others is None:
            return None
        none = [False] * len(names)
        return [
            one if is_directory else other
            for one, other, is_directory in zip(
                of_directories or none, of_others or none, directories, strict=True
            )
        ]

    def fits_size(self, size_bytes: int) -> bool:
        """Whether a regular file of this size is kept."""
        options = self.options
        return (options.smallest_bytes is None or size_bytes >= options.smallest_bytes) and (
            options.largest_bytes is None or size_bytes <= options.largest_bytes
        )


class IncludeBlocks:
    """The Options blocks of one Include, and the FileSet's Exclude blocks after them."""

    def __init__(self, include: FileSetInclude, excludes: PathGlobs) -> None:
        """Raises UsageError for a regular expression that is not well formed."""
        self.blocks = [OptionsBlock(options) for options in include.options or (USUAL_OPTIONS,)]
        self.default = usual_block(include)
        self._excludes = excludes
        self.markers = tuple(os.fsencode(name) for name in include.exclude_dir_containing)

    def decide(
        self, prefixes: Sequence[bytes], names: Sequence[bytes], directories: Sequence[bool]
    ) -> list[int] | None:
        """For each entry the block that decides, or EXCLUDED; None: the default for all.

        prefixes: of the names, the ways in which patterns may have written them.
        """
        decided: list[int] | None = None
        for number, block in enumerate(self.blocks):
            if block.options.exclude and not block.options.has_patterns:
                left = [EXCLUDED] * len(names)
                return left if decided is None else _filled(decided, left)
            fits = block.fits(prefixes, names, directories)
            if fits is not None and any(fits):
                verdict = EXCLUDED if block.options.exclude else number
                if decided is None:
                    decided = [_UNDECIDED] * len(names)
                decided = [
                    verdict if fit and before == _UNDECIDED else before
                    for fit, before in zip(fits, decided, strict=True)
                ]
        excluded = None
        for prefix in prefixes:
            excluded = _either(excluded, self._excludes.fits(prefix, names))
        if excluded is not None and any(excluded):
            left = [EXCLUDED if one else self.default for one in excluded]
            return left if decided is None else _filled(decided, left)
        return decided and _filled(decided, [self.default] * len(names))


def deciding_treatments(spec: FileSetSpec) -> tuple[StatedTreatment, ...]:
    """The distinct storage settings of the Options blocks."""
    found: dict[StatedTreatment, None] = {}
    for include in spec.includes:
        usual = usual_block(include)
        for number, options in enumerate(include.options or (USUAL_OPTIONS,)):
            if number == usual or not options.exclude:
                found[treatment_of(options)] = None
    return tuple(found)


def treatments(spec: FileSetSpec) -> tuple[StatedTreatment, ...]:
    """All storage settings for entries of a FileSet; the first is the job's own.

    A judgement's treatments are positions in it. Raises UsageError when there are too many.
    """
    found = dict.fromkeys([StatedTreatment(), *deciding_treatments(spec)])
    if len(found) > MOST_TREATMENTS:
        raise UsageError(
            f"FileSet {spec.name} has {len(found)} different Options blocks; "
            f"{MOST_TREATMENTS} are possible"
        )
    return tuple(found)


def usual_block(include: FileSetInclude) -> int:
    """The number of the Options block for entries that no block matches; 0 without any."""
    plain = [number for number, one in enumerate(include.options) if not one.has_patterns]
    return plain[-1] if plain else max(0, len(include.options) - 1)


def _add_path(places: dict[bytes, frozenset[bytes]], path: bytes) -> None:
    directory, slash, name = path.rpartition(b"/")
    places[directory + slash] = places.get(directory + slash, frozenset()) | {name}


def _filled(decided: Sequence[int], left: Sequence[int]) -> list[int]:
    return [other if one == _UNDECIDED else one for one, other in zip(decided, left, strict=True)]


def _either(one: list[bool] | None, other: list[bool] | None) -> list[bool] | None:
    if one is None or other is None:
        return one if other is None else other
    return [a or b for a, b in zip(one, other, strict=True)]
