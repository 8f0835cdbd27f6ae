"""POSIX extended regular expressions, by the C library, for a FileSet's Regex directives.

Python's syntax and semantics differ (alternation takes the first match, classes and braces differ),
and its matching may take exponential time where the C library's does not, except with references
to groups; nested repeats cost it memory (`is_costly`).
"""

from __future__ import annotations

import ctypes
import os
import re
from functools import cache
from typing import Any, Final

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable

_EXTENDED: Final = 1
_IGNORE_CASE: Final = 2
_NO_PLACES: Final = 8
# A regex_t takes 64 bytes with glibc, less with musl.
_REGEX_BYTES: Final = 512
_MESSAGE_BYTES: Final = 256
# A path at the beginning of an expression, or of an alternative; `[^/` opens no path.
_PATH: Final = re.compile(
    rb"(?P<before>\A\^?|(?<![\[\\])[(|]\^?)"
    rb"(?P<path>/(?:[^][\\.*+?(){}^$|]|\\[][\\.*+?(){}^$|/-])*)"
)
_TOKEN: Final = re.compile(
    rb"\\.|\[\^?\]?(?:\[:[a-z]*:\]|[^]])*\]"
    rb"|\{(?P<least>[0-9]*)(?:,(?P<most>[0-9]*))?\}|.",
    re.DOTALL,
)
_MOST_LENGTH: Final = 4096
_MOST_STATES: Final = 10_000
_MOST_DEPTH: Final = 100
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_SPECIAL: Final = re.compile(rb"[][\\.*+?(){}^$|]")


class PosixRegex:
    """One compiled expression; safe from any thread, and after a fork."""

    def __init__(self, pattern: bytes, *, ignores_case: bool) -> None:
        """Raises UsageError for one that is not well formed."""
        self._library = _library()
        compiled = ctypes.create_string_buffer(_REGEX_BYTES)
        flags = _EXTENDED | _NO_PLACES | (_IGNORE_CASE if ignores_case else 0)
        problem = self._library.regcomp(compiled, pattern, flags)
        if problem:
            text = ctypes.create_string_buffer(_MESSAGE_BYTES)
            self._library.regerror(problem, compiled, text, _MESSAGE_BYTES)
            shown = printable(pattern)
            raise UsageError(f"regular expression {shown!r}: {text.value.decode(errors='replace')}")
        self._compiled = compiled

    def __del__(self) -> None:
        compiled = getattr(self, "_compiled", None)
        if compiled is not None:
            self._library.regfree(compiled)

    def fits(self, text: bytes) -> bool:
        """Whether it matches anywhere in `text`, which holds no NUL."""
        return bool(self._library.regexec(self._compiled, text, 0, None, 0) == 0)


def is_costly(pattern: bytes) -> bool:
    """Whether somebody hostile may have written it: to compile or match it may take forever.

    Counts the states that the C library makes, which copies what is repeated.
    """
    if len(pattern) > _MOST_LENGTH:
        return True
    sizes = [0]
    last = 0
    for match in _TOKEN.finditer(pattern):
        token = match[0]
        repeats = match["most"] or match["least"]
        if token == b"(":
            sizes.append(0)
            last = 0
        elif token == b")":
            last = sizes.pop() if len(sizes) > 1 else 0
            sizes[-1] += last
        elif token == b"+" or repeats:
            copies = last * (int(repeats) if repeats else 1)
            sizes[-1] += copies
            last += copies
        elif token not in (b"*", b"?"):
            last = 1
            sizes[-1] += 1
        if token[:1] == b"\\" and token[1:].isdigit():
            return True
        if sizes[-1] > _MOST_STATES or len(sizes) > _MOST_DEPTH:
            return True
    return False


def resolved_regex(pattern: bytes) -> bytes:
    """The expression with links above the places that it names resolved, as far as it is literal.

    As `scan.globs.resolved_glob` does for globs.
    """
    return _PATH.sub(_resolved_path, pattern)


def _resolved_path(match: re.Match[bytes]) -> bytes:
    above, _, name = match["path"].rpartition(b"/")
    place = _ESCAPE.sub(rb"\1", above)
    if not place or b"\0" in place:
        return match[0]
    real = os.path.realpath(place)
    if real == os.path.normpath(place):
        return match[0]
    return match["before"] + _SPECIAL.sub(rb"\\\g<0>", real.rstrip(b"/")) + b"/" + name


@cache
def _library() -> Any:
    library = ctypes.CDLL(None)
    buffer = ctypes.c_char_p
    library.regcomp.argtypes = [ctypes.c_void_p, buffer, ctypes.c_int]
    library.regexec.argtypes = [
        ctypes.c_void_p, buffer, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int,
    ]  # fmt: skip
    library.regerror.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
    ]  # fmt: skip
    library.regfree.argtypes = [ctypes.c_void_p]
    library.regfree.restype = None
    return library
