"""A store that lets a test do something else just before each of its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from strongroom.engine.stores.capabilities import NamesPacks, passed_on
from strongroom.engine.stores.store import Kind, ObjectInfo, Store, Writer

if TYPE_CHECKING:
    from typing_extensions import Buffer

_Capability = TypeVar("_Capability")


class PassingStore:
    """A `strongroom.engine.stores.store.Store`; `before(number)` runs before its n-th operation."""

    def __init__(self, inner: Store, before: Callable[[int], None]) -> None:
        self._inner = inner
        self._before = before
        self.count = 0

    @property
    def location(self) -> str:
        return self._inner.location

    def prepare(self) -> None:
        self._inner.prepare()

    def writer(self, kind: Kind) -> Writer:
        self._pass()
        return self._inner.writer(kind)

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        self._pass()
        self._inner.put(kind, name, data)

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        self._pass()
        return self._inner.put_new(kind, name, data)

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        self._pass()
        self._inner.put_durable(kind, name, data)

    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        self._pass()
        self._inner.replace(kind, name, data)

    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        self._pass()
        return self._inner.get(kind, name, offset, length)

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        self._pass()
        return self._inner.info(kind, name)

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        self._pass()
        return self._inner.list(kind)

    def delete(self, kind: Kind, name: str) -> None:
        self._pass()
        self._inner.delete(kind, name)

    def remove_abandoned(self) -> int:
        self._pass()
        return self._inner.remove_abandoned()

    def sync(self) -> None:
        self._pass()
        self._inner.sync()

    def unverified(self, kind: Kind) -> frozenset[str]:
        """As the inner store."""
        return self._inner.unverified(kind)

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        if wanted is NamesPacks and self._inner.capability(NamesPacks) is not None:
            return self if isinstance(self, wanted) else None
        return passed_on(self._inner, wanted)

    def pack_ids(self) -> bytes:
        self._pass()
        naming = self._inner.capability(NamesPacks)
        assert naming is not None
        return naming.pack_ids()

    def reopen(self) -> Store:
        return self

    def close(self) -> None:
        self._inner.close()

    def _pass(self) -> None:
        self.count += 1
        self._before(self.count)
