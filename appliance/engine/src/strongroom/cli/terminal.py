"""Output of a command: results on standard output, everything else on standard error.

With --json standard output carries JSON objects only, one per line; without it, text. A command
provides both forms (`emit` and `line`) and the terminal picks the requested one.

Bytes inside an emitted object (names from a file system) become a string where they are UTF-8 and
`{"base64": "..."}` where they are not, so that no name is lost or changed. Names in text have
control characters escaped, so that a file name cannot drive the terminal.

`_lock` guards both streams and the live line; any thread may write.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import TextIO

from strongroom.errors import OutputClosedError


def abandon(stream: TextIO) -> None:
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
        self.output = sys.stdout if output is None else output
        self.messages = sys.stderr if messages is None else messages
        self._lock = threading.RLock()
        self._live_width = 0
        self._encode = json.JSONEncoder(
            ensure_ascii=False, separators=(",", ":"), default=_json_form
        ).encode

    @property
    def interactive(self) -> bool:
        """Whether prompts are possible: standard input and standard error are a terminal."""
        return sys.stdin is not None and sys.stdin.isatty() and self.messages.isatty()

    def emit(self, obj: dict[str, object]) -> None:
        """Write `obj` as one line of JSON if --json was given; values may hold bytes."""
        if self.as_json:
            self._write_output(self._encode(obj))

    def line(self, text: str = "") -> None:
        """Write a line of the result as text; not with --json, not with --quiet."""
        if not self.as_json and not self.quiet:
            self._write_output(text)

    def detail(self, text: str) -> None:
        """Write a line with --verbose only."""
        if self.verbose:
            self.line(text)

    def raw(self, text: str) -> None:
        """Write `text` as it is, whatever the options (a completion script)."""
        self._write_output(text, end="")

    def warn(self, text: str) -> None:
        """Write a warning to standard error; the command continues."""
        with self._lock:
            self.clear_live_line()
            self._write_message(f"strongroom: warning: {text}\n")

    def report_error(self, error_id: str, message: str, exit_code: int) -> None:
        """Write the final error to standard error; with --json as an object as well."""
        with self._lock:
            self.clear_live_line()
            self._write_message(f"strongroom: error [{error_id}]: {message}\n")
            if self.as_json:
                report = {
                    "type": "error",
                    "id": error_id,
                    "exit_code": exit_code,
                    "message": message,
                }
                self._write_message(self._encode(report) + "\n")

    def message_line(self, text: str) -> None:
        """Write a line about progress to standard error; not with --quiet."""
        if not self.quiet:
            with self._lock:
                self.clear_live_line()
                self._write_message(text + "\n")

    def show_live_line(self, text: str) -> None:
        """Draw `text` over the last live line; the next line written by anyone removes it."""
        with self._lock:
            padding = " " * max(0, self._live_width - len(text))
            self._write_message(f"\r{text}{padding}")
            self._live_width = len(text)

    def clear_live_line(self) -> None:
        """Remove the live line, if there is one."""
        with self._lock:
            if self._live_width:
                self._write_message("\r" + " " * self._live_width + "\r")
                self._live_width = 0

    def flush(self) -> None:
        """Flush the output; raises OutputClosedError when its reader has closed it."""
        with self._lock:
            try:
                self.output.flush()
            except BrokenPipeError as error:
                raise OutputClosedError("nobody reads the output any more") from error

    def _write_output(self, text: str, end: str = "\n") -> None:
        with self._lock:
            self.clear_live_line()
            try:
                self.output.write(text + end)
            except BrokenPipeError as error:
                raise OutputClosedError("nobody reads the output any more") from error

    def _write_message(self, text: str) -> None:
        try:
            self.messages.write(text)
            self.messages.flush()
        except BrokenPipeError:
            # The work is worth finishing even if nobody reads our messages.
            abandon(self.messages)
