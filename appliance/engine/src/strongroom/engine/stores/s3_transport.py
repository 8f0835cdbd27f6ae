"""Sends requests to an object store by HTTP, and bounds what it can do to us by its answers.

- An answer that comes slower than LEAST_BYTES_A_SECOND after a grace ends like one that is silent.
- An answer that is not the content of an object (a list, an error) has a size limit.
- An object is sent in pieces, each of which may take as long as a silence: a slow line is no
  failure. The first leaves with the headers.
- An answer that ends before the length that it announced is a failure, not an end.
"""

from __future__ import annotations

import base64
import http.client
import io
import os
import select
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from importlib.util import find_spec
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import StoreError
from strongroom.base.printable import printable

CONNECT_SECONDS = 10.0
GRACE_SECONDS = 120.0
LEAST_BYTES_A_SECOND: Final = 1024
SILENCE_SECONDS = 60.0
# A list of a thousand keys takes about half a megabyte.
MOST_ANSWER_BYTES = 16 << 20
_PIECE_BYTES: Final = 64 << 10
_PART_BYTES: Final = 1 << 20
_IDLE_CONNECTIONS: Final = 40


class Answer(NamedTuple):
    """What a store answered, read to its end."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Connections:
    """Connections to one server, kept for later requests. Safe from any thread; of one process.

    endpoint: http://HOST:PORT or https://. location: for messages. authorities_file: certificates
    that are trusted instead of the system's. Failures are StoreError, OSError or HTTPException.
    """

    def __init__(self, endpoint: str, location: str, authorities_file: str = "") -> None:
        self._server = urlsplit(endpoint)
        self._location = location
        self._authorities_file = authorities_file
        self._proxy = _proxy_of(self._server)
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []
        self._tls: ssl.SSLContext | None = None

    def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        content: bytes | bytearray,
        most_bytes: int | None = None,
    ) -> Answer:
        """One request. most_bytes: of the content of an object, None for other answers."""
        connection = self._connection()
        try:
            if self._proxy is not None and self._server.scheme == "http":
                target = f"http://{self._server.netloc}{target}"
                headers = {**headers, **_authorization(self._proxy)}
            # A store may refuse, and close, before it has all: then its answer says why.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, content, dict(headers))
            response = connection.getresponse()
            if response.status < 200:
                raise HTTPException("an answer before the answer, which no one asked for")
            is_content = most_bytes is not None and response.status < 300
            most = most_bytes if is_content else MOST_ANSWER_BYTES
            data = read_most(response, most or 0, self._location)
        except BaseException:
            connection.close()
            raise
        found = {name.lower(): value for name, value in response.getheaders()}
        is_kept = not response.will_close
        with self._lock:
            if is_kept and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return Answer(response.status, found, data)
        connection.close()
        return Answer(response.status, found, data)

    def close(self) -> None:
        """Close what is not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connection(self) -> HTTPConnection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if not _has_ended(connection):
                return connection
            connection.close()
        connection = self._new_connection()
        try:
            connection.connect()
        except ssl.SSLError as error:
            connection.close()
            if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
                raise
            raise StoreError(
                f"{printable(self._location)}: {printable(str(error), 400)}; correct the place"
            ) from None
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(SILENCE_SECONDS)
        return connection

    def _new_connection(self) -> HTTPConnection:
        is_tls = self._server.scheme == "https"
        host, port = self._server.hostname or "", self._server.port or (443 if is_tls else 80)
        at, at_port = host, port
        if self._proxy is not None:
            at, at_port = self._proxy.hostname or "", self._proxy.port or 80
        if not is_tls:
            return _PacedConnection(at, at_port, timeout=CONNECT_SECONDS)
        if self._tls is None:
            self._tls = _tls_context(self._authorities_file)
        made = _PacedTlsConnection(at, at_port, timeout=CONNECT_SECONDS, context=self._tls)
        if self._proxy is not None:
            made.set_tunnel(host, port, _authorization(self._proxy))
        return made


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
    if source.length:
        # http.client takes a connection that was cut for the end of what it reads in parts.
        raise http.client.IncompleteRead(b"", source.length)
    return b"".join(parts)


def _has_ended(connection: HTTPConnection) -> bool:
    """Whether the server closed a connection that is not in use, or sent what no one asked for."""
    if connection.sock is None:
        return True
    ready = select.poll()
    ready.register(connection.sock, select.POLLIN)
    return bool(ready.poll(0))


def _proxy_of(server: SplitResult) -> SplitResult | None:
    """The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for a server."""
    if not any(name.lower() == f"{server.scheme}_proxy" for name in os.environ):
        return None
    from urllib.request import getproxies_environment, proxy_bypass

    text = getproxies_environment().get(server.scheme, "")
    if not text or proxy_bypass(server.netloc.rpartition("@")[2]):
        return None
    proxy = urlsplit(text if "://" in text else f"http://{text}")
    if proxy.scheme != "http" or not proxy.hostname:
        # The text may hold a password.
        raise StoreError(f"the proxy in {server.scheme.upper()}_PROXY is not http://HOST:PORT")
    return proxy


def _authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    both = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"proxy-authorization": f"Basic {base64.b64encode(both).decode()}"}


def _tls_context(authorities_file: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authorities_file or _authorities())
    except (OSError, ssl.SSLError) as error:
        raise StoreError(
            f"cannot read the certificates in {printable(authorities_file)}: {error}"
        ) from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def _authorities() -> str | None:
    """A file of authorities where the system has none; botocore has one."""
    usual = ssl.get_default_verify_paths()
    if usual.cafile or (usual.capath and os.listdir(usual.capath)):
        return None
    found = find_spec("botocore")
    path = (
        os.path.join(os.path.dirname(found.origin), "cacert.pem") if found and found.origin else ""
    )
    return path if path and os.path.exists(path) else None


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
        self.fp: Any = io.BufferedReader(_Paced(self.fp.detach()))


class _SendsInPieces:
    """Mixed into a connection: each piece has its own time, and headers leave with the first one.

    Of a process that is killed between headers and content SeaweedFS stores an empty object.
    """

    _has_content = False
    _headers = b""

    def endheaders(self, message_body: Any = None, **options: Any) -> None:
        self._has_content, self._headers = bool(message_body), b""
        super().endheaders(message_body, **options)  # type: ignore[misc]

    def send(self, data: Any) -> None:
        if self._has_content:
            self._has_content, self._headers = False, bytes(data)
            return
        headers, self._headers = self._headers, b""
        if not isinstance(data, bytes | bytearray):
            super().send(data)  # type: ignore[misc]
            return
        view = memoryview(data)
        first: Any = b"".join((headers, view[:_PIECE_BYTES])) if headers else view[:_PIECE_BYTES]
        super().send(first)  # type: ignore[misc]
        for start in range(_PIECE_BYTES, len(view), _PIECE_BYTES):
            super().send(view[start : start + _PIECE_BYTES])  # type: ignore[misc]


class _PacedConnection(_SendsInPieces, HTTPConnection):
    response_class = _PacedResponse


class _PacedTlsConnection(_SendsInPieces, HTTPSConnection):
    response_class = _PacedResponse
