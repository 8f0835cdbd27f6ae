"""What the engine asks of a place that keeps objects.

An object is immutable bytes under a kind and a name. Names of packs, indexes and snapshots are the
BLAKE3-256 of the stored bytes in hex, so a store can verify what it holds without any key; those of
keys and tombstones are, too, those of leases random; the one object of kind "config" is named
"config".

Every store promises:
- an object is either whole under its name or not there (no torn object is ever listed);
- an object, once there, does not change (except by `replace`, for leases and the configuration);
- after `sync` everything put before is on stable storage, and after `put_durable` that object is;
- failure is `StoreError`, a missing object `ObjectMissingError`, too few bytes `DamageError`.

A store and its writers are used by one thread at a time unless the store says otherwise; reading
(`get`, `size`) is safe from any number of threads. After a fork, the child calls `reopen`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

Kind = Literal["config", "keys", "packs", "index", "snapshots", "leases", "tombstones"]

KINDS: tuple[Kind, ...] = (
    "config",
    "keys",
    "packs",
    "index",
    "snapshots",
    "leases",
    "tombstones",
)


class ObjectInfo(NamedTuple):
    """A listed object; `modified_ns` is by the store's clock, not the client's."""

    name: str
    size_bytes: int
    modified_ns: int


class Writer(Protocol):
    """An object while it is being written; it has no name before `commit`."""

    def write(self, data: Buffer) -> None:
        """Append `data`; the buffer may be reused by the caller afterwards."""

    def commit(self, name: str) -> None:
        """Publish under `name` at once; where that object is already, drop ours."""

    def abort(self) -> None:
        """Forget what was written; harmless after `commit` or `abort`."""


class Store(Protocol):
    """A place that keeps objects."""

    @property
    def location(self) -> str:
        """Where it is, to show to people."""

    def prepare(self) -> None:
        """Make the place ready to hold a repository; harmless where it is already."""

    def writer(self, kind: Kind) -> Writer:
        """Begin an object that is streamed and need not fit in memory."""

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object; the same object there already is fine, another is StoreError."""

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        """Store a small object unless the name is taken: then False, and nothing is changed."""

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        """`put`, returning only when the object and its name are on stable storage."""

    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        """`put` in the place of what has the name, at once; for leases and config only."""

    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """`length` bytes from `offset`, or all from there; fewer than asked is DamageError."""

    def size(self, kind: Kind, name: str) -> int:
        """Size of an object in bytes."""

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        """Every object of a kind, in no particular order.

        Of two objects of which one was there before the other was deleted at least one is listed,
        so whoever replaces an object by another is never seen with neither.
        """

    def delete(self, kind: Kind, name: str) -> None:
        """Remove an object; one that is not there is fine."""

    def remove_abandoned(self) -> int:
        """Remove what writers left that died before commit; how many there were."""

    def sync(self) -> None:
        """Everything put so far is on stable storage when this returns."""

    def doubted(self, kind: Kind) -> frozenset[str]:
        """Objects of somebody whom the appliance does not trust, and at which it has not looked.

        Their word counts only where nobody else's does: see `strongroom.repo.index.index`.
        """

    def reopen(self) -> Store:
        """The same store for a forked process."""

    def close(self) -> None:
        """Give back what the store holds open."""


class Series(Protocol):
    """Changes that a distant store is given together, instead of one when the last was done.

    Those that a thread asks for while it has a series are sent when that ends, in their order, and
    each is done only if all before it were. They seem to succeed at once; the first failure is
    raised at the end.
    """

    # How many of the changes were done; to be looked at when the series has ended.
    done: int

    def __len__(self) -> int:
        """How many changes there are."""

    def require(self, kind: Kind, name: str) -> None:
        """Count as a change that an object is there; ObjectMissingError at the end."""


@runtime_checkable
class TakesSeries(Protocol):
    """A store that takes a series of changes at once, as far as it is one that waits."""

    def together(self) -> AbstractContextManager[Series | None]:
        """A series of this thread, None where nothing is gained by it."""


def together(store: Store) -> AbstractContextManager[Series | None]:
    """A series of changes, or None where the store does each as it comes."""
    return store.together() if isinstance(store, TakesSeries) else nullcontext()


@runtime_checkable
class ConnectsAhead(Protocol):
    """A store to which it takes time to get."""

    def connect_ahead(self, copies: int) -> None:
        """Connect in the background, and for so many `copy_ahead` as well."""

    def copy_ahead(self) -> Store | None:
        """The same store for a process that is about to be forked, if a connection was made ahead.

        No thread of the store runs when this returns. Whoever forked forgets it, without `close`:
        that would end the connection for both.
        """


def connect_ahead(store: Store, copies: int) -> None:
    """Begin to connect a store where that takes time; `copies`: processes that will be forked."""
    if isinstance(store, ConnectsAhead):
        store.connect_ahead(copies)
