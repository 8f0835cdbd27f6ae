"""Object lock: what a store promises for the objects of a repository that is locked.

Packs, indexes, snapshots, keys and the configuration are stored with a retention: until it ends
the store refuses to remove that version of the object, for anyone. In governance mode someone
with a right of its own may (s3:BypassGovernanceRetention), in compliance mode no one.

Deleting such an object, or storing another over it, only hides it: the store keeps every version.
Leases, tombstones and tickets are not locked: jobs replace and remove them, and nothing that they
say is needed to read a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable

from strongroom.engine.stores.store import Kind, Store

LockMode = Literal["governance", "compliance"]
LOCK_MODES: Final[tuple[LockMode, ...]] = ("governance", "compliance")
LOCKED_KINDS: Final[tuple[Kind, ...]] = ("config", "keys", "packs", "index", "snapshots")


class LockRule(NamedTuple):
    """How long objects are locked when they are stored, and how strictly."""

    seconds: int
    mode: LockMode


class ObjectVersion(NamedTuple):
    """One version of an object, or a mark that it was deleted.

    stored_ns: by the store's clock, in whole seconds. is_current: whether it is what readers get.
    """

    kind: Kind
    name: str
    version: str
    size_bytes: int
    stored_ns: int
    is_marker: bool
    is_current: bool


@runtime_checkable
class LocksObjects(Protocol):
    """A store that can lock objects, if its bucket is made for it. Safe from any thread."""

    @property
    def lock_rule(self) -> LockRule | None:
        """How new objects are locked; None: not at all."""

    def lock_by(self, rule: LockRule) -> None:
        """Lock what is stored from now on, and prove with the other promises that it is kept."""

    def versions(self, kind: Kind, name: str = "") -> Iterator[ObjectVersion]:
        """Every version of the objects of a kind, or of one; those of an object newest first.

        Marks of deletion come apart from the versions of the object.
        """

    def get_version(self, version: ObjectVersion) -> bytes:
        """Read one version. ObjectMissingError."""

    def locked_until(self, version: ObjectVersion) -> int:
        """When the retention of a version ends, in ns since 1970; 0 where it has none."""

    def extend(self, version: ObjectVersion, until_ns: int) -> None:
        """Let the retention of a version end later."""

    def remove_versions(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Remove versions for good; those that are still locked stay and are returned."""

    def as_of(self, time_ns: int) -> Store:
        """The store as it was at a time, read-only; ObjectMissingError for what was not there."""
