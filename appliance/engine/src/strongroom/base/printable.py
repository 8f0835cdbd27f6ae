"""Escapes everything that is shown: names and texts, for a terminal, a log, a mail.

A file name, or text from a peer, may hold control characters that drive a terminal, characters
that reverse the direction of writing, or line ends that forge lines. `printable` makes any text one
harmless line; code that composes a message passes names through it. `ShownStream` is what standard
output and standard error are in our programs, so that nothing passes it by which was forgotten.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, TextIO, cast

_HIGHEST_PLAIN: Final = 0xFFFF


def printable(name: bytes | str, most: int | None = None) -> str:
    """`name` with bytes that are not UTF-8 and characters that do not print as escapes.

    most: how many characters the result may have, None for any number.
    """
    text = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
    if most is not None:
        text = text[:most]
    if text.isprintable():
        return text
    escaped = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )
    return escaped if most is None else escaped[:most]


def printable_lines(text: str, indent: str = "") -> str:
    """The same for a text of several lines: line ends and tabs are kept.

    indent: put before every line but the first, so that none of them passes for a line of ours.
    """
    if text.isprintable():
        return text
    return f"\n{indent}".join(map(_with_tabs, text.split("\n")))


def printable_json(text: str) -> str:
    """JSON with the characters in its strings that do not print as escapes of JSON.

    So it says exactly the same. For JSON without line ends between its parts.
    """
    return text if text.isprintable() else _ANY.sub(_json_escape, text)


class ShownStream:
    """A text stream that lets nothing through but printable characters, line ends and tabs.

    `buffer`, for output that is not to be checked, and all else are the stream's own.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write `text` as `printable_lines` makes it."""
        self._stream.write(printable_lines(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def write_controls(self, text: str) -> None:
        """Write `text` as it is: control codes of our own around text that is printable."""
        self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def shown_stream(stream: TextIO) -> ShownStream:
    """`stream` as a ShownStream, unless it is one."""
    return stream if isinstance(stream, ShownStream) else ShownStream(stream)


def guard_standard_streams() -> None:
    """Make standard output and standard error of this process ShownStreams."""
    sys.stdout = cast("TextIO", shown_stream(sys.stdout))  # noqa: TID251
    sys.stderr = cast("TextIO", shown_stream(sys.stderr))  # noqa: TID251


def flush_standard_streams() -> None:
    """Before a fork, so that no child writes the same again. Who writes next reports errors."""
    for stream in (sys.stdout, sys.stderr):  # noqa: TID251
        with suppress(OSError):
            stream.flush()


def _with_tabs(line: str) -> str:
    if line.isprintable():
        return line
    return "\t".join(map(printable, line.split("\t")))


def _json_escape(found: re.Match[str]) -> str:
    letter = found[0]
    if letter.isprintable():
        return letter
    code = ord(letter)
    if code <= _HIGHEST_PLAIN:
        return f"\\u{code:04x}"
    code -= _HIGHEST_PLAIN + 1
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


# Everything but what JSON and most names consist of.
_ANY: Final = re.compile(r"[^ -~]")
