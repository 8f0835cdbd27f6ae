"""When the authority renews a certificate, and what it revokes by that.

A certificate is renewed when two thirds of its lifetime have passed, or when somebody at the
appliance permits it. It has one living successor: renewed again, because its holder could not store
the first, it gets another, and the first is revoked. So whoever copied a certificate cannot gather
others in stock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.errors import PeerRefusedError
from strongroom.net.identities.peer import renewal_due_at
from strongroom.net.identities.revocation_list import RevocationList, RevokedName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.x509 import Certificate

    from strongroom.net.identities.authority_files import Issued
    from strongroom.net.identities.peer import Peer

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
