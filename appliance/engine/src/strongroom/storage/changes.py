"""What one connection adds to a repository, and removes: uploads, leases, commits, deletions.

For the thread of the connection. A snapshot of an agent is stored only while the agent holds a
lease, and removed again if the lease went meanwhile: a prune that took the agent for dead removed
the lease before it listed snapshots, so at least one of the two sees the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import (
    DamageError,
    LeaseError,
    ObjectMissingError,
    ProtocolError,
    QuotaError,
    RightError,
    StoreError,
)
from strongroom.engine.content.digests import is_object_name
from strongroom.engine.repository.leases import EXPIRY_SECONDS, MOST_AGE_SECONDS
from strongroom.engine.stores.capabilities import HoldsReserve
from strongroom.engine.stores.servable import ServableStore
from strongroom.engine.stores.store import Kind
from strongroom.net.storage.frames import Frame
from strongroom.net.storage.protocol import (
    DIGESTED_KINDS,
    CommitUpload,
    ObjectName,
    PutMode,
    PutObject,
    UploadData,
    decode,
)
from strongroom.storage.incoming_payload import Incoming
from strongroom.storage.owner_list import FALSE, VERIFIED, OwnerList
from strongroom.storage.rights import StorageRights
from strongroom.storage.served_repository import ServedRepository
from strongroom.storage.settings import StorageLimits
from strongroom.storage.trusted_clock import span_text
from strongroom.storage.uploads import Upload, UploadSlots

log = logging.getLogger("strongroom.storage")

_SMALL_KINDS: Final = frozenset(("config", "leases", "keys", "tombstones"))
# How long an agent may remove a snapshot again that it has just stored.
_UNDO_SECONDS: Final = 600.0


class Changes:
    """Requests that change a repository. Each method does a request and returns its answer, if any.

    shown: the peer, for the log. take_turn: called with the size of incoming data. places:
    for the uploads of the peer.
    """

    def __init__(
        self,
        served: ServedRepository,
        store: ServableStore,
        rights: StorageRights,
        limits: StorageLimits,
        shown: str,
        take_turn: Callable[[int], None],
        places: UploadSlots,
    ) -> None:
        self._served = served
        self._store = store
        self._rights = rights
        self._limits = limits
        self._shown = shown
        self._take_turn = take_turn
        self._places = places
        self._uploads: dict[int, Upload] = {}
        self._undo: dict[str, float] = {}
        # Whether the object that is being named has its entry already.
        self._is_claimed = False
        # Maintenance frees space, for which it needs some on a full disk.
        self._reserve = store.capability(HoldsReserve) if rights.role == "local" else None

    @property
    def _owner_list(self) -> OwnerList:
        return self._served.owner_list

    @property
    def has_uploads(self) -> bool:
        """Whether an upload is open."""
        return bool(self._uploads)

    def close(self) -> None:
        """Drop open uploads."""
        if self._reserve is not None:
            self._reserve.make_reserve()
        uploads, self._uploads = self._uploads, {}
        for upload in uploads.values():
            try:
                upload.abort()
            except StoreError as error:
                # Left-over temporary files are removed when the daemon starts again.
                log.error("%s: %s", self._shown, error)  # noqa: TRY400 - it says enough

    def put(self, frame: Frame) -> bool:
        """Store a small object; returns whether its name was free."""
        header = decode(frame.header, PutObject)
        if self._reserve is not None and header.kind == "leases":
            self._reserve.release_reserve()
        upload = self._new_upload(header.kind)
        self._take_turn(len(frame.payload))
        upload.write(frame.payload)
        return self._name(upload, header.name, header.mode)

    def data(self, frame: Frame, payload: Incoming) -> None:
        """Receive more of an upload."""
        header = decode(frame.header, UploadData)
        upload = self._uploads.get(header.number)
        if upload is None:
            if len(self._uploads) >= self._limits.uploads:
                raise ProtocolError(f"more than {self._limits.uploads} uploads at once")
            upload = self._uploads[header.number] = self._new_upload(header.kind)
        self._take_turn(payload.left_bytes)
        upload.receive(payload)

    def commit(self, frame: Frame) -> bool:
        """Give an upload its name; returns whether that was free."""
        header = decode(frame.header, CommitUpload)
        upload = self._uploads.pop(header.number, None)
        if upload is None:
            raise ProtocolError(f"no data was sent of upload {header.number}")
        return self._name(upload, header.name, header.mode)

    def abort(self, frame: Frame) -> None:
        """Drop an upload."""
        upload = self._uploads.pop(decode(frame.header, int), None)
        if upload is not None:
            upload.abort()

    def delete(self, frame: Frame) -> str:
        """Remove an object; returns which, "" where there is nothing to tell. Raises RightError."""
        wanted = decode(frame.header, ObjectName)
        kind, name = wanted.kind, wanted.name
        undone = kind == "snapshots" and self._undo.pop(name, 0.0) > clock.elapsed_seconds()
        own_lease = kind == "leases" and self._rights.owns(kind, name, self._owner_list)
        if self._rights.role != "local" and not undone and not own_lease:
            if kind == "leases":
                # Released already, removed by a prune, or another's, which it does not see.
                return ""
            raise RightError(f"{self._shown} may not delete {kind} {name}: only maintenance may")
        if kind == "snapshots" and not undone and self._owner_list.standing(kind, name) != FALSE:
            self._require_old(name)
        self._remove(kind, name)
        return "" if kind == "leases" else f"{kind} {name}"

    def _new_upload(self, kind: Kind) -> Upload:
        largest = self._limits.object_bytes
        if kind in _SMALL_KINDS:
            largest = self._limits.small_object_bytes
        rights, quotas = self._rights, self._served.quotas
        return Upload(self._store, kind, rights, quotas, largest, self._places)

    def _name(self, upload: Upload, name: str, mode: PutMode) -> bool:
        """Finish an upload; returns whether the name was free."""
        kind = upload.kind
        try:
            self._rights.require_adding(kind, name, mode, self._owner_list)
            self._require_fit(kind, name)
            if self._rights.is_agent and mode != "replace":
                self._served.quotas.require_place(self._rights.client, self._rights.owner)
            is_renewal = kind == "leases" and mode == "replace"
            renewed_ns = self._time_ns("leases", name) if is_renewal else None
            if (
                is_renewal
                and renewed_ns is None
                and self._owner_list.standing(kind, name) is not None
            ):
                # Removed by another process since its holder checked: do not restore it.
                self._remove(kind, name)
                raise ObjectMissingError(f"the lease {name} is missing")
            if is_renewal and self._rights.is_bounded:
                self._require_young(name)
            size = upload.size_bytes
            self._is_claimed = False
            claim = partial(self._claim, upload, name)
            was_free = upload.commit(
                self._store, name, mode, claim, is_digest=kind in DIGESTED_KINDS
            )
            if renewed_ns is not None:
                self._require_in_time(name, renewed_ns, upload)
        finally:
            upload.abort()
        if not was_free:
            upload.release()
            if mode == "new":
                return False
        client = upload.client
        self._enter(kind, name, size, client, is_new=was_free, is_replaced=mode == "replace")
        if kind == "snapshots":
            # An older one cannot be taken back: it is not what was just stored.
            is_new = was_free and mode != "replace"
            if is_new:
                self._undo[name] = clock.elapsed_seconds() + _UNDO_SECONDS
            self._confirm_lease(name, is_new=is_new)
        if mode in ("durable", "replace"):
            self._owner_list.sync()
        return was_free

    def _claim(self, upload: Upload, name: str) -> None:
        """Record an upload that no one has verified before it has its name."""
        kind, rights = upload.kind, self._rights
        # One that is there already keeps its entry, or has none and is trusted: the bytes are its.
        # Leases are not verified.
        if rights.is_appliance or kind not in DIGESTED_KINDS or self._time_ns(kind, name):
            return
        now_ns = self._served.time.now_ns()
        size, client = upload.size_bytes, upload.client
        self._is_claimed = self._owner_list.claim(kind, name, size, rights.owner, client, now_ns)

    def _enter(
        self,
        kind: Kind,
        name: str,
        size: int,
        client: bytes,
        *,
        is_new: bool,
        is_replaced: bool,
    ) -> None:
        """Record an object that has its name now. Raises RightError where it is another's.

        Anyone who gave it its name is its owner. Somebody who stores the same bytes later gains
        nothing by that: neither sight of the object nor the right to remove it.
        """
        owner, owner_list = self._rights.owner, self._owner_list
        now_ns = self._served.time.now_ns()
        if is_replaced:
            if charged := owner_list.replaced(kind, name, size, owner, client, now_ns):
                self._served.quotas.release(*charged)
        elif is_new:
            if not self._is_claimed:
                verified = self._rights.is_appliance
                owner_list.record(kind, name, size, owner, client, now_ns, verified=verified)
            self._served.quotas.count_objects(client, 1)
        elif self._rights.is_appliance:
            owner_list.judge(kind, (name,), VERIFIED)
        elif self._rights.is_agent and owner_list.client(kind, name) != client:
            raise RightError(f"{kind} {name} was stored by another client, and stays theirs")

    def _require_fit(self, kind: Kind, name: str) -> None:
        if kind in DIGESTED_KINDS and not is_object_name(name):
            raise DamageError(f"{name!r} is not a valid name for an object of {kind}")
        if self._owner_list.standing(kind, name) == FALSE:
            raise DamageError(f"{kind} {name} was found false before and is not accepted")
        owner = self._rights.owner
        if not self._rights.is_agent:
            return
        if kind == "leases":
            held = self._owner_list.owned("leases", owner, self._rights.client)
            if name not in held and len(held) >= self._limits.leases_each:
                held = {one for one in held if self._is_there("leases", one)}
            if name not in held and len(held) >= self._limits.leases_each:
                raise QuotaError(f"{owner} holds {len(held)} leases already")
        if kind == "snapshots" and not self._holds_lease():
            raise LeaseError("snapshots are accepted only with a lease; run the same command again")

    def _remove(self, kind: Kind, name: str) -> None:
        self._store.delete(kind, name)
        if gone := self._owner_list.forget(kind, name):
            self._served.quotas.release(*gone)
            self._served.quotas.count_objects(gone[0], -1)

    def _time_ns(self, kind: Kind, name: str) -> int | None:
        """Since when the store has an object, None when it does not have it."""
        try:
            return self._store.info(kind, name).modified_ns
        except ObjectMissingError:
            return None

    def _require_in_time(self, name: str, renewed_ns: int, upload: Upload) -> None:
        """Refuse the renewal of an expired lease: its holder may commit without checking."""
        # Both are file times, so a wrong clock does not make a lease look valid.
        now_ns = self._time_ns("leases", name)
        if now_ns is not None and now_ns - renewed_ns <= EXPIRY_SECONDS * SECOND_NS:
            return
        upload.release()
        self._remove("leases", name)
        raise LeaseError(
            f"the lease {name} of this job has expired (it was not renewed in time), so the data "
            "it refers to may have been removed; nothing was committed: run the same command again"
        )

    def _require_young(self, name: str) -> None:
        """Refuse to renew a lease that was first stored too long ago, whatever it says itself.

        One that is renewed forever would keep prune from freeing space.
        """
        since_ns = self._owner_list.stored_ns("leases", name)
        age_ns = 0 if since_ns is None else self._served.time.now_ns() - since_ns
        if age_ns <= MOST_AGE_SECONDS * SECOND_NS:
            return
        self._remove("leases", name)
        raise LeaseError(
            f"the lease {name} of this job has ended: it was held for "
            f"{MOST_AGE_SECONDS / 86400:.0f} days, and no client may hold one longer; nothing was "
            "committed: run the same command again"
        )

    def _confirm_lease(self, name: str, *, is_new: bool) -> None:
        if self._rights.is_agent and not self._holds_lease():
            if is_new:
                self._undo.pop(name, None)
                self._remove("snapshots", name)
            raise LeaseError(
                "the lease of this job expired while it committed; the commit was taken back: run "
                "the same command again"
            )

    def _holds_lease(self) -> bool:
        held = self._owner_list.owned("leases", self._rights.owner, self._rights.client)
        return any(self._is_there("leases", name) for name in held)

    def _is_there(self, kind: Kind, name: str) -> bool:
        """Whether an object of the database exists: other maintenance removes objects too."""
        try:
            self._store.info(kind, name)
        except ObjectMissingError:
            self._owner_list.forget(kind, name)
            return False
        return True

    def _require_old(self, name: str) -> None:
        # The daemon's current value: connections may be older than its configuration.
        minimum = self._served.limits.minimum_retention_seconds
        stored_ns = self._owner_list.stored_ns("snapshots", name) if minimum else None
        if minimum and stored_ns is None:
            # It has no entry, so only the file's time says since when it is there.
            stored_ns = self._time_ns("snapshots", name)
        if not minimum or stored_ns is None:
            return
        age_seconds = (self._served.time.now_ns() - stored_ns) / SECOND_NS
        if age_seconds < minimum:
            ahead_ns = self._served.time.ahead_ns()
            doubt = (
                f"; the clock of that machine is {span_text(ahead_ns)} ahead of what is plausible "
                "and is not trusted: correct it, or have root confirm it there with `strongroom "
                "storage --confirm-clock`"
            )
            raise RightError(
                f"snapshot {name} is {age_seconds / 86400:.1f} days old, and nothing younger than "
                f"{minimum / 86400:.1f} days is deleted (Minimum Retention of the storage daemon)"
                f"{doubt if ahead_ns else ''}"
            )
