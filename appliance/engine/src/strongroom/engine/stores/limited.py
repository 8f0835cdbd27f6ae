"""A store with a bandwidth limit in bytes a second, on writes and reads.

Only object content counts; listing, `info` and deletions are free. The limit itself is a `Limiter`,
which may be shared by processes and changed while they work: a `SharedBucket`.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol, TypeVar

from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.engine.stores.capabilities import ConnectsAhead, passed_on
from strongroom.engine.stores.store import Kind, ObjectInfo, Store, Writer

_Capability = TypeVar("_Capability")


class Limiter(Protocol):
    """Decides when bytes may be sent. Safe from any thread and, after a fork, any process."""

    def take(self, size_bytes: int) -> None:
        """Block until `size_bytes` may be transferred."""


class LimitedStore:
    """`inner`, slowed down by `limiter`; thread safety is the inner store's.

    reading: the limiter of what is read, where it has one of its own.
    """

    def __init__(self, inner: Store, limiter: Limiter, reading: Limiter | None = None) -> None:
        self._inner = inner
        self._limiter = limiter
        self._reading = limiter if reading is None else reading

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
        self._reading.take(len(data))
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

    def unverified(self, kind: Kind) -> frozenset[str]:
        """As the inner store."""
        return self._inner.unverified(kind)

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        """The inner store's; copies made ahead share the limit."""
        if wanted is ConnectsAhead:
            connecting = self._inner.capability(ConnectsAhead)
            if connecting is None:
                return None
            ahead = _LimitedAhead(connecting, self._limiter, self._reading)
            return ahead if isinstance(ahead, wanted) else None
        return passed_on(self._inner, wanted)

    def reopen(self) -> LimitedStore:
        """The inner store for a forked process, with the same limit."""
        return LimitedStore(self._inner.reopen(), self._limiter, self._reading)

    def close(self) -> None:
        """As the inner store."""
        self._inner.close()


class _LimitedAhead:
    """A `ConnectsAhead` whose copies are limited."""

    __slots__ = ("_inner", "_limiter", "_reading")

    def __init__(self, inner: ConnectsAhead, limiter: Limiter, reading: Limiter) -> None:
        self._inner = inner
        self._limiter = limiter
        self._reading = reading

    def connect_ahead(self, copies: int) -> None:
        self._inner.connect_ahead(copies)

    def copy_ahead(self) -> LimitedStore | None:
        copy = self._inner.copy_ahead()
        return None if copy is None else LimitedStore(copy, self._limiter, self._reading)


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


# A bandwidth limit that the processes of one job share and that may change while they run.
#
# The bucket holds a debt that shrinks with time: a caller that takes bytes waits until the debt of
# others is nearly paid, then adds its own. So the rate holds over any second or so, however large
# single blocks are, and a new limit applies at once to waiting callers.
#
# The state is in memory shared with forked processes. A record lock of the kernel guards it
# between processes (and is released when a process dies), `_lock` between threads of one.

# Limit in bytes a second (0: none), debt in bytes, time of that debt, and all bytes ever taken.
_STATE: Final = struct.Struct("<QddQ")
_TAKEN_AT: Final = 24


class _State(NamedTuple):
    limit_bytes_per_second: int
    debt_bytes: float
    seconds: float
    taken_bytes: int


# The debt may reach this many seconds of the limit.
_MOMENT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 0.1


class SharedBucket:
    """Create it before forking; it is a `Limiter`."""

    def __init__(self, bytes_per_second: int) -> None:
        self._file = os.memfd_create("strongroom-limit")
        os.ftruncate(self._file, _STATE.size)
        self._memory = mmap.mmap(self._file, _STATE.size)
        self._lock = threading.Lock()
        _STATE.pack_into(self._memory, 0, bytes_per_second, 0.0, clock.elapsed_seconds(), 0)

    def set_limit(self, bytes_per_second: int) -> None:
        """Change the limit for all processes, and clear the debt; 0 is none.

        It is called where a signal may have interrupted `take`, so it takes no lock: a concurrent
        `take` may count its bytes by the old limit.
        """
        struct.pack_into("<Qd", self._memory, 0, bytes_per_second, 0.0)

    def take(self, size_bytes: int) -> None:
        """Return when `size_bytes` may be sent."""
        while True:
            with self._lock:
                wait_seconds = self._try(size_bytes)
            if not wait_seconds:
                return
            time.sleep(min(wait_seconds, _LONGEST_WAIT_SECONDS))

    @property
    def taken_bytes(self) -> int:
        """The bytes that all processes have taken so far."""
        (taken,) = struct.unpack_from("<Q", self._memory, _TAKEN_AT)
        return int(taken)

    def _try(self, size_bytes: int) -> float:
        """0 when the bytes were counted, else how long to wait before the next try."""
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            limit, debt, then, taken = _State._make(_STATE.unpack_from(self._memory))
            now = clock.elapsed_seconds()
            debt = max(0.0, debt - (now - then) * limit) if limit else 0.0
            excess = debt - limit * _MOMENT_SECONDS
            if excess <= 0:
                debt += size_bytes if limit else 0
                taken += size_bytes
            struct.pack_into("<ddQ", self._memory, 8, debt, now, taken)
            return max(0.0, excess / limit) if limit else 0.0
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
