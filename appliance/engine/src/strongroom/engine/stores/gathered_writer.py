"""A writer for stores to which an object is sent whole: it is gathered in memory until then.

The threads that finish packs send several at once, so memory is bounded by how many they finish.
"""

from __future__ import annotations

from typing import Protocol

from typing_extensions import Buffer

from strongroom.base.errors import DamageError
from strongroom.engine.stores.store import Kind, ObjectInfo


class StoresWhole(Protocol):
    """A store that takes whole objects."""

    def create(self, kind: Kind, name: str, data: bytes | bytearray) -> bool:
        """Give an object its name unless that is taken."""

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """Size of an object and when it was stored."""


class GatheredWriter:
    """A `strongroom.engine.stores.store.Writer`."""

    def __init__(self, store: StoresWhole, kind: Kind) -> None:
        self._store = store
        self._kind: Kind = kind
        self._data = bytearray()

    def write(self, data: Buffer) -> None:
        """Append `data`."""
        self._data += memoryview(data).cast("B")

    def commit(self, name: str) -> None:
        """Publish under `name`; if that object exists already, drop this one."""
        data, self._data = self._data, bytearray()
        if self._store.create(self._kind, name, data):
            return
        size = self._store.info(self._kind, name).size_bytes
        if size != len(data):
            raise DamageError(
                f"{self._kind} {name} has {size} bytes instead of {len(data)}: run repair"
            )

    def abort(self) -> None:
        """Drop what was written."""
        self._data = bytearray()
