"""A store that fails on purpose, to prove that no data is lost when a real store fails.

Two kinds of failure, which can be combined:
- *faults*: the n-th operation of a kind on a kind of object fails in a declared way; afterwards
`unexercised` names the faults that never happened, so a test can't pass by missing its target.
- *crash limit* N: the process is killed just before the mutating operation after the first N, so a
loop over N stops a job at every place where the store changes.

Counters are shared with forked processes. A killed child also kills the process that made the
store, as a power cut would.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar, get_args

import msgspec
from typing_extensions import Buffer

from strongroom.base.errors import StoreError, UsageError
from strongroom.engine.stores.capabilities import ConnectsAhead, NamesPacks, passed_on
from strongroom.engine.stores.shared_counts import SharedCounts
from strongroom.engine.stores.store import KINDS, Kind, ObjectInfo, Store, Writer

Operation = Literal[
    "write", "commit", "put", "put_new", "put_durable", "replace", "get", "info", "list", "delete",
    "sync",
]  # fmt: skip

_Result = TypeVar("_Result")
_Capability = TypeVar("_Capability")

Action = Literal["error", "crash", "raise", "torn", "lost"]

_READING = frozenset(("get", "info", "list"))


class SimulatedCrash(BaseException):
    """Represents the death of the process; only tests may catch it."""


class Fault(msgspec.Struct, frozen=True):
    """One failure.

    `kind` None means any (`sync` has none); `nth` counts matching operations from 1; actions:
    error: StoreError with `error_number` instead of the operation;
    crash: the process is killed instead; raise: SimulatedCrash instead;
    torn: half of the bytes arrive (under the name, where there is one), then the process is killed;
    lost: the operation is done, but its answer is StoreError.
    """

    operation: Operation
    kind: Kind | None
    nth: int
    action: Action
    error_number: int = errno.EIO


class FaultStore:
    """A `strongroom.engine.stores.store.Store` around another one."""

    def __init__(
        self,
        inner: Store,
        faults: Sequence[Fault] = (),
        crash_limit: int | None = None,
        script: _Script | None = None,
    ) -> None:
        """`script`: of another such store, whose faults and counters are shared."""
        self._inner = inner
        self._script = script or _Script(tuple(faults), crash_limit)

    @property
    def location(self) -> str:
        """The other store's."""
        return self._inner.location

    @property
    def mutation_count(self) -> int:
        """Mutating operations so far: the upper bound for a loop over crash limits."""
        return self._script.mutation_count

    def unexercised(self) -> list[Fault]:
        """The faults that did not happen."""
        return self._script.unexercised()

    def prepare(self) -> None:
        """Pass on."""
        self._inner.prepare()

    def writer(self, kind: Kind) -> Writer:
        """A writer whose writes and commit can fail."""
        return _FaultWriter(self._inner.writer(kind), kind, self._script)

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        """Pass on or fail."""
        self._script.do("put", kind, data, lambda part: self._inner.put(kind, name, part))

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        """Pass on or fail."""
        return self._script.do(
            "put_new", kind, data, lambda part: self._inner.put_new(kind, name, part)
        )

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        """Pass on or fail."""
        self._script.do(
            "put_durable", kind, data, lambda part: self._inner.put_durable(kind, name, part)
        )

    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        """Pass on or fail."""
        self._script.do("replace", kind, data, lambda part: self._inner.replace(kind, name, part))

    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Pass on or fail."""
        return self._script.do(
            "get", kind, b"", lambda _: self._inner.get(kind, name, offset, length)
        )

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """Pass on or fail."""
        return self._script.do("info", kind, b"", lambda _: self._inner.info(kind, name))

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        """Pass on or fail."""
        return self._script.do("list", kind, b"", lambda _: self._inner.list(kind))

    def delete(self, kind: Kind, name: str) -> None:
        """Pass on or fail."""
        self._script.do("delete", kind, b"", lambda _: self._inner.delete(kind, name))

    def remove_abandoned(self) -> int:
        """Pass on."""
        return self._inner.remove_abandoned()

    def sync(self) -> None:
        """Pass on or fail."""
        self._script.do("sync", None, b"", lambda _: self._inner.sync())

    def unverified(self, kind: Kind) -> frozenset[str]:
        """Pass on."""
        return self._inner.unverified(kind)

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        """The other store's; copies made ahead fail by the same counters."""
        if wanted is ConnectsAhead:
            connecting = self._inner.capability(ConnectsAhead)
            ahead = None if connecting is None else _FaultAhead(connecting, self._script)
            return ahead if isinstance(ahead, wanted) else None
        if wanted is NamesPacks:
            naming = self._inner.capability(NamesPacks)
            names = None if naming is None else _FaultNames(naming, self._script)
            return names if isinstance(names, wanted) else None
        return passed_on(self._inner, wanted)

    def reopen(self) -> FaultStore:
        """The other store for a forked process, with the same counters."""
        return FaultStore(self._inner.reopen(), script=self._script)

    def close(self) -> None:
        """Pass on."""
        self._inner.close()


def parse_faults(store: Store, text: str) -> FaultStore:
    """A store that fails as `text` says; UsageError when it can't be read.

    Parts joined by commas: `crash-limit=N`, or OPERATION:KIND:NTH:ACTION, where KIND may be `any`
    and ACTION is crash, torn, lost or the name of an errno: `put_durable:snapshots:1:ENOSPC`.
    """
    faults = []
    crash_limit = None
    for part in text.split(","):
        name, _, number = part.partition("=")
        if name == "crash-limit" and number.isdigit():
            crash_limit = int(number)
        else:
            faults.append(_parse_fault(part))
    return FaultStore(store, faults, crash_limit)


def _parse_fault(text: str) -> Fault:
    fields = text.split(":")
    operations = {name: name for name in get_args(Operation)}
    kinds: dict[str, Kind | None] = {"any": None, **{kind: kind for kind in KINDS}}
    actions: dict[str, Action] = {"crash": "crash", "torn": "torn", "lost": "lost"}
    if len(fields) == 4 and fields[0] in operations and fields[1] in kinds and fields[2].isdigit():
        operation, kind, nth = operations[fields[0]], kinds[fields[1]], int(fields[2])
        if fields[3] in actions:
            return Fault(operation, kind, nth, actions[fields[3]])
        number = getattr(errno, fields[3], None)
        if isinstance(number, int):
            return Fault(operation, kind, nth, "error", number)
    raise UsageError(f"{text!r} is no fault: write OPERATION:KIND:NTH:crash|torn|lost|ERRNO")


class _Script:
    """The faults to inject, and the counts so far in this process and its children."""

    def __init__(self, faults: tuple[Fault, ...], crash_limit: int | None) -> None:
        self._faults = faults
        self._crash_limit = crash_limit
        self._process_id = os.getpid()
        # How often each fault's operation was seen, and after those how often anything was changed.
        self._counts = SharedCounts(len(faults) + 1)

    @property
    def mutation_count(self) -> int:
        return self._counts[len(self._faults)]

    def unexercised(self) -> list[Fault]:
        return [
            fault for place, fault in enumerate(self._faults) if self._counts[place] < fault.nth
        ]

    def do(
        self,
        operation: Operation,
        kind: Kind | None,
        data: Buffer,
        perform: Callable[[Buffer], _Result],
    ) -> _Result:
        """`perform(data)`, unless it is its turn to fail."""
        if operation not in _READING:
            done = self._counts.add(len(self._faults))
            if self._crash_limit is not None and done > self._crash_limit:
                raise self._crash()
        due = self._due(operation, kind)
        if due is None:
            return perform(data)
        if due.action == "error":
            raise _failure(due)
        if due.action == "raise":
            raise SimulatedCrash
        if due.action == "lost":
            perform(data)
            raise _failure(due)
        if due.action == "torn":
            view = memoryview(data).cast("B")
            perform(view[: len(view) // 2])
        raise self._crash()

    def _due(self, operation: Operation, kind: Kind | None) -> Fault | None:
        due = None
        for place, fault in enumerate(self._faults):
            if (
                fault.operation == operation
                and fault.kind in (None, kind)
                and self._counts.add(place) == fault.nth
            ):
                due = fault
        return due

    def _crash(self) -> SimulatedCrash:
        if os.getpid() != self._process_id:
            os.kill(self._process_id, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        return SimulatedCrash()


class _FaultAhead:
    """A `ConnectsAhead` whose copies share the counters."""

    def __init__(self, inner: ConnectsAhead, script: _Script) -> None:
        self._inner = inner
        self._script = script

    def connect_ahead(self, copies: int) -> None:
        self._inner.connect_ahead(copies)

    def copy_ahead(self) -> FaultStore | None:
        copy = self._inner.copy_ahead()
        return None if copy is None else FaultStore(copy, script=self._script)


class _FaultNames:
    """A `NamesPacks` that fails as a list of packs."""

    def __init__(self, inner: NamesPacks, script: _Script) -> None:
        self._inner = inner
        self._script = script

    def pack_ids(self) -> bytes:
        return self._script.do("list", "packs", b"", lambda _: self._inner.pack_ids())


class _FaultWriter:
    def __init__(self, inner: Writer, kind: Kind, script: _Script) -> None:
        self._inner = inner
        self._kind = kind
        self._script = script

    def write(self, data: Buffer) -> None:
        self._script.do("write", self._kind, data, self._inner.write)

    def commit(self, name: str) -> None:
        self._script.do("commit", self._kind, b"", lambda _: self._inner.commit(name))

    def abort(self) -> None:
        self._inner.abort()


def _failure(fault: Fault) -> StoreError:
    return StoreError(
        f"could not {fault.operation} {fault.kind or 'an object'}: "
        f"{os.strerror(fault.error_number)} (a declared fault); run the same command again"
    )
