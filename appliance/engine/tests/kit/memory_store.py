"""A store in memory that a storage daemon can serve: it has no files, so none are sent from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from strongroom.base import clock
from strongroom.base.errors import DamageError, ObjectMissingError, StoreError
from strongroom.engine.stores.capabilities import own_capability
from strongroom.engine.stores.servable import Space
from strongroom.engine.stores.store import KINDS, Kind, ObjectInfo, require_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

_Capability = TypeVar("_Capability")
_Objects = dict[tuple[Kind, str], tuple[bytes, int]]


class MemoryStore:
    """A `strongroom.engine.stores.servable.ServableStore`; `reopen` shares what is stored."""

    def __init__(self, objects: _Objects | None = None) -> None:
        self._objects: _Objects = {} if objects is None else objects
        self._lock = threading.Lock()

    @property
    def location(self) -> str:
        return "memory"

    def prepare(self) -> None:
        """There is nothing to make."""

    def writer(self, kind: Kind) -> MemoryWriter:
        return MemoryWriter(self, kind)

    def incoming(self, kind: Kind, way: object = None) -> MemoryWriter:
        return MemoryWriter(self, kind)

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        if not self.put_new(kind, name, data) and self.get(kind, name) != bytes(data):
            raise StoreError(f"{kind} {name} exists with other content")

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        require_name(kind, name)
        with self._lock:
            if (kind, name) in self._objects:
                return False
            self._objects[kind, name] = (bytes(data), clock.now_ns())
            return True

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        self.put(kind, name, data)

    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        require_name(kind, name)
        self._objects[kind, name] = (bytes(data), clock.now_ns())

    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        with self.outgoing(kind, name) as found:
            return found.read(offset, found.size_bytes - offset if length is None else length)

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        data, modified_ns = self._found(kind, name)
        return ObjectInfo(name, len(data), modified_ns)

    @contextmanager
    def outgoing(self, kind: Kind, name: str) -> Iterator[MemoryObject]:
        yield MemoryObject(self._found(kind, name)[0])

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        for (one, name), (data, modified_ns) in sorted(self._objects.items()):
            if one == kind:
                yield ObjectInfo(name, len(data), modified_ns)

    def delete(self, kind: Kind, name: str) -> None:
        require_name(kind, name)
        self._objects.pop((kind, name), None)

    def remove_abandoned(self) -> int:
        return 0

    def sync(self) -> None:
        """Nothing survives the process, whatever is done."""

    def unverified(self, kind: Kind) -> frozenset[str]:
        return frozenset()

    def space(self) -> Space:
        used = sum(len(data) for data, _ in self._objects.values())
        return Space((1 << 30) - used, 1 << 30)

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        return own_capability(self, wanted)

    def reopen(self) -> MemoryStore:
        return type(self)(self._objects)

    def close(self) -> None:
        """There is nothing to give back."""

    def _found(self, kind: Kind, name: str) -> tuple[bytes, int]:
        assert kind in KINDS
        require_name(kind, name)
        found = self._objects.get((kind, name))
        if found is None:
            raise ObjectMissingError(f"{kind} {name} is missing")
        return found


class MemoryObject:
    """A `strongroom.engine.stores.servable.OutgoingObject`."""

    descriptor = None

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size_bytes = len(data)

    def read(self, offset: int, length: int) -> bytes:
        data = self._data[offset : offset + length]
        if len(data) < length:
            raise DamageError("fewer bytes are there than are wanted")
        return data


class MemoryWriter:
    """A `strongroom.engine.stores.servable.IncomingObject`, and a `Writer`."""

    def __init__(self, store: MemoryStore, kind: Kind) -> None:
        self._store = store
        self._kind = kind
        self._data = bytearray()
        self._room = bytearray()

    def write(self, data: Buffer) -> None:
        self._data += memoryview(data).cast("B")

    def room(self, most_bytes: int) -> memoryview:
        self._room = bytearray(most_bytes)
        return memoryview(self._room)

    def advance(self, count: int) -> None:
        self._data += self._room[:count]

    def sync(self) -> None:
        """Nothing survives the process, whatever is done."""

    def commit(self, name: str) -> None:
        there = None if self.publish(name) else self._store.info(self._kind, name).size_bytes
        if there not in (None, len(self._data)):
            raise DamageError(f"{self._kind} {name} has another length")

    def publish(self, name: str, *, durable: bool = False) -> bool:
        return self._store.put_new(self._kind, name, self._data)

    def publish_over(self, name: str) -> None:
        self._store.replace(self._kind, name, self._data)

    def abort(self) -> None:
        """What was not published is nowhere."""
