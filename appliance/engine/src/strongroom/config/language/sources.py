"""Configuration files as text with positions, read within bounds.

A Source computes lines and columns from offsets on demand, so that a tree of many thousand files
needs no position tables. Bytes that are not UTF-8 are kept as surrogates: any byte string is valid
text here, and only the lexer rejects anything.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from dataclasses import dataclass

_LINE_START = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Bounds on what one load may read; going over one is an error at the place that did."""

    file_bytes: int = 16 * 1024 * 1024
    total_bytes: int = 256 * 1024 * 1024
    files: int = 100_000
    include_depth: int = 32
    pattern_entries: int = 500_000
    statement_tokens: int = 100_000
    diagnostics: int = 100_000


class SourceText:
    """One text and the name it is reported under."""

    __slots__ = ("_line_starts", "path", "text")

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._line_starts: list[int] | None = None

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of `offset`, both from 1."""
        starts = self._starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, offset: int) -> int:
        """Line of `offset`, from 1."""
        return bisect_right(self._starts(), offset)

    def line_text(self, line: int) -> str:
        """The text of line number `line`, without its end."""
        starts = self._starts()
        end = starts[line] if line < len(starts) else len(self.text)
        return self.text[starts[line - 1] : end].rstrip("\r\n")

    def _starts(self) -> list[int]:
        if self._line_starts is None:
            self._line_starts = [0, *(match.end() for match in _LINE_START.finditer(self.text))]
        return self._line_starts


def decode(data: bytes) -> str | None:
    """The text of a configuration file, its UTF-8 mark dropped; None if it is UTF-16."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


def read_bounded(path: str, limit_bytes: int) -> bytes | None:
    """The bytes of the regular file `path`; None if it is longer than `limit_bytes`.

    A directory reads as empty, as it does for Bareos. A device or FIFO is refused with OSError
    before it is opened for reading could block. Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        kind = mode & 0o170000
        if kind == 0o040000:
            return b""
        if kind != 0o100000:
            raise OSError(22, "not a regular file", path)
        pieces: list[bytes] = []
        size = 0
        while piece := os.read(descriptor, 1024 * 1024):
            size += len(piece)
            if size > limit_bytes:
                return None
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)
