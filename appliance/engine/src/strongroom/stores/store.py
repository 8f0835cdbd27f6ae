"""What the engine asks of a place that keeps objects.

An object is immutable bytes under a kind and a name. Names of packs, indexes and snapshots are the
BLAKE3-256 of the stored bytes in hex, so a store can verify what it holds without any key; those of
keys, tombstones and tickets are, too, those of leases random; the one object of kind "config" is
named "config".

Every store promises:
- an object is either whole under its name or not there (no torn object is ever listed);
- an object, once there, does not change (except by `replace`, for leases and the configuration);
- after `sync` everything put before is on stable storage, and after `put_durable` that object is;
- failure is `StoreError`, a missing object `ObjectMissingError`, too few bytes `DamageError`.

A store and its writers are used by one thread at a time unless the store says otherwise; reading
(`get`, `info`) is safe from any number of threads. After a fork, the child calls `reopen`.

What only some stores can do is a capability (`strongroom.stores.capabilities`). Whoever wants one
asks `capability`, never `isinstance` of the store: a wrapper may have a method that leads nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeVar

from strongroom.errors import DamageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

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

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """Size of an object and when it was stored. Raises ObjectMissingError."""

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

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        """What does for this store what the protocol `wanted` says; None where nothing does.

        See strongroom.stores.capabilities, which says what a wrapper answers.
        """

    def reopen(self) -> Store:
        """The same store for a forked process."""

    def close(self) -> None:
        """Give back what the store holds open."""


def require_name(kind: Kind, name: str) -> None:
    """DamageError for a name that no object of a kind can have.

    Names come out of stored objects too: none may lead out of the repository.
    """
    if kind != "config" and not (name.isascii() and name.isalnum()):
        raise DamageError(f"{name!r} is no name of an object of {kind}; run check")
