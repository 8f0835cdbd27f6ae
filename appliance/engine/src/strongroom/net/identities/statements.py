"""Statements: signed bearer tokens that a daemon issues and another daemon verifies.

    base64url(body) "." base64url(certificate, DER) "." base64url(signature)
    body: msgpack {version, purpose, payload, nonce, issued_ns, expires_ns}

The signature covers a label, the hash of the certificate and the body. A statement is valid for one
purpose, until it expires by the verifier's clock (with five minutes of grace for clock skew), and
may be presented again until then; the payload must name for whom it is valid.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decode
from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.identities.identity import Identity, verify_signature
from strongroom.net.identities.peer import Peer, parse_certificate
from strongroom.net.identities.trust import Trust

GREATEST_TEXT_LENGTH = 64 << 10
GREATEST_LIFETIME_SECONDS = 31 * 86400
CLOCK_GRACE_SECONDS = 300

_VERSION = 1
_LABEL = b"strongroom statement 1\0"
_NONCE_SIZE = 16


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The signed body. Times in nanoseconds since 1970."""

    version: int
    purpose: str
    payload: dict[str, Any]
    nonce: bytes
    issued_ns: int
    expires_ns: int


def sign_statement(
    identity: Identity, purpose: str, payload: Mapping[str, Any], lifetime_seconds: float
) -> str:
    """Sign `payload` (what msgpack can hold) for `purpose`, valid from now on for a time.

    Raises UsageError for a lifetime of zero or over a month, or too large a payload.
    """
    if not 0 < lifetime_seconds <= GREATEST_LIFETIME_SECONDS:
        raise UsageError(f"a statement is valid for up to {GREATEST_LIFETIME_SECONDS} seconds")
    now_ns = clock.now_ns()
    body = Body(
        version=_VERSION,
        purpose=purpose,
        payload=dict(payload),
        nonce=clock.random_bytes(_NONCE_SIZE),
        issued_ns=now_ns,
        expires_ns=now_ns + int(lifetime_seconds * SECOND_NS),
    )
    encoded = msgspec.msgpack.encode(body)
    certificate = identity.certificate_der
    signature = identity.sign(_signed_bytes(certificate, encoded))
    text = ".".join(map(_text_of, (encoded, certificate, signature)))
    if len(text) > GREATEST_TEXT_LENGTH:
        raise UsageError("the statement is too large")
    return text


def verify_statement(
    text: str,
    trust: Trust,
    purpose: str,
    roles: Collection[str],
) -> tuple[Peer, dict[str, Any]]:
    """Verify a statement: its signer, of one of `roles`, and the payload.

    `trust`: `identity.trust` knows revocations. Raises PeerRefusedError for anything but a valid
    statement for this purpose.
    """
    if len(text) > GREATEST_TEXT_LENGTH:
        raise PeerRefusedError("the statement shown is too large")
    parts = text.split(".")
    if len(parts) != 3:
        raise PeerRefusedError("invalid statement")
    encoded, certificate, signature = map(_bytes_of, parts)
    peer = trust.judge(certificate, roles)
    signed = _signed_bytes(certificate, encoded)
    if not verify_signature(parse_certificate(certificate), signature, signed):
        raise PeerRefusedError(f"the statement shown was not signed by {peer}")
    body = decode(encoded, Body, f"a statement of {peer}", PeerRefusedError)
    if body.version != _VERSION or body.purpose != purpose:
        raise PeerRefusedError(f"a statement of {peer} is for {body.purpose!r}, not {purpose!r}")
    _check_moment(body, peer)
    return peer, body.payload


def _check_moment(body: Body, peer: Peer) -> None:
    now_ns = clock.now_ns()
    grace_ns = CLOCK_GRACE_SECONDS * SECOND_NS
    if body.expires_ns - body.issued_ns > GREATEST_LIFETIME_SECONDS * SECOND_NS:
        raise PeerRefusedError(f"a statement of {peer} claims too long a lifetime")
    if now_ns > body.expires_ns + grace_ns:
        raise PeerRefusedError(f"a statement of {peer} has expired (or the clocks differ)")
    if now_ns < body.issued_ns - grace_ns:
        raise PeerRefusedError(f"a statement of {peer} is from the future: check the clocks")


def _signed_bytes(certificate: bytes, encoded: bytes) -> bytes:
    return _LABEL + hashlib.sha256(certificate).digest() + encoded


def _text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _bytes_of(text: str) -> bytes:
    """Decode the canonical text that `_text_of` writes; PeerRefusedError for any other."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError as error:
        raise PeerRefusedError("invalid statement") from error
    if _text_of(data) != text:
        raise PeerRefusedError("invalid statement")
    return data
