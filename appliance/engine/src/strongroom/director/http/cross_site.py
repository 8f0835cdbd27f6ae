"""Refuses requests that a web page made with the certificate of its reader's browser.

A browser presents its user's certificate to the director whichever page asks for it. Pages of other
sites are recognized by what they cannot prevent a browser from sending: `Origin` and
`Sec-Fetch-Site`. What changes something, a stream of events and a WebSocket need OWN_HEADER too,
which no form, link, EventSource or WebSocket of a page can send. A page whose own name was made to
point to the director (DNS rebinding) counts as the director's for a browser. So the name in `Host`
must be one of the director's certificate, as every console checks it, or an address. Agents may
dial the director by any name, since they check its role and name instead.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Request

from strongroom.base.errors import NotPermittedError
from strongroom.director.http.limits import CertifiedPeer
from strongroom.net.control.messages import OWN_HEADER
from strongroom.net.identities.identity import Identity
from strongroom.net.identities.peer import parse_certificate
from strongroom.net.identities.trust import host_names

_HARMLESS_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_STREAMS: Final = "/events"
_OWN_SITES: Final = frozenset(("same-origin", "none"))
_LONGEST_SHOWN: Final = 100

Headers = dict[str, list[str]]


class OwnNames:
    """The names by which the director may be asked: those of its present certificate."""

    def __init__(self, identity: Identity) -> None:
        self._names: frozenset[str] = frozenset()
        self.follow(identity)

    def follow(self, identity: Identity) -> None:
        """Use the names of a new certificate from now on."""
        names = host_names(parse_certificate(identity.certificate_der))
        self._names = frozenset(name.lower() for name in names)

    def has(self, host: str) -> bool:
        """Whether `host`, without a port, is one of them or an address."""
        name = host.lower().removesuffix(".")
        if name == "localhost" or name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def needs_own_header(method: str, path: str) -> bool:
    """Whether such a request changes something, or opens a stream."""
    return method.upper() not in _HARMLESS_METHODS or path.endswith(_STREAMS)


def gathered(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers by their names in lower case."""
    found: Headers = {}
    for name, value in headers:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def refusal(
    headers: Headers, names: OwnNames, certified: CertifiedPeer | None, *, needs_header: bool
) -> str:
    """Why a request with these headers is refused, "" if it is not."""
    # HTTP/1.0, which no browser speaks any more, has no Host.
    (host, *more) = headers.get("host", [""])
    is_agent = certified is not None and certified.peer.role == "agent"
    if more or (host and not is_agent and not names.has(_name_in(host))):
        return (
            f"this director does not have the name {_shown(host)}: use a name in its certificate, "
            "or its address"
        )
    for site in headers.get("sec-fetch-site", ()):
        if site.strip().lower() not in _OWN_SITES:
            return "a browser sent this request for a page of another site"
    for origin in headers.get("origin", ()):
        if not host or origin.strip().lower() != f"https://{host.lower()}":
            return f"a browser sent this request for a page of {_shown(origin)}"
    if needs_header and not any(map(str.strip, headers.get(OWN_HEADER.lower(), ()))):
        return (
            f"send the header `{OWN_HEADER}: 1`; it shows that no web page makes this request with "
            "the certificate of its reader"
        )
    return ""


def _name_in(host: str) -> str:
    """The name or address in a Host header; "" for an invalid one."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _shown(text: str) -> str:
    return repr(text[:_LONGEST_SHOWN])


async def _require_own(request: Request) -> None:
    names: OwnNames = request.app.state.context.names
    headers = gathered(request.scope["headers"])
    certified = request.scope["state"]["certified"]
    needed = needs_own_header(request.method, request.url.path)
    if why := refusal(headers, names, certified, needs_header=needed):
        raise NotPermittedError(why)


# A dependency of every route.
OWN_REQUESTS_ONLY: Final = Depends(_require_own)


def describe(api: FastAPI) -> None:
    """Add the header to the OpenAPI description of every request that needs it.

    The description is made when somebody asks for it: it takes megabytes, and most never do.
    """
    make = api.openapi

    def described() -> dict[str, Any]:
        if api.openapi_schema is None:
            _add_header(make()["paths"])
        return make()

    api.openapi = described  # type: ignore[method-assign]  # as FastAPI's documentation says


def _add_header(paths: dict[str, Any]) -> None:
    parameter = {
        "name": OWN_HEADER,
        "in": "header",
        "required": True,
        "description": "Any text, such as 1. It shows that no web page makes this request.",
        "schema": {"type": "string", "pattern": "^[!-~]+$"},
    }
    for path, operations in paths.items():
        for method, operation in operations.items():
            if needs_own_header(method, path):
                operation.setdefault("parameters", []).append(parameter)
