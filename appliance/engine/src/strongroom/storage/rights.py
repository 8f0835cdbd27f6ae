"""Access rules: what each role may do and see, if the configuration names it (see `admission`).

- An agent is a client; its certificate has the client's id. It sees the packs, index objects,
snapshots, leases and tombstones of that client, also those that the appliance stored for it,
packs, index and tombstones that are shared, and the configuration; nothing of other clients. It
adds packs, index objects and its own snapshots, and adds, renews and releases leases that it
made. It deletes nothing else.
- An agent with a grant sees what the client named in the grant sees, but of snapshots only the one
that the grant names, and the restore ticket that it names, and only reads. One that
`Restore Clients` names needs one.
- An operator sees everything but the wrapped restore keys, and does what its verbs say: at most
reading.
- A director sees everything, adds as an agent does, marks objects as verified, and may see what
an agent sees.
- Append-only (`strongroom serve`) sees everything but tickets, adds as a director does, for all
clients, and takes back what it has just stored; it judges nothing.
- Local, that is root and the daemon's own user at the Unix socket: everything.

Everything excludes objects that were found false, which no one sees (but directors and local peers
see false snapshots, to tell of them and to remove them), and restore tickets, which only local
peers see and the agent whose grant names one. The wrapped restore keys (`keys`) are for directors
and local peers alone: anyone who has one may guess its passphrase. Whether something was verified
shows in nothing that an agent sees: shared objects are the appliance's own. An object that a peer
may not see is reported as missing, with the same message.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from blake3 import blake3

from strongroom.base.errors import ObjectMissingError, RightError
from strongroom.engine.prune.sweep import SWEEP_LEASE
from strongroom.engine.repository.keys.owners import CLIENT_ID_SIZE, SHARED
from strongroom.engine.stores.store import Kind
from strongroom.net.identities.peer import APPEND_ONLY_ROLE, Peer
from strongroom.net.storage.protocol import FrameType, PutMode
from strongroom.storage.admission import READING_VERBS, requests_of
from strongroom.storage.owner_list import FALSE, NO_CLIENT, VERIFIED, OwnerList

_ADDED_KINDS: Final = frozenset(("packs", "index", "snapshots", "leases"))
# Of these there are some that belong to all clients.
_SHARED_KINDS: Final = frozenset(("packs", "index", "tombstones"))
_SECRET_DIGITS: Final = 32
_JOB_PURPOSE: Final = b"strongroom append-only job 1"
_APPLIANCE: Final = frozenset(("director", "local"))
_WHOLE_SIGHT: Final = frozenset(("operator", "director", "local", APPEND_ONLY_ROLE))


@dataclass(frozen=True, slots=True)
class StorageRights:
    """The rights of one connection.

    owner: recorded as the owner of what it adds, "" for the appliance. client: the only one for
    which it adds, NO_CLIENT for all. view: the client whose objects it sees, None for all
    objects. snapshot: the only one it sees, "" for all. ticket: the only restore ticket it sees.
    verbs: of a peer over the network.
    """

    role: str
    owner: str
    client: bytes
    view: bytes | None
    verbs: frozenset[str] = frozenset()
    read_only: bool = False
    snapshot: str = ""
    ticket: str = ""

    @property
    def is_appliance(self) -> bool:
        """Whether what it adds counts as verified."""
        return self.owner == ""

    @property
    def is_agent(self) -> bool:
        """Whether it adds for one client only."""
        return self.role == "agent"

    def require_request(self, frame_type: FrameType) -> None:
        """RightError when this peer may not send this kind of request."""
        if self.role == "local" and not self.read_only:
            return
        verbs = READING_VERBS if self.role == "local" else self.verbs
        if self.read_only:
            verbs &= READING_VERBS
        if frame_type not in requests_of(verbs):
            raise RightError(f"{self._shown()} may not send {frame_type.name.lower()} here")

    def require_adding(self, kind: Kind, name: str, mode: PutMode, owner_list: OwnerList) -> None:
        """RightError when this peer may not add an object of this kind or name.

        ObjectMissingError when it renews a lease that is gone.
        """
        if self.role == "local":
            return
        if kind not in _ADDED_KINDS:
            raise RightError(f"{self._shown()} may not add {kind}")
        if kind == "leases" and name == SWEEP_LEASE:
            raise RightError(f"the lease {name} belongs to maintenance")
        if kind == "leases" and not self.owns(kind, name, owner_list):
            # Another's looks as if it were missing; its bytes are not compared with the new ones.
            if mode == "replace":
                # Or removed as abandoned: a renewal must not restore it.
                raise ObjectMissingError(f"the lease {name} is missing")
            if owner_list.standing(kind, name) is not None:
                raise RightError(f"the lease {name} cannot be stored: choose another name")
        elif mode == "replace" and kind != "leases":
            raise RightError(f"{self._shown()} may replace its own leases only")

    def require_client(self, kind: Kind, client: bytes) -> None:
        """RightError when an object names another client than this agent is, or none."""
        if self.is_agent and (client != self.client or client in (NO_CLIENT, SHARED)):
            whose = "all clients" if client == SHARED else "another client"
            raise RightError(
                f"{self._shown()} may not add {kind} of {whose}: use the put key that came with "
                "its certificate"
            )

    def owns(self, kind: Kind, name: str, owner_list: OwnerList) -> bool:
        """Whether this peer gave the object its name."""
        # The appliance stores in the name of any client.
        client = self.client if self.is_agent else owner_list.client(kind, name)
        return owner_list.is_owned(kind, name, self.owner, client)

    def sees(self, kind: Kind, name: str, owner_list: OwnerList) -> bool:
        """Whether an object is visible to this peer."""
        if kind == "tickets" and not self._sees_all_tickets:
            return self.ticket != "" and name == self.ticket
        if self.snapshot and kind == "snapshots" and name != self.snapshot:
            return False
        if kind == "keys" and not self._sees_keys:
            return False
        if self.view is None or kind == "config":
            return self._sees_false(kind) or owner_list.standing(kind, name) != FALSE
        standing, client = owner_list.standing(kind, name), owner_list.client(kind, name)
        if kind in _SHARED_KINDS and client == SHARED:
            return standing == VERIFIED
        return standing not in (None, FALSE) and client == self.view != NO_CLIENT

    def hidden_or_seen(self, kind: Kind, owner_list: OwnerList) -> tuple[set[str], set[str] | None]:
        """Names of a kind that this peer does not see, and those it sees; None: all others."""
        false = set() if self._sees_false(kind) else owner_list.of_standing(kind, FALSE)
        if kind == "tickets" and not self._sees_all_tickets:
            return false, {self.ticket} - {""}
        if self.snapshot and kind == "snapshots":
            return false, {self.snapshot}
        if kind == "keys" and not self._sees_keys:
            return false, set()
        if self.view is None or kind == "config":
            return false, None
        seen = owner_list.of_client(kind, self.view) if self.view != NO_CLIENT else set()
        if kind in _SHARED_KINDS:
            seen |= owner_list.of_client(kind, SHARED, VERIFIED)
        return false, seen

    @property
    def is_bounded(self) -> bool:
        """Whether its leases end at a certain age: the appliance's are its own business."""
        return not self.is_appliance

    @property
    def _sees_all_tickets(self) -> bool:
        return self.role == "local" and self.view is None

    @property
    def _sees_keys(self) -> bool:
        # A repository behind ssh is opened with its passphrase, by anyone who adds to it.
        return self.view is None and self.role in (*_APPLIANCE, APPEND_ONLY_ROLE)

    def _sees_false(self, kind: Kind) -> bool:
        return kind == "snapshots" and self.view is None and self.role in _APPLIANCE

    def _shown(self) -> str:
        return f"{self.role} {self.owner}".rstrip() if self.role != APPEND_ONLY_ROLE else self.role


def rights_of(
    peer: Peer, verbs: frozenset[str], view_as: str, grant: dict[str, object] | None
) -> StorageRights:
    """The rights of a peer that asks for a view, or presents a grant. Raises RightError.

    Of an agent `as_client` completes them. `verbs`: what the configuration lets it do; local peers
    may do everything. `grant`: the content of a verified statement.
    """
    if peer.role != "local" and not verbs:
        raise RightError(f"{peer} is not named in the configuration of this storage daemon")
    if grant is not None:
        return _granted(peer, verbs, grant)
    if peer.role == "agent" and "add" not in verbs:
        raise RightError(f"{peer} may only connect here with a restore grant of the director")
    if view_as:
        if peer.role not in ("director", "local"):
            raise RightError(f"{peer.role} {peer.name} may not see what {view_as} sees")
        view = _id_of(view_as)
        if view is None:
            raise RightError(f"{view_as} is not an id of a client")
        return StorageRights(peer.role, "", NO_CLIENT, view, verbs, read_only=True)
    if peer.role == APPEND_ONLY_ROLE:
        return StorageRights(peer.role, peer.name, NO_CLIENT, None, verbs)
    if peer.role in _WHOLE_SIGHT:
        return StorageRights(peer.role, "", NO_CLIENT, None, verbs)
    return StorageRights(peer.role, peer.name, NO_CLIENT, NO_CLIENT, verbs)


def as_job(rights: StorageRights, job: str) -> StorageRights:
    """The rights of an append-only peer that may have connected before.

    Connections that know the same secret may renew and release each other's leases. job: the
    secret, made by the client for each job; a name that one could guess is none.
    """
    if rights.role != APPEND_ONLY_ROLE or len(job) < _SECRET_DIGITS:
        return rights
    user = rights.owner.rpartition(" ")[0]
    return replace(rights, owner=f"{user} {blake3(_JOB_PURPOSE + job.encode()).hexdigest(16)}")


def as_client(rights: StorageRights, peer: Peer, repository_id: bytes) -> StorageRights:
    """The rights of a peer in a repository, b"" while there is none yet. Raises RightError."""
    if peer.role != "agent" or not repository_id:
        return rights
    client = peer.client_of(repository_id)
    if client in (NO_CLIENT, SHARED):
        raise RightError(
            f"the certificate of {peer} does not say which client it is in this repository: let "
            "the director name the repository's Appliance Key File, then renew it or enrol it again"
        )
    view = client if rights.view == NO_CLIENT else rights.view
    return replace(rights, client=client, view=view)


def _granted(peer: Peer, verbs: frozenset[str], grant: dict[str, object]) -> StorageRights:
    owner, snapshot = _id_of(grant.get("client")), grant.get("snapshot")
    if grant.get("agent") != peer.name or peer.role != "agent":
        raise RightError(f"this grant is not for {peer.role} {peer.name}")
    if owner is None or not isinstance(snapshot, str) or not snapshot:
        raise RightError("this grant names no snapshot of a client")
    ticket = grant.get("ticket", "")
    return StorageRights(
        peer.role,
        peer.name,
        NO_CLIENT,
        owner,
        verbs,
        read_only=True,
        snapshot=snapshot,
        ticket=ticket if isinstance(ticket, str) else "",
    )


def _id_of(text: object) -> bytes | None:
    """The id of a client, from hexadecimal digits."""
    if isinstance(text, str) and len(text) == 2 * CLIENT_ID_SIZE:
        with suppress(ValueError):
            client = bytes.fromhex(text)
            return client if client != SHARED and len(client) == CLIENT_ID_SIZE else None
    return None
