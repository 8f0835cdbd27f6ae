"""Output of a command: results on standard output, everything else on standard error.

With --json standard output carries JSON objects only, one per line; without it, text. A command
provides both forms (`emit` and `line`) and the terminal picks the requested one.

Bytes inside an emitted object (names from a file system) become a string where they are UTF-8 and
`{"base64": "..."}` where they are not, so that no name is lost or changed. Everything else is
escaped by `strongroom.base.printable`: no name, whatever it holds, drives the terminal or makes its
own line. Only colours and the live line are control codes, and only this module writes
those.

`_lock` guards both streams and the live line; any thread may write.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Final, TextIO, TypeAlias

from strongroom.base.errors import OperatingSystemError, OutputClosedError
from strongroom.base.printable import (
    ShownStream,
    printable,
    printable_json,
    printable_lines,
    shown_stream,
)

# A line of --json: docs/reference/json-output.md says what the fields mean. Values may hold bytes.
JsonObject: TypeAlias = dict[str, object]

_STYLES: Final = {
    "": "",
    "bold": "\x1b[1m",
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;35m",
    "note": "\x1b[1;36m",
    "mark": "\x1b[1;32m",
}
_PLAIN: Final = "\x1b[0m"
_INDENT: Final = "    "
_CLOSED: Final = "the output is no longer read"


def abandon(stream: TextIO | ShownStream) -> None:
    """Discard what `stream` still buffers, and all later output.

    Otherwise the interpreter fails again when it flushes the stream at exit.
    """
    try:
        descriptor = stream.fileno()
    except OSError:  # not a file at all
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _json_form(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            from base64 import b64encode

            return {"base64": b64encode(value).decode("ascii")}
    message = f"cannot be put into JSON: {type(value).__name__}"
    raise TypeError(message)


class Terminal:
    """The two standard streams of one command, in the form the user asked for."""

    def __init__(
        self,
        *,
        as_json: bool = False,
        quiet: bool = False,
        verbose: int = 0,
        output: TextIO | None = None,
        messages: TextIO | None = None,
    ) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.verbose = verbose
        self.output = shown_stream(sys.stdout if output is None else output)  # noqa: TID251
        self.messages = shown_stream(sys.stderr if messages is None else messages)  # noqa: TID251
        self._lock = threading.RLock()
        self._live_width = 0
        self._items: list[str] | None = None
        # Whether the command's work continues when its output can no longer be written.
        self.outlives_output = False
        self._encode = json.JSONEncoder(
            ensure_ascii=False, separators=(",", ":"), default=_json_form
        ).encode

    @property
    def interactive(self) -> bool:
        """Whether prompts are possible: standard input and standard error are a terminal."""
        return sys.stdin is not None and sys.stdin.isatty() and bool(self.messages.isatty())

    def emit(self, obj: JsonObject) -> None:
        """Write `obj` as one line of JSON if --json was given; values may hold bytes."""
        if not self.as_json:
            return
        text = printable_json(self._encode(obj))
        if self._items is None:
            self._write_output(text + "\n")
        else:
            self._items.append(text)

    @contextmanager
    def listing(self) -> Iterator[None]:
        """What is emitted inside is one JSON array, an item a line; an error ends it early."""
        items = self._items = []
        has_ended = False
        try:
            yield
            has_ended = True
        finally:
            self._items = None
            if self.as_json and (items or has_ended):
                self._write_output("[" + ",\n".join(items) + "]\n")

    def line(self, text: str = "") -> None:
        """Write one line of the result as text; not with --json, not with --quiet."""
        self.lines((text,))

    def lines(self, texts: Iterable[str]) -> None:
        """Write several lines at once, which is faster."""
        if not self.as_json and not self.quiet:
            self._write_output("\n".join(map(printable, texts)) + "\n")

    def detail(self, text: str) -> None:
        """Write a line with --verbose only."""
        if self.verbose:
            self.line(text)

    def word(self, text: str) -> None:
        """Write one line, whatever the options: a token, which a script reads."""
        self._write_output(printable(text) + "\n")

    def document(self, text: str) -> None:
        """Write a text of several lines, whatever the options (a completion script)."""
        self._write_output(text)

    @property
    def shows_output(self) -> bool:
        """Whether standard output is a terminal."""
        return bool(self.output.isatty())

    @contextmanager
    def raw_output(self) -> Iterator[IO[bytes]]:
        """Standard output for bytes, where it is not a terminal; flushed at the end.

        Raises OutputClosedError when its reader has closed it.
        """
        try:
            output: IO[bytes] = self.output.buffer
            yield output
            output.flush()
        except BrokenPipeError as error:
            raise OutputClosedError(_CLOSED) from error
        except OSError as error:
            abandon(self.output)
            raise OperatingSystemError(f"standard output: {error.strerror}") from error

    def styled(self, pieces: Iterable[tuple[str, str]]) -> None:
        """Write pieces of text, each with its style of _STYLES, whatever the options.

        The styles show on a terminal only.
        """
        if not self.output.isatty():
            self._write_output("".join(text for _, text in pieces))
            return
        with self._lock:
            self.clear_live_line()
            for style, text in pieces:
                shown = printable_lines(text)
                self._write_to_output(f"{_STYLES[style]}{shown}{_PLAIN}" if style else shown)

    def warn(self, text: str) -> None:
        """Write a warning to standard error; the command continues."""
        with self._lock:
            self.clear_live_line()
            self._write_message(f"strongroom: warning: {printable(text)}\n")

    def report_error(self, error_id: str, message: str, exit_code: int) -> None:
        """Write the final error to standard error; with --json as an object as well."""
        with self._lock:
            self.clear_live_line()
            shown = printable_lines(message, _INDENT)
            self._write_message(f"strongroom: error [{printable(error_id)}]: {shown}\n")
            if self.as_json:
                report = {
                    "type": "error",
                    "id": error_id,
                    "exit_code": exit_code,
                    "message": message,
                }
                self._write_message(printable_json(self._encode(report)) + "\n")

    def message_line(self, text: str) -> None:
        """Write a line about progress to standard error; not with --quiet."""
        if not self.quiet:
            with self._lock:
                self.clear_live_line()
                self._write_message(printable(text) + "\n")

    def show_live_line(self, text: str) -> None:
        """Draw `text` over the last live line; the next line written by anyone removes it."""
        with self._lock:
            shown = printable(text, len(text))
            padding = " " * max(0, self._live_width - len(shown))
            self._write_message(f"\r{shown}{padding}", controls=True)
            self._live_width = len(shown)

    def show_step(self, text: str) -> None:
        """Draw a live line where somebody watches."""
        if not self.quiet and self.messages.isatty():
            self.show_live_line(text)

    def clear_live_line(self) -> None:
        """Remove the live line, if there is one."""
        with self._lock:
            if self._live_width:
                self._write_message("\r" + " " * self._live_width + "\r", controls=True)
                self._live_width = 0

    def flush(self) -> None:
        """Flush the output; raises what `_lost_output` does."""
        with self._lock:
            try:
                self.output.flush()
            except OSError as error:
                self._lost_output(error)

    def _write_output(self, text: str) -> None:
        with self._lock:
            self.clear_live_line()
            self._write_to_output(printable_lines(text))

    def _write_to_output(self, shown: str) -> None:
        try:
            self.output.write_controls(shown)
        except OSError as error:
            self._lost_output(error)

    def _lost_output(self, error: OSError) -> None:
        """Standard output cannot be written: say so once, or end the command.

        Raises OutputClosedError when its reader has closed it, OperatingSystemError, unless the
        work is to continue.
        """
        abandon(self.output)
        if not self.outlives_output:
            if isinstance(error, BrokenPipeError):
                raise OutputClosedError(_CLOSED) from error
            raise OperatingSystemError(f"standard output: {error.strerror}") from error
        self.warn(f"standard output cannot be written ({error.strerror}); the command continues")

    def _write_message(self, text: str, *, controls: bool = False) -> None:
        try:
            if controls:
                self.messages.write_controls(text)
            else:
                self.messages.write(text)
            self.messages.flush()
        except OSError as error:
            # The work is worth finishing even if no one reads our messages.
            abandon(self.messages)
            if not self.outlives_output:
                # What others read, such as the archive of a dump, holds no message.
                return
            text = f"standard error cannot be written ({error.strerror}); the command continues"
            self.emit({"type": "warning", "message": text})
            self.line(f"strongroom: warning: {text}")
