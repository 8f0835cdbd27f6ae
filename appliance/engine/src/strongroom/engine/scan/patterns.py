"""Lists of path patterns, as for --exclude: compiled once, evaluated a directory at a time.

A pattern without a slash matches names anywhere; one that begins with a slash matches paths from
the root; any other matches the end of a path. `**` between slashes means any number of
directories, none included. A slash at the end means directories only. A `!` in front includes
again what patterns before it matched: the last pattern that matches decides. An excluded
directory is not entered, so nothing in it can be included again.

Each pattern is split into one for the directory and one for the name. A directory is compared
once; only the patterns that match it are then applied to its names: literal names by one set
lookup, `*.suffix` by one comparison of endings, the rest by one regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

import msgspec

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom.base.text_marks import has_typographic_quotes, plain_text
from strongroom.engine.scan.globs import fold_case, is_literal, resolved_glob, translate_glob

_ANY_DIRECTORIES: Final = rb"(?:[^/]*/)*"
_KEPT_COMBINATIONS: Final = 256


class _Rule(msgspec.Struct, frozen=True):
    """A pattern taken apart; `directory` matches paths that end in a slash, None any path.

    place: a path at or below which all is that it matches; b"" is anywhere.
    """

    directory: re.Pattern[bytes] | None
    name: bytes
    directories_only: bool
    takes_back: bool
    ignores_case: bool
    place: bytes = b""


class _NameTest:
    """Which names match any of some globs."""

    __slots__ = ("_endings", "_fold", "_literals", "_search")

    def __init__(self, globs: Sequence[bytes], ignores_case: bool) -> None:
        literals: list[bytes] = []
        endings: list[bytes] = []
        others: list[bytes] = []
        for glob in globs:
            if is_literal(glob):
                literals.append(glob)
            elif glob[:1] == b"*" and is_literal(glob[1:]):
                endings.append(glob[1:])
            else:
                others.append(translate_glob(glob))
        self._literals = frozenset(literals)
        self._endings = tuple(endings)
        self._search = re.compile(b"|".join(others)).fullmatch if others else None
        self._fold = ignores_case

    def __call__(self, names: Sequence[bytes]) -> list[bool]:
        if self._fold:
            names = [fold_case(name) for name in names]
        literals, endings, search = self._literals, self._endings, self._search
        if search is None:
            return [name in literals or name.endswith(endings) for name in names]
        return [
            name in literals or name.endswith(endings) or search(name) is not None for name in names
        ]


class DirectoryPatterns:
    """The patterns that may match a name of one directory."""

    __slots__ = ("_steps", "wants_directories")

    def __init__(self, rules: Sequence[_Rule]) -> None:
        # Neighbours of one kind need no order among themselves and form one test.
        self._steps = [
            (_NameTest([rule.name for rule in run], ignores_case), only, takes_back)
            for (takes_back, only, ignores_case), run in groupby(rules, _kind)
        ]
        self.wants_directories = any(only for _, only, _ in self._steps)

    def match(self, names: Sequence[bytes], are_directories: Sequence[bool] = ()) -> list[bool]:
        """For each name whether the last pattern that matches it excludes it.

        `are_directories` matters, and is as long as `names`, only if `wants_directories`.
        """
        result = [False] * len(names)
        for test, directories_only, takes_back in self._steps:
            found = test(names)
            if directories_only:
                found = [a and b for a, b in zip(found, are_directories, strict=True)]
            if takes_back:
                result = [a and not b for a, b in zip(result, found, strict=True)]
            elif any(found):
                result = [a or b for a, b in zip(result, found, strict=True)]
        return result


class Patterns:
    """A compiled list of patterns. Raises UsageError for one that is not well formed."""

    def __init__(self, patterns: Iterable[tuple[bytes, bool]]) -> None:
        """`patterns`: each with whether it ignores case."""
        given = list(patterns)
        self._texts = [pattern for pattern, _ in given]
        self._rules = [_parse(pattern, ignores_case) for pattern, ignores_case in given]
        self._everywhere = tuple(
            number for number, rule in enumerate(self._rules) if rule.directory is None
        )
        self._somewhere = [
            (number, rule.directory.fullmatch, rule.ignores_case)
            for number, rule in enumerate(self._rules)
            if rule.directory is not None
        ]
        self._folds_directories = any(folds for _, _, folds in self._somewhere)
        self._combination = lru_cache(_KEPT_COMBINATIONS)(self._combine)

    def for_directory(self, path: bytes) -> DirectoryPatterns | None:
        """The patterns for the names in the directory `path`; None when nothing can match."""
        numbers = self._everywhere
        if self._somewhere:
            exact = path + b"/" if path else b""
            folded = fold_case(exact) if self._folds_directories else exact
            found = [
                number
                for number, matches, folds in self._somewhere
                if matches(folded if folds else exact)
            ]
            if found:
                numbers = tuple(sorted((*numbers, *found)))
        return self._combination(numbers) if numbers else None

    def places(self) -> list[bytes]:
        """Paths at or below which is all that matches, none below another; [b""]: anywhere."""
        places = sorted({b"" if rule.takes_back else rule.place for rule in self._rules})
        kept: list[bytes] = []
        for place in places:
            steps = place.split(b"/")
            if not any(b"/".join(steps[:depth]) in kept for depth in range(len(steps))):
                kept.append(place)
        return kept

    def excluding(self, path: bytes, name: bytes, *, is_directory: bool) -> bytes:
        """The pattern, as it was given, that excludes `name` in the directory `path`; b"" if none.

        For messages: slower than `match`, whose answer is the same.
        """
        exact = path + b"/" if path else b""
        for rule, text in zip(reversed(self._rules), reversed(self._texts), strict=True):
            place = fold_case(exact) if rule.ignores_case else exact
            if rule.directory is not None and not rule.directory.fullmatch(place):
                continue
            if rule.directories_only and not is_directory:
                continue
            if _NameTest([rule.name], rule.ignores_case)([name])[0]:
                return b"" if rule.takes_back else text
        return b""

    def _combine(self, numbers: tuple[int, ...]) -> DirectoryPatterns:
        return DirectoryPatterns([self._rules[number] for number in numbers])


def and_resolved(patterns: Iterable[tuple[bytes, bool]]) -> Iterator[tuple[bytes, bool]]:
    """The patterns, and after each that names a place behind links the same without these."""
    for pattern, ignores_case in patterns:
        yield pattern, ignores_case
        if (resolved := resolved_glob(pattern)) != pattern:
            yield resolved, ignores_case


def read_pattern_file(path: bytes) -> list[bytes]:
    """Patterns of a file, one a line; blank lines and lines that begin with # are ignored.

    Blanks around a pattern are removed, except after a backslash. Raises UsageError when the
    file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            lines = plain_text(file.read(), printable(path)).split(b"\n")
    except OSError as error:
        shown = printable(path)
        raise UsageError(f"cannot read the patterns in {shown}: {error.strerror}") from error
    patterns: list[bytes] = []
    for line in lines:
        text = line.strip(b" \t\r")
        if not text or text.startswith(b"#"):
            continue
        trailing = line.rstrip(b"\r").lstrip(b" \t")[len(text) :]
        escaped = (len(text) - len(text.rstrip(b"\\"))) % 2
        patterns.append(text + trailing[:1] if escaped else text)
    return patterns


def _kind(rule: _Rule) -> tuple[bool, bool, bool]:
    return rule.takes_back, rule.directories_only, rule.ignores_case


def _parse(pattern: bytes, ignores_case: bool) -> _Rule:
    text = pattern
    if has_typographic_quotes(pattern):
        raise UsageError(
            f"pattern {printable(pattern)} has typographic quotes: write it without them. "
            "For a name that has them put the first into brackets"
        )
    takes_back = text.startswith(b"!")
    if takes_back or text.startswith((b"\\!", b"\\#")):
        text = text[1:]
    if ignores_case:
        text = fold_case(text)
    directories_only = text.endswith(b"/")
    anchored = text.startswith(b"/")
    parts = [part for part in text.split(b"/") if part not in (b"", b".")]
    shown = repr(pattern.decode("utf-8", "backslashreplace"))
    if not parts or b"\0" in text:
        raise UsageError(f"pattern {shown} matches nothing")
    if b".." in parts:
        raise UsageError(f"pattern {shown}: '..' matches nothing; write the path without it")
    *directories, name = parts
    if name == b"**":
        directories.append(name)
        name = b"*"
    translate_glob(name)
    if not anchored and not directories:
        return _Rule(None, name, directories_only, takes_back, ignores_case)
    if not anchored:
        directories.insert(0, b"**")
    expression = b""
    for part in directories:
        if part != b"**":
            expression += translate_glob(part) + b"/"
        elif not expression.endswith(_ANY_DIRECTORIES):
            expression += _ANY_DIRECTORIES
    place = b"" if ignores_case or not anchored else _literal_part([*directories, name])
    return _Rule(re.compile(expression), name, directories_only, takes_back, ignores_case, place)


def _literal_part(parts: Sequence[bytes]) -> bytes:
    """The path that a pattern which begins at the root begins with, without a glob."""
    count = next((n for n, part in enumerate(parts) if not is_literal(part)), len(parts))
    return b"/".join(parts[:count])
