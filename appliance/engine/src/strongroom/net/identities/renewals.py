"""When the authority renews a certificate, and what it revokes by that.

A certificate is renewed when two thirds of its lifetime have passed, or when somebody at the
appliance permits it. It has one living successor: renewed again, because its holder could not store
the first, it gets another, and the first is revoked. So anyone who copied a certificate cannot
gather others in stock.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from cryptography.x509 import Certificate
from msgspec import structs

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import PeerRefusedError
from strongroom.net.identities.identity import Identity, verify_signature
from strongroom.net.identities.peer import Peer, parse_certificate, peer_of, renewal_due_at
from strongroom.net.identities.revocation_list import RevocationList, RevokedName
from strongroom.net.identities.trust import GREATEST_CERTIFICATE_BYTES, fingerprint, roots_of

if TYPE_CHECKING:
    from strongroom.net.identities.authority_files import Issued

# Renewal of a certificate that is not valid any more, or not yet, by proof of having its key.
#
# Without a valid certificate there is no TLS connection of a peer, so the request goes where tokens
# of enrolment go, with a proof in the place of the token:
#
#     srr1_ base64url(msgpack [certificate (DER), signature])
#
# The signature is that of the certificate's key, over a label, the authority's fingerprint and the
# request for the new certificate. So a proof is useless for another request.
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
        raise PeerRefusedError("the sender of this late renewal has not proved to have the key")
    return certificate_der, peer_of(certificate)


def _signed(authority_fingerprint: str, request_pem: bytes) -> bytes:
    return _LABEL + authority_fingerprint.encode("ascii") + request_pem


# For so long after its end a certificate is renewed by its key alone: the machine was off.
GRACE_DAYS = 180
GRACE_ROLES = frozenset(("agent", "storage"))
# Once more only while its holder may have failed to store the successor, and not all the time.
RENEWED_AGAIN_SECONDS = 60
RENEWED_AGAIN_UNTIL_SECONDS = 86400


def require_renewable(
    peer: Peer, certificate: Certificate, entries: Sequence[Issued]
) -> Issued | None:
    """PeerRefusedError if a certificate may not be renewed now.

    `entries`: of all certificates that have not ended; with `is_late` also of those that have.
    Returns its successor, if it has one.
    """
    now = clock.now_ns() // SECOND_NS
    own = next((entry for entry in entries if entry.serial == peer.serial), None)
    due = renewal_due_at(certificate)
    is_permitted = own is not None and own.may_renew
    late_days = (now - certificate.not_valid_after_utc.timestamp()) / 86400
    if late_days > GRACE_DAYS and not is_permitted:
        raise PeerRefusedError(
            f"the certificate of {peer} ended {late_days:.0f} days ago, and is renewed for "
            f"{GRACE_DAYS}; `strongroom ca renew {peer.name}` at the appliance permits it once more"
        )
    has_begun = now >= certificate.not_valid_before_utc.timestamp()
    if now < due.timestamp() and has_begun and not is_permitted:
        raise PeerRefusedError(
            f"the certificate of {peer} is not due before {due:%Y-%m-%d %H:%M} UTC; to renew it "
            f"now, first run `strongroom ca renew {peer.name}` at the appliance"
        )
    later = [
        entry
        for entry in entries
        if (entry.role, entry.name) == (peer.role, peer.name) and entry.issued > peer.issued
    ]
    if any(entry.renews != peer.serial for entry in later):
        raise PeerRefusedError(
            f"{peer} has a newer certificate than the one shown: use that, or enrol anew"
        )
    successor = later[-1] if later else None
    if successor is not None and not is_permitted:
        # Less than nothing: the clock was ahead, and the successor may be of no use.
        since = now - successor.issued_ns // SECOND_NS
        if 0 <= since < RENEWED_AGAIN_SECONDS:
            raise PeerRefusedError(f"the certificate of {peer} was renewed a moment ago; wait")
        if since > RENEWED_AGAIN_UNTIL_SECONDS:
            raise PeerRefusedError(
                f"the certificate of {peer} was renewed already, {since // 3600} hours ago; if its "
                f"holder has lost the new one, run `strongroom ca renew {peer.name}` at the "
                "appliance; if somebody else has it, `strongroom ca revoke`"
            )
    return successor


def without_earlier_successors(revoked: RevocationList, peer: Peer, entry: Issued) -> RevokedName:
    """What is revoked of the name of `peer` once `entry` has become its only successor."""
    known = revoked.names.get((peer.role, peer.name), RevokedName(peer.role, peer.name))
    # A range may be recorded already, for the certificate before this one. That this one is in use
    # shows that everything older belongs to the past.
    before = peer.issued if known.until and known.after != peer.issued else 0
    return structs.replace(
        known, before=max(known.before, before), after=peer.issued, until=entry.issued
    )
