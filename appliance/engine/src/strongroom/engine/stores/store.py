"""The interface of a store: a place that keeps objects.

An object is immutable bytes under a kind and a name. Names of packs, indexes and snapshots are the
BLAKE3-256 of the stored bytes in hex, so a store can verify what it holds without any key; so are
those of keys, tombstones and tickets. Names of leases are random. The one object of kind "config"
is named "config".

Every store promises:
- an object is either complete under its name or not there (no partial object is ever listed);
- a stored object does not change (except by `replace`, for leases and the configuration);
- after `sync` everything put before is on stable storage, and after `put_durable` that object is;
- failure is `StoreError`, a missing object `ObjectMissingError`, too few bytes `DamageError`.

A store and its writers are used by one thread at a time unless the store says otherwise; reading
(`get`, `info`) is safe from any number of threads. After a fork, the child calls `reopen`.

What only some stores can do is a capability (`strongroom.engine.stores.capabilities`). Callers use
`capability`, never `isinstance` on the store: a wrapper may have a method without an inner one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol, TypeVar

from typing_extensions import Buffer

from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import DamageError

Kind = Literal["config", "keys", "packs", "index", "snapshots", "leases", "tombstones", "tickets"]

KINDS: tuple[Kind, ...] = (
    "config",
    "keys",
    "packs",
    "index",
    "snapshots",
    "leases",
    "tombstones",
    "tickets",
)

_Capability = TypeVar("_Capability")


class ObjectInfo(NamedTuple):
    """An object as the store sees it.

    modified_ns: when it was stored or last replaced, in nanoseconds since 1970 by the store's
    clock, not the client's.
    """

    name: str
    size_bytes: int
    modified_ns: int

    @property
    def stored_before_ns(self) -> int:
        """A time before which it was stored: S3 and SFTP leave out what is below a second."""
        return self.modified_ns + (SECOND_NS if self.modified_ns % SECOND_NS == 0 else 1)


class Writer(Protocol):
    """An object while it is being written; it has no name before `commit`."""

    def write(self, data: Buffer) -> None:
        """Append `data`; the buffer may be reused by the caller afterwards."""

    def commit(self, name: str) -> None:
        """Publish under `name` at once; if that object exists already, drop this one."""

    def abort(self) -> None:
        """Drop what was written; may be called after `commit` or `abort`."""


class Store(Protocol):
    """A place that keeps objects."""

    @property
    def location(self) -> str:
        """The location, for messages."""

    def prepare(self) -> None:
        """Prepare the place to hold a repository; idempotent."""

    def writer(self, kind: Kind) -> Writer:
        """Begin an object that is streamed and need not fit in memory."""

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object; if it exists with the same content fine, otherwise StoreError."""

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        """Store a small object unless the name is taken: then False, and nothing is changed."""

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        """`put`, returning only when the object and its name are on stable storage."""

    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        """As `put`, replacing the object of that name, at once; for leases and config only."""

    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """`length` bytes from `offset`, or all from there; fewer than asked is DamageError."""

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """Size of an object and when it was stored. Raises ObjectMissingError."""

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        """Every object of a kind, in no particular order.

        If one object was stored before another was deleted, at least one of the two is listed, so
        replacing an object by another is never seen with neither.
        """

    def delete(self, kind: Kind, name: str) -> None:
        """Remove an object; a missing one is not an error."""

    def remove_abandoned(self) -> int:
        """Remove the temporary files of dead writers; returns how many there were."""

    def sync(self) -> None:
        """Return when everything put so far is on stable storage."""

    def unverified(self, kind: Kind) -> frozenset[str]:
        """Objects that an untrusted client uploaded and the appliance has not verified.

        Among them, where they are visible, snapshots that were found false.

        They are used only where no verified object serves
        (`strongroom.engine.repository.index.index`).
        """

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        """The object that implements the protocol `wanted` for this store; None if there is none.

        See strongroom.engine.stores.capabilities for the rules for wrappers.
        """

    def reopen(self) -> Store:
        """The same store for a forked process."""

    def close(self) -> None:
        """Release what the store holds open."""


def require_name(kind: Kind, name: str) -> None:
    """DamageError for a name that no object of a kind can have.

    Names also come out of stored objects: none may lead out of the repository.
    """
    if kind != "config" and not (name.isascii() and name.isalnum()):
        raise DamageError(f"{name!r} is not a valid name for an object of {kind}; run check")
