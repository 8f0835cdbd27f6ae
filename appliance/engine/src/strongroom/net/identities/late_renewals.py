"""Renewal of a certificate that is not valid any more, or not yet, by proof of having its key.

Without a valid certificate there is no TLS connection of a peer, so the request goes where tokens
of enrolment go, with a proof in the place of the token:

    srr1_ base64url(msgpack [certificate (DER), signature])

The signature is that of the certificate's key, over a label, the authority's fingerprint and the
request for the new certificate. So a proof is of no use for another request.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom.errors import PeerRefusedError
from strongroom.net.identities.identity import verify_signature
from strongroom.net.identities.peer import Peer, parse_certificate, peer_of
from strongroom.net.identities.trust import GREATEST_CERTIFICATE_BYTES, fingerprint, roots_of

if TYPE_CHECKING:
    from strongroom.net.identities.identity import Identity

_PREFIX: Final = "srr1_"
_LABEL: Final = b"strongroom late renewal 1\0"


def late_proof(identity: Identity, request_pem: bytes) -> str:
    """The proof for a request (PEM)."""
    signed = _signed(fingerprint(roots_of(identity.authority_pem)[0]), request_pem)
    proof = (identity.certificate_der, identity.sign(signed))
    return _PREFIX + base64.urlsafe_b64encode(msgspec.msgpack.encode(proof)).decode("ascii")


def is_late_proof(text: str) -> bool:
    """Whether a text is a proof, not a token of enrolment."""
    return text.startswith(_PREFIX)


def read_late_proof(
    text: str, authority_fingerprint: str, request_pem: bytes
) -> tuple[bytes, Peer]:
    """The certificate (DER) of a proof for this request, and whose it is.

    The authority judges the certificate. Raises PeerRefusedError.
    """
    try:
        data = base64.b64decode(text.removeprefix(_PREFIX), altchars=b"-_", validate=True)
        certificate_der, signature = msgspec.msgpack.decode(data, type=tuple[bytes, bytes])
    except (ValueError, msgspec.MsgspecError) as error:
        raise PeerRefusedError("the proof for a late renewal is damaged") from error
    if len(certificate_der) > GREATEST_CERTIFICATE_BYTES:
        raise PeerRefusedError("the certificate shown is too large to be one of ours")
    certificate = parse_certificate(certificate_der)
    if not verify_signature(certificate, signature, _signed(authority_fingerprint, request_pem)):
        raise PeerRefusedError("whoever asks for a late renewal has not proved to have the key")
    return certificate_der, peer_of(certificate)


def _signed(authority_fingerprint: str, request_pem: bytes) -> bytes:
    return _LABEL + authority_fingerprint.encode("ascii") + request_pem
