"""Lists of files that a FileSet names: the lines of a file, or of a command's output."""

from __future__ import annotations

from typing import Final

from strongroom.errors import RefusedError, SourceError, UsageError
from strongroom.sources.shell import run_command
from strongroom.text_marks import plain_text

_LIST_BYTES_LIMIT: Final = 64 << 20


def listed_lines(text: str, *, allow_commands: bool) -> list[bytes]:
    """The lines of `<list` or `|command` that are not blank. Raises RefusedError, SourceError."""
    kind, what = text[0], text[1:].strip()
    if kind == "|" and not allow_commands:
        raise RefusedError(
            f"the FileSet runs the command {what!r} for a list of files, and commands are not "
            "allowed here"
        )
    try:
        if kind == "|":
            data = run_command(what, _LIST_BYTES_LIMIT)
        else:
            with open(what, "rb") as file:
                data = file.read(_LIST_BYTES_LIMIT)
    except OSError as error:
        raise SourceError(f"cannot read the list of files {text!r}: {error.strerror}") from error
    try:
        data = plain_text(data, f"the list of files {text!r}")
    except UsageError as error:
        raise SourceError(str(error)) from error
    return [line for line in (line.strip() for line in data.splitlines()) if line]
