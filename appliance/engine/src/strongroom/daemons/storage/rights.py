"""Access rules: what each role may do and see, if the configuration names it (see `admission`).

- An agent sees its own packs and index objects and those that were verified, its own
snapshots and leases, all tombstones, and the configuration. It adds packs, index objects and
snapshots, and adds, renews and releases leases of its own. It deletes nothing else.
- An agent with a grant sees what the owner named in the grant sees, but of snapshots only the one
that the grant names, and the restore ticket that it names, and only reads.
- An operator sees everything but the wrapped restore keys, and does what its verbs say: at most
reading.
- A director sees everything, adds as an agent does, marks objects as verified, and may see what
an agent sees.
- Local, that is root and the daemon's own user at the Unix socket: everything.

Everything excludes objects that were found false, which nobody sees, and restore tickets, which
only local peers see and the agent whose grant names one. The wrapped restore keys (`keys`) are for
directors and local peers alone: whoever has one may guess its passphrase. An object that a peer may
not see is reported as missing, with the same message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom.daemons.storage.admission import READING_VERBS, requests_of
from strongroom.daemons.storage.provenance import FALSE, VOUCHED
from strongroom.errors import ObjectMissingError, RightError
from strongroom.jobs.upkeep.sweep import SWEEP_LEASE

if TYPE_CHECKING:
    from strongroom.daemons.storage.provenance import Provenance
    from strongroom.net.identities.peer import Peer
    from strongroom.net.storage.protocol import FrameType, PutMode
    from strongroom.stores.store import Kind

_ADDED_KINDS: Final = frozenset(("packs", "index", "snapshots", "leases"))
_WHOLE_SIGHT: Final = frozenset(("operator", "director", "local"))


@dataclass(frozen=True, slots=True)
class StorageRights:
    """The rights of one connection.

    owner: recorded as the owner of what it adds, "" for the appliance. view: the agent whose
    objects it sees, None for all objects. snapshot: the only one it sees, "" for all. ticket:
    the only restore ticket it sees. verbs: of a peer over the network.
    """

    role: str
    owner: str
    view: str | None
    verbs: frozenset[str] = frozenset()
    read_only: bool = False
    snapshot: str = ""
    ticket: str = ""

    @property
    def is_appliance(self) -> bool:
        """Whether what it adds counts as verified."""
        return self.owner == ""

    def require_request(self, frame_type: FrameType) -> None:
        """RightError when this peer may not send this kind of request."""
        if self.role == "local" and not self.read_only:
            return
        verbs = READING_VERBS if self.role == "local" else self.verbs
        if self.read_only:
            verbs &= READING_VERBS
        if frame_type not in requests_of(verbs):
            raise RightError(f"{self._shown()} may not send {frame_type.name.lower()} here")

    def require_adding(self, kind: Kind, name: str, mode: PutMode, book: Provenance) -> None:
        """RightError when this peer may not add an object of this kind or name.

        ObjectMissingError when it renews a lease that is gone.
        """
        if self.role == "local":
            return
        if kind not in _ADDED_KINDS:
            raise RightError(f"{self._shown()} may not add {kind}")
        if kind == "leases" and name == SWEEP_LEASE:
            raise RightError(f"the lease {name} belongs to maintenance")
        if mode == "replace" and kind == "leases" and book.standing(kind, name) is None:
            # Removed as abandoned: a renewal must not restore it.
            raise ObjectMissingError(f"the lease {name} is missing")
        if mode == "replace" and not (kind == "leases" and book.is_owned(kind, name, self.owner)):
            raise RightError(f"{self._shown()} may replace its own leases only")

    def sees(self, kind: Kind, name: str, book: Provenance) -> bool:
        """Whether an object is visible to this peer."""
        if kind == "tickets" and not self._sees_all_tickets:
            return self.ticket != "" and name == self.ticket
        if self.snapshot and kind == "snapshots" and name != self.snapshot:
            return False
        if kind == "keys" and not self._sees_keys:
            return False
        if self.view is None or kind in ("config", "tombstones"):
            return book.standing(kind, name) != FALSE
        standing = book.standing(kind, name)
        if kind in ("packs", "index") and standing == VOUCHED:
            return True
        return standing not in (None, FALSE) and book.is_owned(kind, name, self.view)

    def hidden_or_seen(self, kind: Kind, book: Provenance) -> tuple[set[str], set[str] | None]:
        """Names of a kind that this peer does not see, and those it sees; None: all others."""
        false = book.of_standing(kind, FALSE)
        if kind == "tickets" and not self._sees_all_tickets:
            return false, {self.ticket} - {""}
        if self.snapshot and kind == "snapshots":
            return false, {self.snapshot}
        if kind == "keys" and not self._sees_keys:
            return false, set()
        if self.view is None or kind in ("config", "tombstones"):
            return false, None
        seen = book.owned(kind, self.view)
        if kind in ("packs", "index"):
            seen |= book.of_standing(kind, VOUCHED)
        return false, seen

    @property
    def _sees_all_tickets(self) -> bool:
        return self.role == "local" and self.view is None

    @property
    def _sees_keys(self) -> bool:
        return self.view is None and self.role in ("director", "local")

    def _shown(self) -> str:
        return f"{self.role} {self.owner}".rstrip()


def rights_of(
    peer: Peer, verbs: frozenset[str], view_as: str, grant: dict[str, object] | None
) -> StorageRights:
    """The rights of a peer that asks for a view, or presents a grant. Raises RightError.

    `verbs`: what the configuration lets it do; local peers may do everything. `grant`: the content
    of a verified statement.
    """
    if peer.role != "local" and not verbs:
        raise RightError(f"{peer} is not named in the configuration of this storage daemon")
    if grant is not None:
        return _granted(peer, verbs, grant)
    if view_as:
        if peer.role not in ("director", "local"):
            raise RightError(f"{peer.role} {peer.name} may not see what {view_as} sees")
        return StorageRights(peer.role, "", view_as, verbs, read_only=True)
    if peer.role in _WHOLE_SIGHT:
        return StorageRights(peer.role, "", None, verbs)
    return StorageRights(peer.role, peer.name, peer.name, verbs)


def _granted(peer: Peer, verbs: frozenset[str], grant: dict[str, object]) -> StorageRights:
    owner, snapshot = grant.get("owner"), grant.get("snapshot")
    if grant.get("agent") != peer.name or peer.role != "agent":
        raise RightError(f"this grant is not for {peer.role} {peer.name}")
    if not isinstance(owner, str) or not isinstance(snapshot, str) or not owner or not snapshot:
        raise RightError("this grant names no snapshot of an agent")
    ticket = grant.get("ticket", "")
    return StorageRights(
        peer.role,
        peer.name,
        owner,
        verbs,
        read_only=True,
        snapshot=snapshot,
        ticket=ticket if isinstance(ticket, str) else "",
    )
