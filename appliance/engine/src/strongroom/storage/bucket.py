"""A repository in an object store that a storage daemon serves: `Archive Device = s3://...`.

The daemon alone has the access keys, from its environment or its user's files; what it tells and
promises agents is the same as in front of a folder. Its own state, the owner list and the clock, is
in a folder of this machine. If that is lost, the list is made anew from what the bucket holds.

An object is gathered in a file without a name, in that folder, until it is complete, and then sent
whole. All connections share the client of the object store, and the memory for what is being sent.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

from typing_extensions import Buffer

from strongroom.base.errors import (
    ObjectMissingError,
    RepositoryNotFoundError,
    StoreError,
    UsageError,
)
from strongroom.engine.repository.configuration import decode_config
from strongroom.engine.stores.object_lock import LockRule
from strongroom.engine.stores.place import BucketLocation, place_of
from strongroom.engine.stores.s3_client import S3Client
from strongroom.engine.stores.s3_store import S3Store
from strongroom.engine.stores.servable import Space, WritingWay
from strongroom.engine.stores.store import Kind
from strongroom.net.storage.protocol import LARGEST_PART_BYTES

# Smaller objects need no file.
_IN_MEMORY_BYTES: Final = 1 << 20
# What the objects that are being sent at the same time take; a larger one is sent alone.
_SENT_AT_ONCE_BYTES: Final = 256 << 20
# What is fetched at once for a client that reads more than fits into one frame.
_FETCHED_BYTES: Final = 2 * LARGEST_PART_BYTES


class Bucket:
    """What the connections of a daemon to one repository share. Raises UsageError."""

    def __init__(self, text: str, folder: bytes) -> None:
        """`folder`: of the daemon's state for it."""
        place = place_of(text)
        if not isinstance(place, BucketLocation):
            raise UsageError(f"{text} is not in an object store")
        self.place = place
        self.folder = folder
        self.client = S3Client(place)
        # As the configuration says; known once there is a repository.
        self._rule: LockRule | None = None
        self._room = threading.Condition()
        self._sent_bytes = 0

    def open(self) -> ServableBucket:
        """A store for one connection."""
        store = ServableBucket(self)
        if self._rule is not None:
            store.lock_by(self._rule)
        return store

    def holds_repository(self) -> bool:
        """Whether there is a repository, in a store that keeps its promises.

        Raises StoreError where it breaks one, or does not answer; DamageError, UnknownFormatError.
        """
        store = self.open()
        try:
            data = store.get("config", "config")
        except (ObjectMissingError, RepositoryNotFoundError):
            return False
        store.prove()
        self._rule = decode_config(data).config.lock_rule
        if self._rule is not None:
            self.open().prove()
        return True

    @contextmanager
    def sending(self, size_bytes: int) -> Iterator[None]:
        """Wait until an object of this size may be held in memory."""
        with self._room:
            while self._sent_bytes and self._sent_bytes + size_bytes > _SENT_AT_ONCE_BYTES:
                self._room.wait()
            self._sent_bytes += size_bytes
        try:
            yield
        finally:
            with self._room:
                self._sent_bytes -= size_bytes
                self._room.notify_all()


class ServableBucket(S3Store):
    """A `strongroom.engine.stores.servable.ServableStore`."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket.place, bucket.client)
        self._bucket = bucket

    def incoming(self, kind: Kind, way: WritingWay | None = None) -> IncomingToBucket:
        """Begin an object; its own way of writing is the only one."""
        del way
        return IncomingToBucket(self, self._bucket, kind)

    @contextmanager
    def outgoing(self, kind: Kind, name: str) -> Iterator[OutgoingFromBucket]:
        """An object to read from."""
        yield OutgoingFromBucket(self, kind, name, self.info(kind, name).size_bytes)

    def space(self) -> Space | None:
        """None: a bucket has no end."""
        return None

    def reopen(self) -> ServableBucket:
        """The same for another connection."""
        return self._bucket.open()

    def close(self) -> None:
        """The client is that of all connections."""


class IncomingToBucket:
    """A `strongroom.engine.stores.servable.IncomingObject`."""

    def __init__(self, store: ServableBucket, bucket: Bucket, kind: Kind) -> None:
        self._store = store
        self._bucket = bucket
        self._kind: Kind = kind
        self._size_bytes = 0
        self._buffer = bytearray()
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - until `abort`
            _IN_MEMORY_BYTES, dir=os.fsdecode(bucket.folder)
        )

    def write(self, data: Buffer) -> None:
        """Append `data`."""
        try:
            self._size_bytes += self._file.write(memoryview(data).cast("B"))
        except OSError as error:
            raise self._failure(error) from error

    def room(self, most_bytes: int) -> memoryview:
        """A view to fill with the next bytes."""
        if len(self._buffer) < most_bytes:
            self._buffer = bytearray(most_bytes)
        return memoryview(self._buffer)[:most_bytes]

    def advance(self, count: int) -> None:
        """Append the first `count` bytes of the latest `room`."""
        self.write(memoryview(self._buffer)[:count])

    def sync(self) -> None:
        """What is sent is on stable storage when the object store answers."""

    def publish(self, name: str, *, durable: bool = False) -> bool:
        """Send it, unless the name is taken."""
        del durable
        with self._bucket.sending(self._size_bytes):
            return self._store.create(self._kind, name, self._content())

    def publish_over(self, name: str) -> None:
        """Send it, replacing the object that has the name."""
        with self._bucket.sending(self._size_bytes):
            self._store.replace(self._kind, name, self._content())

    def abort(self) -> None:
        """Drop the data."""
        # On a full disk it fails to write what it still holds, and is closed all the same.
        with suppress(OSError):
            self._file.close()

    def _content(self) -> bytes:
        try:
            self._file.seek(0)
            return self._file.read()
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> StoreError:
        return StoreError(
            f"could not gather an object in {os.fsdecode(self._bucket.folder)} "
            f"(Working Directory): {error.strerror}; free space there, then run the same command "
            "again"
        )


class OutgoingFromBucket:
    """A `strongroom.engine.stores.servable.OutgoingObject`: read by ranges."""

    descriptor = None

    def __init__(self, store: ServableBucket, kind: Kind, name: str, size_bytes: int) -> None:
        self._store = store
        self._kind: Kind = kind
        self._name = name
        self.size_bytes = size_bytes
        self._fetched = b""
        self._fetched_at = 0

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`."""
        start = offset - self._fetched_at
        if start < 0 or start + length > len(self._fetched):
            wanted = length if length < LARGEST_PART_BYTES else _FETCHED_BYTES
            wanted = max(length, min(wanted, self.size_bytes - offset))
            self._fetched = self._store.get(self._kind, self._name, offset, wanted)
            self._fetched_at, start = offset, 0
        return self._fetched[start : start + length]
