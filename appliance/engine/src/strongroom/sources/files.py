"""Files and directories of this machine as a source."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from strongroom.errors import SourceError, UsageError
from strongroom.printable import printable
from strongroom.sources.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.sources.source import SourceRequest, Stream


class FilesSource:
    """Files and directories of this machine.

    problems: those that are not there, of several; they make the backup incomplete.
    """

    def __init__(self, request: SourceRequest) -> None:
        """Raises UsageError where nothing is named, SourceError where nothing named is there."""
        if not request.arguments:
            raise UsageError("name at least one file or directory to back up")
        found = set()
        failures: list[SourceError] = []
        problems = []
        for path in request.arguments:
            try:
                found.add(settled_path(path))
            except SourceError as error:
                failures.append(error)
                problems.append(missing_path(_absolute(path), error))
        if not found:
            more = f", nor {len(failures) - 1:,} others that were named" if failures[1:] else ""
            raise SourceError(f"{failures[0]}{more}")
        self._found = found
        self.problems = tuple(problems)

    def paths(self) -> tuple[bytes, ...]:
        """The arguments that are there, made absolute; see `settled_path`."""
        settled = sorted(self._found, key=lambda path: path.replace(b"/", b"\0"))
        outermost: list[bytes] = []
        for path in settled:
            above = outermost[-1] if outermost else None
            if above is None or not (above == b"" or path.startswith(above + b"/")):
                outermost.append(path)
        return tuple(outermost)

    def streams(self) -> Iterator[Stream]:
        """None."""
        return iter(())


def missing_path(path: bytes, error: Exception, named: str = "named") -> Problem:
    """The problem of a path that a person named, and what says that nothing is there."""
    reason = error.strerror if isinstance(error, OSError) else str(error).rpartition(": ")[2]
    return Problem(path, 0, f"{named}, but nothing of it is backed up: {reason}")


def settled_path(path: bytes) -> bytes:
    """`path` relative to "/", with links on the way resolved; a link at its end stays one.

    A slash, "." or ".." at the end means the directory behind a link. Raises SourceError when
    there is nothing at the path.
    """
    above, name = os.path.split(path)
    try:
        if name in (b"", b".", b".."):
            settled = os.path.realpath(path or b".", strict=True)
        else:
            settled = os.path.join(os.path.realpath(above or b".", strict=True), name)
            os.lstat(settled)
    except (OSError, ValueError) as error:
        shown = printable(path)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SourceError(f"cannot back up {shown}: {reason}") from error
    return settled.strip(b"/")


def _absolute(path: bytes) -> bytes:
    """For display; relative to "/"."""
    try:
        return os.path.abspath(path).strip(b"/")
    except OSError:  # the working directory is gone
        return path.strip(b"/")
