"""Enrolment: what a token permits its bearer, and the certificate that he gets for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from blake3 import blake3
from cryptography.hazmat.primitives import serialization

from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.certificate_forms import requested_key
from strongroom.net.identities.enrolment_tokens import TokenUse
from strongroom.net.identities.peer import ClientOf, check_name


def new_certificate(
    authority: Authority,
    token: str,
    request_pem: bytes,
    name: str,
    clients: Callable[[TokenUse], Sequence[ClientOf]] = lambda _: (),
) -> bytes:
    """The certificate that an enrolment token permits; counts a use of the token.

    clients: called with the token once it is used; see `Authority.issue`. Where the token makes a
    new client of the name, all certificates before are revoked.

    A token that is for no single name does not give a name that is taken. Raises
    PeerRefusedError or UsageError; an invalid request does not use the token.
    """
    check_name(name)
    # First what costs least: anybody may try.
    authority.tokens.look(token, name)
    key = key_digest(request_pem)
    authority.load_key()
    permitted(authority, token, name, key)
    use = authority.tokens.use(token, name, key)
    if use.new_client:
        # Anyone who has one would get the new client's keys by renewing it.
        with suppress(UsageError):
            authority.revoke(name)
    return authority.issue(request_pem, name, use.role, use.hosts, clients=clients(use))


def permitted(authority: Authority, token: str, name: str, key: str) -> tuple[TokenUse, bool]:
    """What a token permits the holder of a key, and whether he has used it already.

    key: see `key_digest`. Raises PeerRefusedError, also when the name is taken, or when its
    certificates were revoked since that use.
    """
    use = authority.tokens.look(token, name)
    user = use.check_key(name, key)
    if user is None:
        if not use.name:
            _check_unclaimed(authority, name)
    elif _revoked_since(authority, use.role, name, user.used_ns):
        raise PeerRefusedError(
            f"{name!r} was revoked since it used the enrolment token; ask for a new token"
        )
    return use, user is not None


def key_digest(request_pem: bytes) -> str:
    """The digest of the public key in a request (PEM), whose holder it proves to be.

    Raises PeerRefusedError for a bad request.
    """
    key = requested_key(request_pem)
    der = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return blake3(der).hexdigest()


def _revoked_since(authority: Authority, role: str, name: str, since_ns: int) -> bool:
    """Whether a certificate was issued since a time, and all that were are revoked."""
    revoked = authority.revoked()
    of_name = [entry for entry in authority.living() if (entry.role, entry.name) == (role, name)]
    since = [entry for entry in of_name if entry.issued >= since_ns // SECOND_NS]
    return bool(since) and all(revoked.covers(role, name, entry.issued) for entry in since)


def _check_unclaimed(authority: Authority, name: str) -> None:
    revoked = authority.revoked()
    for entry in authority.living():
        if entry.name == name and not revoked.covers(entry.role, name, entry.issued):
            raise PeerRefusedError(
                f"there is a {entry.role} {name!r} already; choose another name, or ask for a "
                "token for just this name to enrol it anew"
            )
