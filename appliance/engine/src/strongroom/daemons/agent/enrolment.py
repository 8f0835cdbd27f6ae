"""How the agent gets its first certificate, and renews it.

Enrolment: fetch the director's authority without trusting it, compare its fingerprint with the one
given to the operator, then connect again, trusting that authority alone, and exchange the one-time
token for a certificate. Before the token is sent, whoever answers must prove to be a director of
the name that was meant: a storage daemon has a certificate of the same authority. The private key
never leaves this machine. Renewal authenticates with the current certificate.
"""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from strongroom.daemons.agent.put_keys import keep_put_key
from strongroom.errors import DirectorError, PeerRefusedError, UsageError
from strongroom.net.channels.tls_contexts import authority_context, client_context
from strongroom.net.control.own_requests import OWN_HEADERS
from strongroom.net.identities.identity import (
    Identity,
    certificate_request,
    new_key,
    store_identity,
)
from strongroom.net.identities.revocations import install_list
from strongroom.net.identities.trust import Trust, authority_with_fingerprint, roots_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from strongroom.daemons.agent.settings import KnownDirector
    from strongroom.net.identities.peer import Peer

USUAL_PORT: Final = 9101
_TIMEOUT_SECONDS: Final = 30.0
_LARGEST_ANSWER_BYTES: Final = 4 << 20


class _Authority(msgspec.Struct, frozen=True):
    authority: str


class _Issued(msgspec.Struct, frozen=True):
    certificate: str
    authority: str
    revoked: str = ""
    director: str = ""
    put_keys: tuple[str, ...] = ()


def enrol(
    director_url: str,
    name: str,
    token: str,
    fingerprint: str,
    identity_folder: str,
    director_names: Collection[str] = (),
) -> tuple[Identity, str]:
    """Get the first certificate of `name`; returns the identity and the director's name.

    director_names: the director has one of these names; without any, that of its certificate, which
    must be for the host in the URL. Raises UsageError, PeerRefusedError, DirectorError.
    """
    host, port = _place(director_url)
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    blind.check_hostname = False
    # The peer is not authenticated yet: send nothing secret, and trust only a matching fingerprint.
    blind.verify_mode = ssl.CERT_NONE
    found = _ask(host, port, blind, "GET", "/api/v1/authority", None, _Authority)
    authority = authority_with_fingerprint(found.authority.encode(), fingerprint)
    key_pem = new_key()
    question = {
        "token": token,
        "csr": certificate_request(key_pem, name).decode("ascii"),
        "name": name,
    }
    trust = Trust(authority)
    peers: list[Peer] = []

    def judge(certificate: bytes) -> None:
        peer = trust.judge(certificate, ("director",))
        if director_names and peer.name not in director_names:
            meant = " or ".join(sorted(map(repr, director_names)))
            raise PeerRefusedError(f"we meant to reach director {meant}, but who answers is {peer}")
        peers.append(peer)

    context = authority_context(authority)
    issued = _ask(host, port, context, "POST", "/api/v1/enrol", question, _Issued, judge)
    if issued.director != peers[0].name:
        raise PeerRefusedError(
            f"{peers[0]} calls itself {issued.director[:100]!r}; find out what runs there"
        )
    identity = store_identity(identity_folder, key_pem, issued.certificate.encode(), authority)
    _keep_revoked(identity, issued)
    _keep_put_keys(identity_folder, issued)
    return identity, issued.director


def renew(director: KnownDirector, identity_folder: str) -> Identity:
    """Get the next certificate with the current one. Raises as `enrol` does."""
    identity = Identity.load(identity_folder)
    key_pem = new_key()
    context = client_context(identity, check_hostname=False)
    question = {"csr": certificate_request(key_pem, identity.name).decode("ascii")}

    def judge(certificate: bytes) -> None:
        identity.trust.judge_server(certificate, director.name, ("director",))

    issued = _ask(
        director.address,
        director.port,
        context,
        "POST",
        "/api/v1/renew",
        question,
        _Issued,
        judge,
    )
    # The authority stays the one of the enrolment: no answer may change it.
    renewed = store_identity(
        identity_folder, key_pem, issued.certificate.encode(), identity.authority_pem
    )
    _keep_revoked(renewed, issued)
    _keep_put_keys(identity_folder, issued)
    return renewed


def _keep_put_keys(identity_folder: str, issued: _Issued) -> None:
    for text in issued.put_keys:
        keep_put_key(identity_folder, text)


def _keep_revoked(identity: Identity, issued: _Issued) -> None:
    if issued.revoked:
        roots = roots_of(identity.authority_pem)
        install_list(identity.revoked_path, issued.revoked.encode(), roots)


def _place(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        host, port = parts.hostname, parts.port or USUAL_PORT
    except ValueError as error:
        raise UsageError(f"{url}: {error}") from error
    if parts.scheme != "https" or not host or parts.username or parts.path.strip("/"):
        raise UsageError(f"{url}: name the director as https://HOST:PORT")
    return host, port


def _ask(
    host: str,
    port: int,
    context: ssl.SSLContext,
    method: str,
    path: str,
    question: dict[str, str] | None,
    answer: type[Any],
    judge: Any = None,
) -> Any:
    """One request and its answer. `judge` checks the server's certificate before it is sent."""
    connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=context)
    try:
        connection.connect()
        if judge is not None:
            judge(connection.sock.getpeercert(True))
        body = None if question is None else msgspec.json.encode(question)
        headers = {} if body is None else {"Content-Type": "application/json", **OWN_HEADERS}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read(_LARGEST_ANSWER_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DirectorError(f"the director at {host}:{port} cannot be reached: {reason}") from error
    finally:
        connection.close()
    if response.status >= 300:
        raise PeerRefusedError(f"the director refuses: {_said(data, response.status)}")
    try:
        return msgspec.json.decode(data, type=answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DirectorError(f"the director's answer is invalid: {error}") from error


def _said(data: bytes, status: int) -> str:
    try:
        said: Any = msgspec.json.decode(data)
        return str(said["message"])
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError):
        return f"HTTP status {status}"
