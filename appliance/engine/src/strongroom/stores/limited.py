"""A store with a bandwidth limit in bytes a second, on writes and reads.

Only object content counts; listing, `info` and deletions are free. The limit itself is a `Limiter`,
which may be shared by processes and changed while they work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from strongroom.stores.capabilities import ConnectsAhead, passed_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from strongroom.stores.store import Kind, ObjectInfo, Store, Writer

_Capability = TypeVar("_Capability")


class Limiter(Protocol):
    """Decides when bytes may be sent. Safe from any thread and, after a fork, any process."""

    def take(self, size_bytes: int) -> None:
        """Block until `size_bytes` may be transferred."""


class LimitedStore:
    """`inner`, slowed down by `limiter`; thread safety is the inner store's."""

    def __init__(self, inner: Store, limiter: Limiter) -> None:
        self._inner = inner
        self._limiter = limiter

    @property
    def location(self) -> str:
        """Where the inner store is."""
        return self._inner.location

    def prepare(self) -> None:
        """As the inner store."""
        self._inner.prepare()

    def writer(self, kind: Kind) -> Writer:
        """A writer whose every `write` waits for the limiter."""
        return _LimitedWriter(self._inner.writer(kind), self._limiter)

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        """As the inner store, limited."""
        self._limiter.take(memoryview(data).nbytes)
        self._inner.put(kind, name, data)

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        """As the inner store, limited."""
        self._limiter.take(memoryview(data).nbytes)
        return self._inner.put_new(kind, name, data)

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        """As the inner store, limited."""
        self._limiter.take(memoryview(data).nbytes)
        self._inner.put_durable(kind, name, data)

    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        """As the inner store, not limited: a lease that is renewed late has expired."""
        self._inner.replace(kind, name, data)

    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """As the inner store; the bytes returned count towards the limit."""
        data = self._inner.get(kind, name, offset, length)
        self._limiter.take(len(data))
        return data

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """As the inner store."""
        return self._inner.info(kind, name)

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        """As the inner store."""
        return self._inner.list(kind)

    def delete(self, kind: Kind, name: str) -> None:
        """As the inner store."""
        self._inner.delete(kind, name)

    def remove_abandoned(self) -> int:
        """As the inner store."""
        return self._inner.remove_abandoned()

    def sync(self) -> None:
        """As the inner store."""
        self._inner.sync()

    def doubted(self, kind: Kind) -> frozenset[str]:
        """As the inner store."""
        return self._inner.doubted(kind)

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        """The inner store's; copies made ahead share the limit."""
        if wanted is ConnectsAhead:
            connecting = self._inner.capability(ConnectsAhead)
            ahead = None if connecting is None else _LimitedAhead(connecting, self._limiter)
            return ahead if isinstance(ahead, wanted) else None
        return passed_on(self._inner, wanted)

    def reopen(self) -> LimitedStore:
        """The inner store for a forked process, with the same limit."""
        return LimitedStore(self._inner.reopen(), self._limiter)

    def close(self) -> None:
        """As the inner store."""
        self._inner.close()


class _LimitedAhead:
    """A `ConnectsAhead` whose copies are limited."""

    __slots__ = ("_inner", "_limiter")

    def __init__(self, inner: ConnectsAhead, limiter: Limiter) -> None:
        self._inner = inner
        self._limiter = limiter

    def connect_ahead(self, copies: int) -> None:
        self._inner.connect_ahead(copies)

    def copy_ahead(self) -> LimitedStore | None:
        copy = self._inner.copy_ahead()
        return None if copy is None else LimitedStore(copy, self._limiter)


class _LimitedWriter:
    __slots__ = ("_inner", "_limiter")

    def __init__(self, inner: Writer, limiter: Limiter) -> None:
        self._inner = inner
        self._limiter = limiter

    def write(self, data: Buffer) -> None:
        self._limiter.take(memoryview(data).nbytes)
        self._inner.write(data)

    def commit(self, name: str) -> None:
        self._inner.commit(name)

    def abort(self) -> None:
        self._inner.abort()
