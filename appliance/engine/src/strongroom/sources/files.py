"""Files and directories of this machine as a source."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from strongroom.errors import SourceError, UsageError
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.sources.source import SourceRequest, Stream


class FilesSource:
    """Files and directories of this machine."""

    def __init__(self, request: SourceRequest) -> None:
        if not request.arguments:
            raise UsageError("name at least one file or directory to back up")
        self._arguments = request.arguments

    def paths(self) -> tuple[bytes, ...]:
        """The arguments, made absolute; see `settled_path`."""
        settled = sorted(
            {settled_path(path) for path in self._arguments},
            key=lambda path: path.replace(b"/", b"\0"),
        )
        outermost: list[bytes] = []
        for path in settled:
            above = outermost[-1] if outermost else None
            if above is None or not (above == b"" or path.startswith(above + b"/")):
                outermost.append(path)
        return tuple(outermost)

    def streams(self) -> Iterator[Stream]:
        """None."""
        return iter(())


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
