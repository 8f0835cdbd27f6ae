"""One HTTP request to a server that the administrator named: verified, bounded, never redirected.

Errors never name the address or the token: both may be secrets.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from strongroom import __version__
from strongroom.base.errors import NoticeError
from strongroom.base.printable import printable

# For one step, and for the whole of it.
STEP_SECONDS: Final = 20.0
WHOLE_SECONDS: Final = 60.0
_OWN_HOSTS: Final = frozenset(("localhost", "127.0.0.1", "::1"))
_MOST_ANSWER_BYTES: Final = 64 << 10


def verifying_context(ca_file: str) -> ssl.SSLContext:
    """TLS that verifies the server's certificate and name, by these authorities or the system's.

    Raises NoticeError.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise NoticeError(f"cannot read certificates from {printable(ca_file)}: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def ask(
    method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None,
    ca_file: str = "",
) -> None:  # fmt: skip
    """Send a request; an answer of 200 to 299 is a success. Raises NoticeError. Blocks."""
    connection = _connection(url, ca_file)
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    fields = {"User-Agent": f"strongroom/{__version__}", **(headers or {})}
    try:
        with ended_after(WHOLE_SECONDS, lambda: connection.sock):
            connection.request(method, target, body or None, fields)
            answer = connection.getresponse()
            answer.read(_MOST_ANSWER_BYTES)
    except ssl.SSLCertVerificationError as error:
        raise NoticeError(
            f"the certificate of {_host(url)} is not accepted: {error.verify_message}; a CA File "
            "names other authorities"
        ) from error
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise NoticeError(f"cannot reach {_host(url)}: {printable(str(why), 200)}") from error
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise NoticeError(f"{_host(url)} answered {answer.status} {printable(answer.reason, 80)}")


@contextmanager
def ended_after(seconds: float, connection: Callable[[], socket.socket | None]) -> Iterator[None]:
    """End a connection that takes longer in all: its next read or write fails."""

    def end() -> None:
        if (open_socket := connection()) is not None:
            try:
                open_socket.shutdown(2)
            except OSError:
                return

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _connection(url: str, ca_file: str) -> HTTPConnection:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise NoticeError("the address of a webhook cannot be understood") from error
    if parts.username is not None:
        raise NoticeError("the address of a webhook must not contain a user: use a Token File")
    if parts.scheme == "https" and host:
        context = verifying_context(ca_file)
        return HTTPSConnection(host, port, timeout=STEP_SECONDS, context=context)
    if parts.scheme == "http" and host in _OWN_HOSTS:
        return HTTPConnection(host, port, timeout=STEP_SECONDS)
    raise NoticeError("an address of a webhook begins with https, http is for this machine only")


def _host(url: str) -> str:
    return printable(urlsplit(url).hostname or "", 200)
