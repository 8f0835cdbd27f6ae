"""Uploads: written to the store as data arrives, digested, counted, then named.

An upload belongs to one connection and its thread. A failure is kept until the commit and is its
answer; data that still arrives for the upload is discarded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from blake3 import blake3

from strongroom.content.digests import object_name
from strongroom.daemons.storage.incoming_payload import PIECE_BYTES
from strongroom.errors import (
    ConnectionLostError,
    DamageError,
    PeerRefusedError,
    QuotaError,
    StoreError,
    StrongroomError,
    UsageError,
)
from strongroom.stores.servable import WritingWay

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from strongroom.daemons.storage.accounts import Quotas
    from strongroom.daemons.storage.incoming_payload import Incoming
    from strongroom.net.storage.protocol import PutMode
    from strongroom.stores.servable import IncomingObject, ServableStore
    from strongroom.stores.store import Kind


class UploadPlaces(Protocol):
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
        owner: str,
        quotas: Quotas,
        largest_bytes: int,
        places: UploadPlaces | None = None,
    ) -> None:
        """`places`: where it gets its buffers and writing threads, if it is one of many."""
        self.kind: Kind = kind
        self.size_bytes = 0
        self._owner = owner
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
                self._hasher.update(room)
                self._writer.advance(len(room))
        except (ConnectionLostError, PeerRefusedError):
            raise
        except StrongroomError as error:
            self._give_up()
            self._failure = error

    def commit(self, store: ServableStore, name: str, mode: PutMode, *, is_digest: bool) -> bool:
        """Give the object its name in one of the modes of PutMode; returns whether it was free.

        `is_digest`: the name must be the digest of the content. Raises earlier failures, and
        DamageError for a wrong name.
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
        self._quotas.release(self._owner, self.size_bytes)

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
        self._quotas.reserve(self._owner, size_bytes)
        self.size_bytes += size_bytes

    def _give_up(self) -> None:
        self._quotas.release(self._owner, self.size_bytes)
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
