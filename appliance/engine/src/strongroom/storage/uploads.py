"""Uploads: written to the store as data arrives, digested, counted, then named.

An upload belongs to one connection and its thread. A failure is kept until the commit and is its
answer; data that still arrives for the upload is discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Protocol

from blake3 import blake3

from strongroom.base.errors import (
    ConnectionLostError,
    DamageError,
    PeerRefusedError,
    QuotaError,
    StoreError,
    StrongroomError,
    UsageError,
)
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.keys.owners import CLIENT_ID_SIZE
from strongroom.engine.stores.servable import IncomingObject, ServableStore, WritingWay
from strongroom.engine.stores.store import Kind
from strongroom.net.storage.protocol import PutMode
from strongroom.storage.accounts import Quotas
from strongroom.storage.incoming_payload import PIECE_BYTES, Incoming
from strongroom.storage.owner_list import NO_CLIENT
from strongroom.storage.rights import StorageRights

# The kinds whose objects say whose they are, and where.
CLIENT_KINDS: Final = frozenset(("packs", "index", "snapshots", "leases", "tombstones"))
CLIENT_START: Final = 8
CLIENT_END: Final = CLIENT_START + CLIENT_ID_SIZE


class UploadSlots(Protocol):
    """The places for uploads of one client."""

    def begin_upload(self) -> int:
        """Take a place; returns the size of its buffers. Raises QuotaError."""

    def end_upload(self, buffer_bytes: int) -> None:
        """Give a place back."""

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Have something written by the threads that all clients share."""


class Upload:
    """One object; `commit` or `abort` ends it."""

    def __init__(
        self,
        store: ServableStore,
        kind: Kind,
        rights: StorageRights,
        quotas: Quotas,
        largest_bytes: int,
        places: UploadSlots | None = None,
    ) -> None:
        """`places`: where it gets its buffers and writing threads, if it is one of many."""
        self.kind: Kind = kind
        self.size_bytes = 0
        self._rights = rights
        self._head = b""
        # Whose quota its bytes count against; of the appliance's that is known once it is there.
        self._charged = rights.client
        self._quotas = quotas
        self._largest_bytes = largest_bytes
        self._hasher = blake3()
        self._failure: StrongroomError | None = None
        self._writer: IncomingObject | None = None
        self._places = places
        self._buffer_bytes = 0
        try:
            way = None
            if places is not None:
                self._buffer_bytes = places.begin_upload()
                way = WritingWay(self._buffer_bytes, places.submit)
            self._writer = store.incoming(kind, way)
        except StrongroomError as error:
            self._leave_place()
            self._failure = error

    def write(self, data: memoryview) -> None:
        """Append `data`; never raises for faults of the client or the disk."""
        if self._failure is not None or self._writer is None:
            return
        try:
            self._reserve(len(data))
            self._writer.write(data)
            self._read_head(data)
            self._hasher.update(data)
        except StrongroomError as error:
            self._give_up()
            self._failure = error

    def receive(self, payload: Incoming) -> None:
        """Append incoming data, received into the write buffer where possible; else as `write`."""
        if self._failure is not None or self._writer is None:
            return
        try:
            self._reserve(payload.left_bytes)
            while payload.left_bytes:
                room = self._writer.room(min(payload.left_bytes, PIECE_BYTES))
                payload.fill(room)
                self._read_head(room)
                self._hasher.update(room)
                self._writer.advance(len(room))
        except (ConnectionLostError, PeerRefusedError):
            raise
        except StrongroomError as error:
            self._give_up()
            self._failure = error

    @property
    def client(self) -> bytes:
        """The client that the object names, as far as it has come; NO_CLIENT if it names none."""
        if self.kind not in CLIENT_KINDS or len(self._head) < CLIENT_END:
            return NO_CLIENT
        return self._head[CLIENT_START:]

    def commit(
        self,
        store: ServableStore,
        name: str,
        mode: PutMode,
        claim: Callable[[], None],
        *,
        is_digest: bool,
    ) -> bool:
        """Give the object its name in one of the modes of PutMode; returns whether it was free.

        `claim`: called when nothing but the disk can prevent it any more. `is_digest`: the name
        must be the digest of the content. Raises earlier failures, DamageError for a wrong name,
        and RightError for an object of another client.
        """
        try:
            if self._failure is not None:
                raise self._failure
            if self._writer is None:
                raise UsageError("this upload has ended")
            if is_digest and self._hasher.hexdigest() != name:
                raise DamageError(
                    f"the content sent as {self.kind} {name} does not match its name; "
                    "nothing was stored"
                )
            if self.kind in CLIENT_KINDS:
                self._rights.require_client(self.kind, self.client)
            self._charge(self.client)
            claim()
            return self._publish(store, self._writer, name, mode)
        except BaseException:
            self._give_up()
            raise
        finally:
            self._end_writing()

    def abort(self) -> None:
        """Drop the data; may be called after `commit`."""
        if self._writer is not None:
            self._give_up()

    def release(self) -> None:
        """Release its share of the quota: its owner had stored the object before."""
        self._quotas.release(self._charged, self.size_bytes)

    def _read_head(self, data: memoryview) -> None:
        if len(self._head) < CLIENT_END:
            self._head += bytes(data[: CLIENT_END - len(self._head)])

    def _charge(self, client: bytes) -> None:
        if client != self._charged:
            self._quotas.count(client, self.size_bytes)
            self._quotas.release(self._charged, self.size_bytes)
            self._charged = client

    def _publish(
        self, store: ServableStore, writer: IncomingObject, name: str, mode: PutMode
    ) -> bool:
        if mode == "replace":
            writer.publish_over(name)
            return True
        if mode != "publish":
            # Otherwise durable only with the next sync, as packs of a local store are.
            writer.sync()
        if writer.publish(name, durable=mode == "durable"):
            return True
        if mode == "publish":
            there = store.info(self.kind, name).size_bytes
            if there != self.size_bytes:
                raise DamageError(
                    f"{self.kind} {name} has {there} bytes instead of {self.size_bytes}: run repair"
                )
        elif mode != "new" and object_name(store.get(self.kind, name)) != self._hasher.hexdigest():
            raise StoreError(f"{self.kind} {name} exists with other content; run check")
        return False

    def _reserve(self, size_bytes: int) -> None:
        if self.size_bytes + size_bytes > self._largest_bytes:
            raise QuotaError(f"an object of {self.kind} has at most {self._largest_bytes} bytes")
        self._quotas.reserve(self._charged, self._rights.owner, size_bytes)
        self.size_bytes += size_bytes

    def _give_up(self) -> None:
        self._quotas.release(self._charged, self.size_bytes)
        self.size_bytes = 0
        self._end_writing()

    def _end_writing(self) -> None:
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                writer.abort()
        finally:
            self._leave_place()

    def _leave_place(self) -> None:
        buffer_bytes, self._buffer_bytes = self._buffer_bytes, 0
        if buffer_bytes and self._places is not None:
            self._places.end_upload(buffer_bytes)
