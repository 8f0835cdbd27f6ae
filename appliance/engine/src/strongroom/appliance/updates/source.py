"""Where an update comes from: a file, or a web server.

The server is not trusted: whatever it sends must be signed. So plain HTTP will do.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final

import httpx

from strongroom.errors import ConnectionLostError, UsageError
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCHEMES: Final = ("http://", "https://")
_TIMEOUT_SECONDS: Final = 60
_BUFFER_BYTES: Final = 1 << 20
_OK: Final = 200


@contextmanager
def opened_source(place: str) -> Iterator[IO[bytes]]:
    """A stream. Raises UsageError, ConnectionLostError."""
    if not place.startswith(_SCHEMES):
        try:
            file = open(place, "rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise UsageError(f"cannot read {printable(place)}: {error.strerror}") from error
        with file:
            yield file
        return
    try:
        with httpx.stream("GET", place, timeout=_TIMEOUT_SECONDS, follow_redirects=True) as answer:
            if answer.status_code != _OK:
                raise ConnectionLostError(
                    f"{printable(place)}: the server answered {answer.status_code}; is the address "
                    "right?"
                )
            # As it is stored: a server may call what it sends compressed.
            yield io.BufferedReader(_Body(answer), _BUFFER_BYTES)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConnectionLostError(
            f"{printable(place)} cannot be fetched: {printable(str(error), 200)}"
        ) from error


class _Body(io.RawIOBase):
    """What arrives, as a file."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self._pieces = answer.iter_raw()
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size
