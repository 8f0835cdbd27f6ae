"""Standard input, or any other descriptor, as a source."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import Final

from strongroom.base.errors import SourceError
from strongroom.sources.source import STREAM_MODE, SourceRequest, Stream, checked_name

_PIPE_BYTES: Final = 1 << 20


class StandardInputSource:
    """The data of standard input, until its end."""

    def __init__(self, request: SourceRequest) -> None:
        self._name = checked_name(request.stream_name)

    def paths(self) -> tuple[bytes, ...]:
        """Standard input is not a path."""
        return ()

    def streams(self) -> Iterator[Stream]:
        """The one stream."""
        yield DescriptorStream(0, self._name, "standard input")


class DescriptorStream:
    """Reads a descriptor that stays its owner's to close; usable by plugins too."""

    def __init__(self, fd: int, name: bytes, shown: str, mode: int = STREAM_MODE) -> None:
        self.name = name
        self.mode = mode
        self._fd = fd
        self._shown = shown
        # A larger pipe buffer means fewer context switches; only pipes have one.
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer`; less than its length only at the end."""
        filled = 0
        while filled < len(buffer):
            try:
                count = os.readv(self._fd, [buffer[filled:]])
            except OSError as error:
                raise SourceError(f"cannot read {self._shown}: {error.strerror}") from error
            if not count:
                break
            filled += count
        return filled

    def finish(self) -> None:
        """Nothing to check: the end of a descriptor's data is the only sign that it is complete."""

    def close(self) -> None:
        """Nothing to release."""
