"""What a storage daemon asks of a store that it serves, beyond what every store can do.

The daemon digests what comes in before it has a name, gives it the name in one of several ways, and
sends what is asked for without copying it where the store has a file. Names, owners and judgements
are the daemon's own business.

Each connection has a store object of its own, which is used by one thread; `sync` of it covers
whatever was stored through it. Failures are those of `strongroom.stores.store`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from strongroom.stores.store import Store

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

    from strongroom.stores.store import Kind


class Space(NamedTuple):
    """Room where a store keeps its objects, in bytes."""

    free_bytes: int
    size_bytes: int


class IncomingObject(Protocol):
    """An object on its way in. `publish`, `publish_over` and `abort` end it."""

    def write(self, data: Buffer) -> None:
        """Append `data`, which may be reused afterwards."""

    def room(self, most_bytes: int) -> memoryview:
        """Where the next bytes belong, `most_bytes` at most; filled, then `advance`: no copy."""

    def advance(self, count: int) -> None:
        """Append the first `count` bytes of the latest `room`."""

    def sync(self) -> None:
        """Bring what was written to stable storage: it is whole there before it has a name."""

    def publish(self, name: str, *, durable: bool = False) -> bool:
        """Give it its name unless that is taken (False, and what came is dropped).

        `durable`: and bring the name to stable storage; `sync` does that for the content.
        """

    def publish_over(self, name: str) -> None:
        """Give it its name, durably, in the place of what has the name."""

    def abort(self) -> None:
        """Forget what came; harmless when it has ended."""


class OutgoingObject(Protocol):
    """An object that is read, as it was when it was opened."""

    @property
    def size_bytes(self) -> int:
        """How long it is."""

    @property
    def descriptor(self) -> int | None:
        """A file that the kernel can send from, at the same offsets; None where there is none."""

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; DamageError when they are not there, StoreError."""


class ServableStore(Store, Protocol):
    """A store that a storage daemon can serve."""

    def incoming(self, kind: Kind) -> IncomingObject:
        """Begin an object."""

    def outgoing(self, kind: Kind, name: str) -> AbstractContextManager[OutgoingObject]:
        """An object to read from until the context ends. Raises ObjectMissingError."""

    def space(self) -> Space:
        """Room for more. Raises StoreError."""
