"""Who may do what, and sees what.

- An agent sees packs and index objects of its own and those that were vouched for, its own
  snapshots and leases, all tombstones, and the configuration. It adds packs, index objects and
  snapshots, and adds, renews and gives back leases of its own. It deletes nothing else.
- An agent with a grant sees what the owner sees whom the grant names, but of snapshots only the one
  it names, and the restore ticket it names, and only reads.
- An operator sees everything and only reads.
- A director sees everything, adds as an agent does, vouches, and may see what an agent sees.
- Local, that is root and the daemon's own user at the Unix socket: everything.

Everything: but for objects that were found false, which nobody sees, and restore tickets, which are
for local peers and for the agent whose grant names one. What one does not see is missing, in the
very words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strongroom.daemons.storage.provenance import FALSE, VOUCHED
from strongroom.errors import ObjectMissingError, RightError
from strongroom.jobs.upkeep.sweep import SWEEP_LEASE
from strongroom.net.storage.protocol import FrameType

if TYPE_CHECKING:
    from strongroom.daemons.storage.provenance import Provenance
    from strongroom.net.identities.peer import Peer
    from strongroom.net.storage.protocol import PutMode
    from strongroom.stores.store import Kind

_READING: Final = frozenset(
    (FrameType.LIST, FrameType.GET, FrameType.INFO, FrameType.LIMIT, FrameType.DOUBTED)
)
_ADDING: Final = _READING | {
    FrameType.PUT,
    FrameType.DATA,
    FrameType.COMMIT,
    FrameType.ABORT,
    FrameType.DELETE,
    FrameType.SYNC,
    FrameType.REMOVE_ABANDONED,
}
_REQUESTS: Final = {
    "agent": _ADDING,
    "operator": _READING,
    "director": _ADDING | {FrameType.VOUCH, FrameType.METRICS, FrameType.OWNERS},
    "local": frozenset(FrameType),
}
_ADDED_KINDS: Final = frozenset(("packs", "index", "snapshots", "leases"))
_WHOLE_SIGHT: Final = frozenset(("operator", "director", "local"))


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of one connection.

    owner: under whose name what it adds is entered, "" for the appliance. view: of which agent it
    sees what is visible, None for everything. snapshot: the only one it sees, "" for all. ticket:
    the only restore ticket it sees.
    """

    role: str
    owner: str
    view: str | None
    read_only: bool = False
    snapshot: str = ""
    ticket: str = ""

    @property
    def is_appliance(self) -> bool:
        """Whether what it adds needs nobody's vouching."""
        return self.owner == ""

    def require_request(self, frame_type: FrameType) -> None:
        """RightError when this kind of request is not for this peer."""
        allowed = _READING if self.read_only else _REQUESTS[self.role]
        if frame_type not in allowed:
            raise RightError(f"{self._shown()} may not ask for {frame_type.name.lower()} here")

    def require_adding(self, kind: Kind, name: str, mode: PutMode, book: Provenance) -> None:
        """RightError when an object of this kind or name is not for this peer to add.

        ObjectMissingError when it renews a lease that has gone.
        """
        if self.role == "local":
            return
        if kind not in _ADDED_KINDS:
            raise RightError(f"{self._shown()} may not add {kind}")
        if kind == "leases" and name == SWEEP_LEASE:
            raise RightError(f"the lease {name} is that of maintenance")
        if mode == "replace" and kind == "leases" and book.standing(kind, name) is None:
            # Removed as abandoned: it must not come back by being renewed.
            raise ObjectMissingError(f"the lease {name} is missing")
        if mode == "replace" and not (kind == "leases" and book.is_held(kind, name, self.owner)):
            raise RightError(f"{self._shown()} may replace its own leases only")

    def sees(self, kind: Kind, name: str, book: Provenance) -> bool:
        """Whether an object is there for this peer."""
        if kind == "tickets" and not self._sees_all_tickets:
            return self.ticket != "" and name == self.ticket
        if self.snapshot and kind == "snapshots" and name != self.snapshot:
            return False
        if self.view is None or kind in ("config", "tombstones"):
            return book.standing(kind, name) != FALSE
        if kind == "keys":
            return False
        standing = book.standing(kind, name)
        if kind in ("packs", "index") and standing == VOUCHED:
            return True
        return standing not in (None, FALSE) and book.is_held(kind, name, self.view)

    def hidden_or_seen(self, kind: Kind, book: Provenance) -> tuple[set[str], set[str] | None]:
        """Names of a kind that this peer does not see, and those it does; None: all others."""
        false = book.of_standing(kind, FALSE)
        if kind == "tickets" and not self._sees_all_tickets:
            return false, {self.ticket} - {""}
        if self.snapshot and kind == "snapshots":
            return false, {self.snapshot}
        if self.view is None or kind in ("config", "tombstones"):
            return false, None
        if kind == "keys":
            return false, set()
        seen = book.held(kind, self.view)
        if kind in ("packs", "index"):
            seen |= book.of_standing(kind, VOUCHED)
        return false, seen

    @property
    def _sees_all_tickets(self) -> bool:
        return self.role == "local" and self.view is None

    def _shown(self) -> str:
        return f"{self.role} {self.owner}".rstrip()


def rights_of(peer: Peer, view_as: str, grant: dict[str, object] | None) -> Rights:
    """The rights of a peer that asks for a view, or shows a grant. Raises RightError.

    `grant`: what a verified statement says.
    """
    if peer.role not in _REQUESTS:
        raise RightError(f"a {peer.role} has no business here")
    if grant is not None:
        owner, snapshot = grant.get("owner"), grant.get("snapshot")
        if grant.get("agent") != peer.name or peer.role != "agent":
            raise RightError(f"this grant is not for {peer.role} {peer.name}")
        if not isinstance(owner, str) or not isinstance(snapshot, str) or not owner or not snapshot:
            raise RightError("this grant names no snapshot of anybody")
        ticket = grant.get("ticket", "")
        return Rights(
            peer.role,
            peer.name,
            owner,
            read_only=True,
            snapshot=snapshot,
            ticket=ticket if isinstance(ticket, str) else "",
        )
    if view_as:
        if peer.role not in ("director", "local"):
            raise RightError(f"{peer.role} {peer.name} may not see what {view_as} sees")
        return Rights(peer.role, "", view_as, read_only=True)
    if peer.role in _WHOLE_SIGHT:
        return Rights(peer.role, "", None)
    return Rights(peer.role, peer.name, peer.name)
