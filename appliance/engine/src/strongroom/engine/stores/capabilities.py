"""Capabilities that only some stores have: a protocol for each, and how wrappers pass them on.

`Store.capability(PROTOCOL)` returns the object that implements the protocol, or None. A store
without a wrapper returns itself if it implements it: `own_capability`. A wrapper decides for each
capability:

- one that transfers no content (owners, verification results, a series, in which every change
still goes through the wrapper) is the inner store's own: `self._inner.capability(wanted)`;
- one that creates another store (`ConnectsAhead`) is an object of the wrapper's, so that the new
store is wrapped as well;
- one that would bypass the wrapper is None. So is every capability that the wrapper does not
know: a new one has to be passed on explicitly.

The functions below ask for a capability and fall back to the default where a store lacks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, Protocol, TypeVar, runtime_checkable

from strongroom.engine.stores.object_lock import LocksObjects
from strongroom.engine.stores.shared_counts import Traffic
from strongroom.engine.stores.store import Kind, Store

_Capability = TypeVar("_Capability")


class Series(Protocol):
    """Changes that are sent to a remote store together, without waiting for each one.

    Changes that a thread makes while it has a series are sent in order when the series ends, and
    each is done only if all before it were. They seem to succeed at once; the first failure is
    raised at the end.
    """

    # How many of the changes were done; to be read when the series has ended.
    done: int

    def __len__(self) -> int:
        """The number of changes."""

    def require(self, kind: Kind, name: str) -> None:
        """Add a check that an object exists; ObjectMissingError at the end."""


@runtime_checkable
class TakesSeries(Protocol):
    """A store that takes a series of changes at once."""

    def together(self) -> AbstractContextManager[Series | None]:
        """A series for this thread; None where it would save nothing."""


@runtime_checkable
class ConnectsAhead(Protocol):
    """A store that takes time to connect to."""

    def connect_ahead(self, copies: int) -> None:
        """Connect in the background, and make this many further connections for `copy_ahead`."""

    def copy_ahead(self) -> Store | None:
        """The same store for a process that is about to be forked, if a connection was made ahead.

        No thread of the store runs when this returns. The parent drops its copy without calling
        `close`, which would end the connection for both processes.
        """


@runtime_checkable
class ReadsAhead(Protocol):
    """A store on a disk, which can read while its user does something else."""

    def read_ahead(self, kind: Kind, name: str, offset: int, length: int) -> None:
        """Begin to read a part of an object; what is wrong with it is raised by `get`."""


@runtime_checkable
class AnswersTogether(Protocol):
    """A distant store that answers the requests of several threads at the same time.

    most_together: how many are worth while; 1 where it is near. has_read_ahead: objects that were
    listed are read ahead of the reader, in the order of the list. takes_changes: of several
    threads, too.
    """

    most_together: int
    has_read_ahead: bool
    takes_changes: bool


@runtime_checkable
class NamesPacks(Protocol):
    """A store that lists names at once, while each size is a question of its own: a folder."""

    def pack_ids(self) -> bytes:
        """The ids of all packs, joined. Raises StoreError."""


@runtime_checkable
class ListsAhead(Protocol):
    """A distant store that can list before it is asked, for a command that stores nothing."""

    def list_ahead(
        self, kinds: Sequence[Kind], meanwhile: Callable[[], _Capability]
    ) -> _Capability:
        """What `meanwhile` gives; the next `list` of each kind gives what is there meanwhile."""


@runtime_checkable
class KnowsOwners(Protocol):
    """A store that knows who stored each object: a storage daemon."""

    def owners(self, kind: Kind) -> dict[str, set[str]]:
        """Who has stored each object of a kind, "" for the appliance. RightError."""


@runtime_checkable
class KeepsJudgements(Protocol):
    """A store that hides objects found false from agents: a storage daemon."""

    def false(self, kind: Kind) -> frozenset[str]:
        """Objects found false, as far as one may know: only those of snapshots are visible."""

    def vouch(self, kind: Kind, names: Sequence[str], *, sound: bool) -> None:
        """Mark objects as verified or as false. RightError."""


@runtime_checkable
class ChargesShared(Protocol):
    """A store that holds clients to quotas: a storage daemon."""

    def charge(self, client_id: bytes, size_bytes: int) -> None:
        """Set what shared packs hold in place of a client, which counts as its own. RightError."""


@runtime_checkable
class HoldsReserve(Protocol):
    """A store that keeps some space, so that what frees space can begin on a full disk."""

    def release_reserve(self) -> None:
        """Give the space to those who write next, if there is little else."""

    def make_reserve(self) -> None:
        """Take it again if there is room for it."""


@runtime_checkable
class ProvesPromises(Protocol):
    """A store of which one has to try whether it keeps its promises."""

    def prove(self) -> None:
        """Raise StoreError that names the first promise that is broken."""


@runtime_checkable
class CountsTraffic(Protocol):
    """A store behind a network, whose requests can be counted."""

    # Set before the first request; copies of the store count there, too.
    traffic: Traffic | None


@contextmanager
def with_reserve(store: Store) -> Iterator[None]:
    """For the length of the block what is reserved may be used."""
    reserve = store.capability(HoldsReserve)
    if reserve is None:
        yield
        return
    reserve.release_reserve()
    try:
        yield
    finally:
        reserve.make_reserve()


# Wrappers pass these on unchanged: they transfer no content past the wrapper.
_OF_THE_INNER_STORE: Final[frozenset[type]] = frozenset(
    (
        TakesSeries,
        KnowsOwners,
        KeepsJudgements,
        ChargesShared,
        HoldsReserve,
        ProvesPromises,
        LocksObjects,
        CountsTraffic,
        AnswersTogether,
        ListsAhead,
        NamesPacks,
    )
)


def own_capability(store: Store, wanted: type[_Capability]) -> _Capability | None:
    """What a store that wraps no other returns."""
    return store if isinstance(store, wanted) else None


def passed_on(inner: Store, wanted: type[_Capability]) -> _Capability | None:
    """What a wrapper leaves to the inner store; None for everything else."""
    return inner.capability(wanted) if wanted in _OF_THE_INNER_STORE else None


def together(store: Store) -> AbstractContextManager[Series | None]:
    """A series of changes, or None where the store does each change immediately."""
    takes_series = store.capability(TakesSeries)
    return nullcontext() if takes_series is None else takes_series.together()


def connect_ahead(store: Store, copies: int) -> None:
    """Start connecting where that takes time; `copies`: processes that will be forked."""
    connecting = store.capability(ConnectsAhead)
    if connecting is not None:
        connecting.connect_ahead(copies)


def copy_ahead(store: Store) -> Store | None:
    """The same store for a process that is about to be forked, None where none is ready."""
    connecting = store.capability(ConnectsAhead)
    return None if connecting is None else connecting.copy_ahead()


def found_false(store: Store) -> frozenset[str]:
    """Ids of snapshots that were found false, as far as the store knows and tells. StoreError."""
    judge = store.capability(KeepsJudgements)
    return frozenset() if judge is None else judge.false("snapshots")


def stored_by_agents(store: Store) -> frozenset[str]:
    """Ids of snapshots that only agents stored, as far as the store knows. RightError."""
    knowing = store.capability(KnowsOwners)
    owners = {} if knowing is None else knowing.owners("snapshots")
    return frozenset(name for name, names in owners.items() if "" not in names)
