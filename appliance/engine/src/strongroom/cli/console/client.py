"""A client of the director's API: requests, answers, events, errors.

An error in an answer is raised as the same class as at the director, so the exit code of a command
states the cause.
"""

from __future__ import annotations

import json
import ssl
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import httpx

from strongroom import __version__
from strongroom.cli.console.credentials import keep_identity, warn_of_token
from strongroom.cli.console.failures import told_who, unreachable
from strongroom.cli.console.place import director_place
from strongroom.errors import (
    DirectorError,
    NotAuthenticatedError,
    StrongroomError,
    UnknownNameError,
    UsageError,
    error_named,
)
from strongroom.net.channels.tls_contexts import authority_context, client_context
from strongroom.net.control.own_requests import ENDS_HEADER, OWN_HEADERS
from strongroom.net.renewal.certificates import ended_text, has_ended

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from strongroom.cli.console.place import DirectorPlace

API = "/api/v1"
TIMEOUT_SECONDS = 60.0
# The director sends a keepalive at least this often on a stream of events.
EVENT_TIMEOUT_SECONDS = 60.0
_GREATEST_AUTHORITY_BYTES = 1 << 20


class DirectorClient:
    """A connection to one director; a context manager. Methods raise the director's errors."""

    def __init__(self, place: DirectorPlace, warn: Callable[[str], None] = lambda _: None) -> None:
        """`warn` is told, at most once each, of credentials that end soon."""
        self._place = place
        self._warn = warn
        self._has_warned = False
        keep_identity(place, warn)
        headers = {"user-agent": f"strongroom/{__version__}", **OWN_HEADERS}
        if token := place.token():
            headers["authorization"] = f"Bearer {token}"
        self._http = httpx.Client(
            base_url=place.url, verify=_context(place), headers=headers, timeout=TIMEOUT_SECONDS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._http.close()

    def get(self, path: str, /, **query: object) -> Any:
        """What is at `path` below /api/v1; a value of None in `query` is left out."""
        return self._ask("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """A POST request."""
        return self._ask("POST", path, body=body or {})

    def delete(self, path: str) -> Any:
        """A DELETE request."""
        return self._ask("DELETE", path)

    def pages(self, path: str, /, **query: object) -> Iterator[dict[str, Any]]:
        """All items of a listing that comes in pages."""
        after = None
        while True:
            page = self.get(path, after=after, **query)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def events(self, path: str) -> Iterator[dict[str, Any]]:
        """Events as they come, until the director ends the stream; each has its `type`."""
        try:
            timeout = httpx.Timeout(TIMEOUT_SECONDS, read=EVENT_TIMEOUT_SECONDS)
            with self._http.stream("GET", API + path, timeout=timeout) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise told_who(self._place, _error_of(answer))
                self._look_at(answer)
                data: list[str] = []
                for line in answer.iter_lines():
                    if line.startswith("data:"):
                        data.append(line[5:].removeprefix(" "))
                    elif not line and data:
                        yield json.loads("\n".join(data))
                        data.clear()
        except httpx.HTTPError as error:
            raise unreachable(self._place, error) from error
        except httpx.InvalidURL as error:
            raise self._false_id(error) from error

    def _look_at(self, answer: httpx.Response) -> None:
        """Warn once of a token that ends soon."""
        if not self._has_warned and (ends := answer.headers.get(ENDS_HEADER, "")):
            self._has_warned = True
            warn_of_token(self._place, ends, self._warn)

    def _false_id(self, error: httpx.InvalidURL) -> DirectorError:
        return DirectorError(f"{self._place.url} named something by an id that is none: {error}")

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        try:
            answer = self._http.request(method, API + path, params=given, json=body)
        except UnicodeEncodeError as error:
            raise UsageError(f"{error.object!r} is not UTF-8, and every name is") from error
        except httpx.HTTPError as error:
            raise unreachable(self._place, error) from error
        except httpx.InvalidURL as error:
            raise self._false_id(error) from error
        if answer.status_code >= 400:
            raise told_who(self._place, _error_of(answer))
        self._look_at(answer)
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise DirectorError(f"{self._place.url} sent an answer that is not JSON") from error


def named(name: str) -> str:
    """A name, an id or the beginning of one as part of a path. Raises UnknownNameError."""
    if not name or "/" in name or not name.isprintable():
        raise UnknownNameError(f"{name!r} is not a valid name or id")
    return quote(name, safe="")


def open_director(arguments: argparse.Namespace) -> DirectorClient:
    """The director that the options of a command select. Raises UsageError, ConfigurationError."""
    return DirectorClient(director_place(arguments), arguments.warn)


def _context(place: DirectorPlace) -> ssl.SSLContext:
    if place.identity:
        from strongroom.net.identities.identity import Identity

        with _told_of(f"--identity {place.identity}"):
            identity = Identity.load(place.identity)
        if has_ended(identity):
            raise NotAuthenticatedError(ended_text(identity))
        if place.authority:
            identity = replace(identity, authority_pem=_read(place.authority))
        with _told_of(place.authority or f"--identity {place.identity}"):
            return client_context(identity)
    if place.authority:
        with _told_of(f"--authority {place.authority}"):
            context = authority_context(_read(place.authority))
    else:
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    if place.certificate:
        try:
            context.load_cert_chain(place.certificate, place.key or None)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"cannot load {place.certificate}, {place.key}: {error}") from error
    return context


@contextmanager
def _told_of(place: str) -> Iterator[None]:
    """Name in errors about files the option that gave them."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_GREATEST_AUTHORITY_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read --authority {path}: {error.strerror}") from error


def _error_of(answer: httpx.Response) -> StrongroomError:
    try:
        return error_of(answer.json())
    except (ValueError, KeyError, TypeError):
        return DirectorError(f"{answer.url} answers {answer.status_code} {answer.reason_phrase}")


def error_of(said: Mapping[str, Any]) -> StrongroomError:
    """The error that the director reports by its id and message. Raises KeyError, TypeError."""
    return error_named(str(said["error_id"]), str(said["message"]), otherwise=DirectorError)


def _text(value: object) -> str | list[str]:
    if isinstance(value, list):
        return [str(one) for one in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
