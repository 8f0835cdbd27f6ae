"""What a storage daemon needs from a store that it serves, beyond the `Store` protocol.

The daemon digests incoming data before it has a name, publishes it in one of several ways, and
sends objects without copying them where the store has a file. Names, owners and verification
results are the daemon's own business.

Each connection has its own store object, which is used by one thread; its `sync` covers
everything stored through it. Failures are those of `strongroom.engine.stores.store`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from typing_extensions import Buffer

from strongroom.engine.stores.direct_file import Submit
from strongroom.engine.stores.store import Kind, Store


class Space(NamedTuple):
    """Size and free space of the place where a store keeps its objects, in bytes."""

    free_bytes: int
    size_bytes: int


class WritingWay(NamedTuple):
    """How a store writes an object: by which threads, and with how large a buffer (two of them)."""

    buffer_bytes: int
    submit: Submit


class IncomingObject(Protocol):
    """An object being received. `publish`, `publish_over` and `abort` end it."""

    def write(self, data: Buffer) -> None:
        """Append `data`, which may be reused afterwards."""

    def room(self, most_bytes: int) -> memoryview:
        """A view to fill with the next bytes, `most_bytes` at most; then `advance`: no copy."""

    def advance(self, count: int) -> None:
        """Append the first `count` bytes of the latest `room`."""

    def sync(self) -> None:
        """Put what was written on stable storage, so that it is complete before it has a name."""

    def publish(self, name: str, *, durable: bool = False) -> bool:
        """Give it its name unless that is taken (then returns False and drops the data).

        `durable`: also put the name on stable storage; `sync` does that for the content.
        """

    def publish_over(self, name: str) -> None:
        """Give it its name durably, replacing the object that has it."""

    def abort(self) -> None:
        """Drop the data; may be called after it has ended."""


class OutgoingObject(Protocol):
    """An object being read, as it was when it was opened."""

    @property
    def size_bytes(self) -> int:
        """Its length in bytes."""

    @property
    def descriptor(self) -> int | None:
        """A file that the kernel can send from, with the same offsets; None if there is none."""

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; DamageError when there are fewer, StoreError."""


class ServableStore(Store, Protocol):
    """A store that a storage daemon can serve."""

    def incoming(self, kind: Kind, way: WritingWay | None = None) -> IncomingObject:
        """Begin an object, written in its own way or in that one."""

    def outgoing(self, kind: Kind, name: str) -> AbstractContextManager[OutgoingObject]:
        """An object to read from until the context ends. Raises ObjectMissingError."""

    def space(self) -> Space | None:
        """Size and free space, None where there is no end of it. Raises StoreError."""
