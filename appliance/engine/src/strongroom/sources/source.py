"""What a source is: the protocols that backups read, and that plugins implement.

A source gives paths of the local file system, which the engine scans itself, or streams, each of
which becomes one regular file in the root of the snapshot, or both. The engine reads a stream to
its end, then calls `finish`; the stream is complete only if that returns. A snapshot with an
incomplete stream is never made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from errno import ENOENT
from typing import Final, NamedTuple, Protocol

import msgspec

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable

DEFAULT_STREAM_NAME: Final = b"stdin"
STREAM_MODE: Final = 0o600


class SourceRequest(msgspec.Struct, frozen=True):
    """The user's request to a source.

    arguments: paths for `files`, the command's words for `command`. stream_name: name of the
    file that a single stream becomes. options: for plugins, as given by the user. listed: those of
    the arguments that come from a list.
    """

    arguments: tuple[bytes, ...] = ()
    stream_name: bytes = DEFAULT_STREAM_NAME
    options: Mapping[str, str] = {}
    listed: frozenset[bytes] = frozenset()


class Stream(Protocol):
    """One file of the snapshot, read once from its beginning to its end."""

    @property
    def name(self) -> bytes:
        """Name of the file in the root of the snapshot."""

    @property
    def mode(self) -> int:
        """Permission bits of the file."""

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer` as far as there is data; 0 only at the end. Raises SourceError."""

    def finish(self) -> None:
        """After the end: confirm that the content is complete. Raises SourceError if it is not."""

    def close(self) -> None:
        """Release everything, at any time; aborts a stream that is not finished."""


class Source(Protocol):
    """What a snapshot is made from."""

    def paths(self) -> tuple[bytes, ...]:
        """Paths to scan, relative to "/", without links on the way, none below another.

        Raises SourceError.
        """

    def streams(self) -> Iterator[Stream]:
        """Streams, each started on demand. Raises SourceError."""


def checked_name(name: bytes) -> bytes:
    """`name`, if a file in the root of a snapshot may have it; else raises UsageError."""
    if not name or b"/" in name or b"\0" in name or name in (b".", b".."):
        shown = printable(name)
        raise UsageError(f"{shown!r} cannot be the name of a file in a snapshot")
    return name


# Of a whole file system, see `engine.scan.mounts.unsized_devices`.
UNSIZED: Final = (
    "files there have size 0, so their content is not backed up; leave it out with "
    "--one-file-system or --exclude, or read single files with --stdin"
)


class Problem(NamedTuple):
    """Something that could not be read, or changed while it was."""

    path: bytes
    errno: int
    text: str

    @property
    def is_harmless(self) -> bool:
        """Whether the snapshot is still complete: the entry vanished before it was read."""
        return self.errno == ENOENT
