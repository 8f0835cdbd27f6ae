"""A store whose clock is wrong, for leases and snapshots of another day."""

from __future__ import annotations

from kit.passing_store import PassingStore
from strongroom.engine.stores.store import Kind, ObjectInfo, Store


class ShiftedStore(PassingStore):
    """`inner`, whose objects it says were modified `by_ns` later than they were."""

    def __init__(self, inner: Store, by_ns: int) -> None:
        super().__init__(inner, lambda _: None)
        self._by_ns = by_ns

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        found = super().info(kind, name)
        return found._replace(modified_ns=found.modified_ns + self._by_ns)
