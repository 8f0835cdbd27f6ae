"""What only some stores can do: a protocol for each, and how wrappers pass them on.

`Store.capability(PROTOCOL)` gives the object that does it, or None. A store without a wrapper
answers with itself where it is one: `own_capability`. A wrapper answers for each capability:

- one that moves no content (who stored what, judgements, a series, in which every change still
  comes through the wrapper) is the inner store's own: `self._inner.capability(wanted)`;
- one that makes another store (`ConnectsAhead`) is an object of the wrapper's, so that what comes
  out is wrapped as well;
- one that would go around the wrapper is None. So is every capability that the wrapper does not
  know: a new one is passed on only when somebody has decided so.

The functions below ask and do the usual thing where a store has not got a capability.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.stores.store import Kind, Store

_Capability = TypeVar("_Capability")


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


@runtime_checkable
class KnowsOwners(Protocol):
    """A store that knows who stored what: a storage daemon."""

    def owners(self, kind: Kind) -> dict[str, set[str]]:
        """Who has stored each object of a kind, "" for the appliance. RightError."""


@runtime_checkable
class KeepsJudgements(Protocol):
    """A store that hides what the appliance found false, from everybody: a storage daemon."""

    def vouch(self, kind: Kind, names: Sequence[str], *, sound: bool) -> None:
        """Say of objects that they are sound, or false. RightError."""


# Those that a wrapper passes on as they are. They move no content past it.
_OF_THE_INNER_STORE: Final[frozenset[type]] = frozenset((TakesSeries, KnowsOwners, KeepsJudgements))


def own_capability(store: Store, wanted: type[_Capability]) -> _Capability | None:
    """The answer of a store that wraps no other."""
    return store if isinstance(store, wanted) else None


def passed_on(inner: Store, wanted: type[_Capability]) -> _Capability | None:
    """The answer of a wrapper for what it leaves to the inner store; None for all else."""
    return inner.capability(wanted) if wanted in _OF_THE_INNER_STORE else None


def together(store: Store) -> AbstractContextManager[Series | None]:
    """A series of changes, or None where the store does each as it comes."""
    takes_series = store.capability(TakesSeries)
    return nullcontext() if takes_series is None else takes_series.together()


def connect_ahead(store: Store, copies: int) -> None:
    """Begin to connect a store where that takes time; `copies`: processes that will be forked."""
    connecting = store.capability(ConnectsAhead)
    if connecting is not None:
        connecting.connect_ahead(copies)


def copy_ahead(store: Store) -> Store | None:
    """The same store for a process that is about to be forked, None where none is ready."""
    connecting = store.capability(ConnectsAhead)
    return None if connecting is None else connecting.copy_ahead()
