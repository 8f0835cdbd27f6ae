"""A client of the director's API: requests, answers, events, errors.

An error in an answer is raised as the same class as at the director, so the exit code of a command
states the cause.
"""

from __future__ import annotations

import argparse
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self
from urllib.parse import quote

import httpx

from strongroom import __version__
from strongroom.base.errors import (
    DirectorError,
    NotAuthenticatedError,
    StrongroomError,
    UnknownNameError,
    UsageError,
    error_named,
    os_errors,
)
from strongroom.cli.client.credentials import keep_identity, warn_of_token
from strongroom.cli.client.failures import unreachable, with_director
from strongroom.cli.client.place import DirectorAccess, director_place
from strongroom.net.channels.tls_contexts import authority_context, client_context
from strongroom.net.control.messages import ENDS_HEADER, OWN_HEADERS
from strongroom.net.identities.identity import Identity
from strongroom.net.renewal import ended_text, has_ended

API = "/api/v1"
TIMEOUT_SECONDS = 60.0
# The director sends a keepalive at least this often on a stream of events.
EVENT_TIMEOUT_SECONDS = 60.0
# Most items of a page; a director of version 0.9 gives all jobs and clients at once.
PAGE_SIZE = 1000
_GREATEST_AUTHORITY_BYTES = 1 << 20


class DirectorClient:
    """A connection to one director; a context manager. Methods raise the director's errors."""

    def __init__(self, place: DirectorAccess, warn: Callable[[str], None] = lambda _: None) -> None:
        """`warn` is called, at most once each, for credentials that end soon."""
        self._place = place
        self._warn = warn
        self._has_warned = False
        keep_identity(place, warn)
        headers = {"user-agent": f"strongroom/{__version__}", **OWN_HEADERS}
        if token := place.token():
            headers["authorization"] = f"Bearer {token}"
        try:
            self._http = httpx.Client(
                base_url=place.url, verify=_context(place), headers=headers, timeout=TIMEOUT_SECONDS
            )
        except httpx.InvalidURL as error:
            raise UsageError(f"{place.url!r} names no director: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
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
                    raise with_director(self._place, _error_of(answer))
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
        return DirectorError(f"{self._place.url} sent an invalid id: {error}")

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
            raise with_director(self._place, _error_of(answer))
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


def _context(place: DirectorAccess) -> ssl.SSLContext:
    if place.identity:
        with _naming(f"--identity {place.identity}"):
            identity = Identity.load(place.identity)
        if has_ended(identity):
            raise NotAuthenticatedError(ended_text(identity))
        if place.authority:
            identity = replace(identity, authority_pem=_read(place.authority))
        with _naming(place.authority or f"--identity {place.identity}"):
            return client_context(identity)
    if place.authority:
        with _naming(f"--authority {place.authority}"):
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
def _naming(place: str) -> Iterator[None]:
    """Name in errors about files the option that gave them."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from error


def _read(path: str) -> bytes:
    with os_errors(f"cannot read --authority {path}"), open(path, "rb") as file:
        return file.read(_GREATEST_AUTHORITY_BYTES)


def _error_of(answer: httpx.Response) -> StrongroomError:
    try:
        return error_of(answer.json())
    except (ValueError, KeyError, TypeError):
        return DirectorError(f"{answer.url} answers {answer.status_code} {answer.reason_phrase}")


def error_of(error_fields: Mapping[str, Any]) -> StrongroomError:
    """The error that the director reports by its id and message. Raises KeyError, TypeError."""
    return error_named(
        str(error_fields["error_id"]), str(error_fields["message"]), otherwise=DirectorError
    )


def _text(value: object) -> str | list[str]:
    if isinstance(value, list):
        return [str(one) for one in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
