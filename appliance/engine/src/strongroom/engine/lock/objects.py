"""The objects of a locked repository, as they were stored and as somebody may have changed them.

Anyone who has the access key of a bucket can lay a mark of deletion or a newer version over an
object, but cannot remove what was stored first while it is locked. So the first version is the one
that counts here; a name that is the digest of its content never gets another one by Strongroom
itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from strongroom.base.errors import (
    CheckFailedError,
    DamageError,
    ObjectMissingError,
    UnknownFormatError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.engine.repository.configuration import decode_config
from strongroom.engine.stores.object_lock import (
    LOCKED_KINDS,
    LockRule,
    LocksObjects,
    ObjectVersion,
)
from strongroom.engine.stores.s3_client import RefusedError
from strongroom.engine.stores.store import Kind

if TYPE_CHECKING:
    from strongroom.engine.repository.repository import Repository

# Requests in flight: each waits for the store, and takes little of the processor.
_THREADS: Final = 16


class LockedObject(NamedTuple):
    """An object: its first version, whether readers do not see it, and later versions of it."""

    first: ObjectVersion
    is_hidden: bool
    later: tuple[ObjectVersion, ...]


def require_own_rule(repository: Repository) -> None:
    """Raise CheckFailedError where a repository was locked, and its configuration says otherwise.

    Anyone who has every key can store another one, and nothing would be locked or extended.
    """
    locking = repository.store.capability(LocksObjects)
    if locking is None or repository.config.lock_rule is not None:
        return
    # Without object lock the key may lack the right to list versions.
    versions: list[ObjectVersion] = []
    with suppress(RefusedError):
        versions = [one for one in locking.versions("config") if not one.is_marker]
    for version in reversed(versions):
        try:
            stored = decode_config(locking.get_version(version))
        except (DamageError, UnknownFormatError, ObjectMissingError):
            continue
        if stored.is_of(repository.key) and stored.config.lock_rule is not None:
            raise CheckFailedError(
                f"{printable(repository.store.location)}: somebody replaced config by one without "
                "object lock, which Strongroom never does: change the access key, and restore as "
                "of a time before that (strongroom restore --at TIME)"
            )


def locking_store(repository: Repository) -> tuple[LocksObjects, LockRule]:
    """The store of a repository that is locked, and how. UsageError where it is not.

    CheckFailedError where it was.
    """
    require_own_rule(repository)
    locking = repository.store.capability(LocksObjects)
    rule = repository.config.lock_rule
    place = printable(repository.store.location)
    if rule is None:
        raise UsageError(
            f"{place} is not locked: make a new repository with `strongroom init --lock-for 30d` "
            "and copy the snapshots (`strongroom copy`)"
        )
    if locking is None:
        raise UsageError(
            f"{place} cannot lock objects itself: name the bucket of the repository, s3://..."
        )
    return locking, rule


def locked_objects(locking: LocksObjects) -> dict[tuple[Kind, str], LockedObject]:
    """Every object of the kinds that are locked, by kind and name; hidden ones too."""
    found: dict[tuple[Kind, str], list[ObjectVersion]] = {}
    for kind in LOCKED_KINDS:
        for one in locking.versions(kind):
            found.setdefault((kind, one.name), []).append(one)
    objects = {}
    for key, entries in found.items():
        versions = [one for one in entries if not one.is_marker]
        if versions:
            is_hidden = any(one.is_marker and one.is_current for one in entries)
            objects[key] = LockedObject(versions[-1], is_hidden, tuple(versions[:-1]))
    return objects


def ends_of_locks(
    locking: LocksObjects, versions: Iterable[ObjectVersion]
) -> Iterator[tuple[ObjectVersion, int]]:
    """Each version and when its retention ends (0: it has none), a request for each."""
    every = list(versions)

    def end_of(one: ObjectVersion) -> int:
        # A prune may have removed it since it was listed.
        with suppress(ObjectMissingError):
            return locking.locked_until(one)
        return 0

    with ThreadPoolExecutor(_THREADS) as pool:
        yield from zip(every, pool.map(end_of, every), strict=True)


def extend_all(locking: LocksObjects, versions: Iterable[ObjectVersion], until_ns: int) -> None:
    """Let the retention of versions end at a time, a request for each.

    Raises RefusedError after all were tried: one that the store refuses, which somebody may have
    arranged, keeps no other from being extended. Raises StoreError.
    """

    def extended(one: ObjectVersion) -> RefusedError | None:
        # A prune may have removed it since it was listed.
        with suppress(ObjectMissingError):
            try:
                locking.extend(one, until_ns)
            except RefusedError as error:
                return error
        return None

    with ThreadPoolExecutor(_THREADS) as pool:
        refused = [error for error in pool.map(extended, versions) if error is not None]
    if refused:
        raise refused[0]
