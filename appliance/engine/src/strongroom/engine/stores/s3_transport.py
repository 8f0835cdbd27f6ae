"""Bounds what an object store can do to its client by the way it sends and receives.

botocore limits the silence between two bytes, but not how long an answer takes or how large it is,
and it sends an object with one call that must end within the time for connecting. So:

- an answer that comes slower than LEAST_BYTES_A_SECOND after a grace ends like one that is silent;
- an answer that is not the content of an object (a list, an error) has a size limit;
- an object is sent in pieces, each of which may take as long as a silence: a slow line is no
  failure.

Imported with botocore, when a client is made.
"""

from __future__ import annotations

import io
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any, Final

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)
from botocore.exceptions import HTTPClientError
from urllib3.exceptions import HTTPError

from strongroom.base import clock
from strongroom.base.errors import StoreError
from strongroom.base.printable import printable

if TYPE_CHECKING:
    from typing_extensions import Buffer

GRACE_SECONDS = 120.0
LEAST_BYTES_A_SECOND: Final = 1024
SILENCE_SECONDS: Final = 60.0
# A list of a thousand keys takes about half a megabyte.
MOST_ANSWER_BYTES = 16 << 20
_PIECE_BYTES: Final = 64 << 10
_PART_BYTES: Final = 1 << 20


def bound(client: Any, location: str) -> None:
    """Bound every request of a client of botocore."""
    http = client._endpoint.http_session  # noqa: SLF001 - botocore has no other door to it
    pools = http._pool_classes_by_scheme  # noqa: SLF001
    pools.update(http=_PacedPool, https=_PacedTlsPool)

    def send(request: Any, **_: Any) -> Any:
        is_content, request.stream_output = request.stream_output, True
        answer = http.send(request)
        if not is_content or answer.status_code >= 300:
            try:
                answer._content = read_most(answer.raw, MOST_ANSWER_BYTES, location)  # noqa: SLF001
            except HTTPError as error:
                raise HTTPClientError(error=error) from error
        return answer

    client.meta.events.register("before-send.s3", send)


def read_most(source: Any, most_bytes: int, location: str) -> bytes:
    """All of an answer; StoreError where that is more than is accepted."""
    parts: list[bytes] = []
    size = 0
    # Up to the end: what reads to it notices a connection that was cut, and may be used again.
    while part := source.read(min(max(_PART_BYTES, most_bytes), most_bytes + 1 - size)):
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            source.close()
            raise StoreError(
                f"{printable(location)}: the store sent more than the {most_bytes} bytes that were "
                "expected; use another server"
            )
    return b"".join(parts)


class _Paced(io.RawIOBase):
    """What comes from a socket; TimeoutError where it comes too slowly."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self._source = source
        self._began = clock.elapsed_seconds()
        self._received = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int | None:
        count: int | None = self._source.readinto(buffer)
        self._received += count or 0
        allowed_seconds = GRACE_SECONDS + self._received / LEAST_BYTES_A_SECOND
        if count and clock.elapsed_seconds() - self._began > allowed_seconds:
            raise TimeoutError("the answer came too slowly")
        return count

    def close(self) -> None:
        self._source.close()
        super().close()


class _PacedResponse(HTTPResponse):
    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.fp = io.BufferedReader(_Paced(self.fp.detach()))


class _SendsInPieces:
    """Mixed into a connection: each piece has its own time."""

    sock: Any

    def send(self, data: Any) -> None:
        if self.sock is not None:
            # Until the first answer it has the time for connecting.
            self.sock.settimeout(SILENCE_SECONDS)
        if not isinstance(data, bytes | bytearray) or len(data) <= _PIECE_BYTES:
            super().send(data)  # type: ignore[misc]
            return
        view = memoryview(data)
        for start in range(0, len(view), _PIECE_BYTES):
            super().send(view[start : start + _PIECE_BYTES])  # type: ignore[misc]


class _PacedConnection(_SendsInPieces, AWSHTTPConnection):  # type: ignore[misc]
    response_class = _PacedResponse


class _PacedTlsConnection(_SendsInPieces, AWSHTTPSConnection):  # type: ignore[misc]
    response_class = _PacedResponse


class _PacedPool(AWSHTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _PacedConnection


class _PacedTlsPool(AWSHTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _PacedTlsConnection
