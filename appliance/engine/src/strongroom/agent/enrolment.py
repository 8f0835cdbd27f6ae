"""How the agent gets its first certificate, and renews it.

Enrolment: fetch the director's authority without trusting it, compare its fingerprint with the one
given to the operator, then connect again, trusting that authority alone, and exchange the one-time
token for a certificate. Before the token is sent, anyone who answers must prove to be a director of
the name that was meant: a storage daemon has a certificate of the same authority. The private key
never leaves this machine. Renewal authenticates with the current certificate.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Collection, Iterable
from typing import Final
from urllib.parse import urlsplit

import msgspec

from strongroom.agent.put_keys import keep_put_key
from strongroom.agent.settings import KnownDirector
from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.channels.tls_contexts import authority_context, client_context
from strongroom.net.identities.identity import (
    Identity,
    certificate_request,
    new_key,
    store_identity,
)
from strongroom.net.identities.peer import Peer
from strongroom.net.identities.trust import Trust, authority_with_fingerprint
from strongroom.net.renewal import (
    AuthorityAnswer,
    DirectorAddress,
    IssuedAnswer,
    ask,
    keep_revoked,
    renew_certificate,
)

USUAL_PORT: Final = 9101


class _PutKeys(msgspec.Struct, frozen=True):
    put_keys: tuple[str, ...]


def enrol(
    director_url: str,
    name: str,
    token: str,
    fingerprint: str,
    identity_folder: str,
    director_names: Collection[str] = (),
    key_pem: bytes = b"",
) -> tuple[Identity, str]:
    """Get the first certificate and the put keys of `name`; returns the identity and the director.

    director_names: the director has one of these names; without any, that of its certificate, which
    must be for the host in the URL. key_pem: the key to use, with which an enrolment that was
    interrupted can be repeated; a new one if there is none. Raises UsageError, PeerRefusedError,
    DirectorError.
    """
    place = place_of(director_url)
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    blind.check_hostname = False
    # The peer is not authenticated yet: send nothing secret, and trust only a matching fingerprint.
    blind.verify_mode = ssl.CERT_NONE
    found: AuthorityAnswer = ask(place, blind, "GET", "/api/v1/authority", None, AuthorityAnswer)
    authority = authority_with_fingerprint(found.authority.encode(), fingerprint)
    key_pem = key_pem or new_key()
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
            raise PeerRefusedError(f"expected director {meant} here, but {peer} answered")
        peers.append(peer)

    context = authority_context(authority)
    issued: IssuedAnswer = ask(
        place, context, "POST", "/api/v1/enrol", question, IssuedAnswer, judge
    )
    if issued.director != peers[0].name:
        raise PeerRefusedError(
            f"{peers[0]} calls itself {issued.director[:100]!r}; find out what runs there"
        )
    identity = store_identity(identity_folder, key_pem, issued.certificate.encode(), authority)
    keep_revoked(identity, issued.revoked)
    fetch_put_keys(place._replace(name=issued.director), identity)
    return identity, issued.director


def fetch_put_keys(place: DirectorAddress, identity: Identity) -> str:
    """Get the put keys of the holder of a certificate; returns the director's name.

    Without a name in `place` it is that of the director's certificate, which must be for the host.
    Raises as `enrol` does.
    """
    context = client_context(identity, check_hostname=not place.name)
    names: list[str] = []

    def judge(certificate: bytes) -> None:
        if place.name:
            identity.trust.judge_server(certificate, place.name, ("director",))
        names.append(identity.trust.judge(certificate, ("director",)).name)

    found: _PutKeys = ask(place, context, "POST", "/api/v1/put-keys", {}, _PutKeys, judge)
    _keep_put_keys(os.fsdecode(identity.folder), found.put_keys)
    return names[0]


def renew(director: KnownDirector, identity_folder: str) -> Identity:
    """Get the next certificate with the current one. Raises as `enrol` does."""
    renewed, put_keys = renew_certificate(address_of(director), identity_folder)
    _keep_put_keys(identity_folder, put_keys)
    return renewed


def address_of(director: KnownDirector) -> DirectorAddress:
    """Where a director that has an Address is reached."""
    return DirectorAddress(director.address, director.port, director.name)


def _keep_put_keys(identity_folder: str, put_keys: Iterable[str]) -> None:
    for text in put_keys:
        keep_put_key(identity_folder, text)


def place_of(url: str) -> DirectorAddress:
    """Where a URL says that the director is. Raises UsageError."""
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        host, port = parts.hostname, parts.port or USUAL_PORT
    except ValueError as error:
        raise UsageError(f"{url}: {error}") from error
    if parts.scheme != "https" or not host or parts.username or parts.path.strip("/"):
        raise UsageError(f"{url}: name the director as https://HOST:PORT")
    return DirectorAddress(host, port)
