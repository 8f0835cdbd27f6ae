"""An object store as it was at a time: what was laid over its objects since does not count.

A bucket with versions keeps what is deleted or overwritten, at least as long as it is locked. An
object was there if the newest of its versions and marks of that time is a version, a pack if it is
still kept. It is read as it was stored first: its name is the digest of its content, so no one ever
stores another version of it but to hide it. The configuration has no such name; it is read as it
was at that time.

The store's times are whole seconds: what was stored and deleted in the second of the time is there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import NoReturn, Protocol, Self, TypeVar

from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import ObjectMissingError, RightError
from strongroom.base.printable import printable
from strongroom.engine.stores.capabilities import AnswersTogether, own_capability
from strongroom.engine.stores.object_lock import ObjectVersion
from strongroom.engine.stores.store import Kind, ObjectInfo, Writer

_Capability = TypeVar("_Capability")


class KeepsVersions(Protocol):
    """What a store of the past needs of that of the present, which S3Store is."""

    most_together: int

    @property
    def location(self) -> str:
        """The location, for messages."""

    def versions(self, kind: Kind, name: str = "") -> Iterator[ObjectVersion]:
        """Every version of the objects of a kind, or of one; those of an object newest first."""

    def get_version(
        self, version: ObjectVersion, offset: int = 0, length: int | None = None
    ) -> bytes:
        """Read a version or a part of it."""

    def reopen(self) -> Self:
        """The same store for a forked process."""

    def close(self) -> None:
        """Close the connections."""


class PastStore:
    """A `strongroom.engine.stores.store.Store` that cannot be written to. Safe from any thread."""

    def __init__(self, inner: KeepsVersions, time_ns: int) -> None:
        self._inner = inner
        self._time_ns = time_ns
        self.most_together, self.has_read_ahead = inner.most_together, False
        self.takes_changes = False
        self._found: dict[tuple[Kind, str], ObjectVersion] = {}
        self._lock = threading.Lock()

    @property
    def location(self) -> str:
        """The location, for messages."""
        return self._inner.location

    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read an object or a part of it."""
        return self._inner.get_version(self._version(kind, name), offset, length)

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """Size of an object and when it was stored."""
        version = self._version(kind, name)
        return ObjectInfo(name, version.size_bytes, version.stored_ns)

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        """Every object of a kind that was there."""
        by_name: dict[str, list[ObjectVersion]] = {}
        for one in self._inner.versions(kind):
            by_name.setdefault(one.name, []).append(one)
        found = [self._chosen(versions) for versions in by_name.values()]
        there = [version for version in found if version is not None]
        with self._lock:
            self._found.update(((kind, version.name), version) for version in there)
        return iter(
            [ObjectInfo(version.name, version.size_bytes, version.stored_ns) for version in there]
        )

    def unverified(self, kind: Kind) -> frozenset[str]:
        """None, as of the store itself."""
        return frozenset()

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        """None but reading together: they are of the present."""
        return own_capability(self, wanted) if wanted is AnswersTogether else None

    def reopen(self) -> PastStore:
        """The same for a forked process."""
        again = PastStore(self._inner.reopen(), self._time_ns)
        with self._lock:
            again._found = dict(self._found)
        return again

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()

    def prepare(self) -> None:
        """Refused, as everything below that changes something. Raises RightError."""
        self._refuse()

    def writer(self, kind: Kind) -> Writer:
        """Refused."""
        self._refuse()

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        """Refused."""
        self._refuse()

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        """Refused."""
        self._refuse()

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        """Refused."""
        self._refuse()

    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        """Refused."""
        self._refuse()

    def delete(self, kind: Kind, name: str) -> None:
        """Refused."""
        self._refuse()

    def remove_abandoned(self) -> int:
        """Refused."""
        self._refuse()

    def sync(self) -> None:
        """Nothing was put."""

    def _refuse(self) -> NoReturn:
        raise RightError(
            f"{printable(self.location)} is shown as it was at {clock.local_text(self._time_ns)}, "
            "which cannot be changed"
        )

    def _version(self, kind: Kind, name: str) -> ObjectVersion:
        with self._lock:
            known = self._found.get((kind, name))
        if known is None:
            known = self._chosen(tuple(self._inner.versions(kind, name)))
            if known is None:
                raise ObjectMissingError(
                    f"{kind} {printable(name)} at {printable(self.location)} was not there at "
                    f"{clock.local_text(self._time_ns)}; choose another time"
                )
            with self._lock:
                self._found[kind, name] = known
        return known

    def _chosen(self, found: Sequence[ObjectVersion]) -> ObjectVersion | None:
        """Of all versions and marks of an object, what is read; None if it was not there."""
        then = [one for one in found if one.stored_ns <= self._time_ns]
        versions = [one for one in then if not one.is_marker]
        if not versions:
            return None
        # A pack is asked for only by an index of that time, which a prune rewrites before it
        # deletes one: if one is marked all the same, somebody else did it.
        is_marked = any(
            one.is_marker and one.stored_ns > max(version.stored_ns for version in versions)
            for one in then
        )
        if is_marked and versions[0].kind != "packs":
            return None
        return versions[0] if versions[0].kind == "config" else versions[-1]
