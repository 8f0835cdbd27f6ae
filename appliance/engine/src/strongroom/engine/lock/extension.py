"""Extends the locks of a repository, for all that is not deleted.

An object is locked for the whole duration when it is stored. Every run extends those of which less
than half is left to the whole duration again, so what is not deleted stays protected for at least
half of it after each run, and is extended twice in each duration at most. Packs that a prune has
marked are extended until it deletes them: anyone who has every key can mark what snapshots need.

What was stored less than half the duration ago needs no request. Of the rest it is asked how long
it is still locked; nothing that was noted elsewhere counts, which somebody could have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.quantities import counted
from strongroom.engine.lock.objects import (
    LockedObject,
    ends_of_locks,
    extend_all,
    locked_objects,
    locking_store,
)
from strongroom.engine.stores.object_lock import ObjectVersion
from strongroom.engine.stores.store import Kind

if TYPE_CHECKING:
    from strongroom.base.progress import Progress
    from strongroom.engine.repository.repository import Repository

_SHARE_LEFT: Final = 0.5


class ExtensionReport(msgspec.Struct, frozen=True):
    """What was found and extended.

    objects: that are not deleted. extended, extended_bytes: of them. asked: whose lock had to be
    asked for. locked_until_ns: by which all of them are locked now; 0 where there are none.
    overlaid: objects of which somebody stored a newer version.
    """

    objects: int
    asked: int
    extended: int
    extended_bytes: int
    locked_until_ns: int
    overlaid: tuple[tuple[Kind, str], ...]
    elapsed_seconds: float
    dry_run: bool


def extend_locks(
    repository: Repository, progress: Progress, *, dry_run: bool = False
) -> ExtensionReport:
    """Extend what is near its end. UsageError where the repository is not locked, StoreError."""
    started = clock.elapsed_seconds()
    locking, rule = locking_store(repository)
    progress.message("listing the versions of all objects")
    objects = {key: one for key, one in locked_objects(locking).items() if not one.is_hidden}
    now_ns = clock.now_ns()
    whole_ns = rule.seconds * SECOND_NS
    least_ns = now_ns + int(whole_ns * _SHARE_LEFT)
    counting = [version for one in objects.values() for version in _counting(one)]
    asked = [one for one in counting if one.stored_ns + whole_ns < least_ns]
    progress.message(f"asking how long {counted(len(asked), 'object')} are locked")
    ends = dict(ends_of_locks(locking, asked))
    due = [one for one, end_ns in ends.items() if end_ns < least_ns]
    until_ns = now_ns + whole_ns
    if not dry_run:
        progress.message(f"extending the locks of {counted(len(due), 'object')}")
        extend_all(locking, due, until_ns)
        ends.update(dict.fromkeys(due, until_ns))
    return ExtensionReport(
        objects=len(objects),
        asked=len(asked),
        extended=len(due),
        extended_bytes=sum(one.size_bytes for one in due),
        locked_until_ns=min(
            (ends.get(one, one.stored_ns + whole_ns) for one in counting), default=0
        ),
        overlaid=tuple(sorted(key for key, one in objects.items() if one.later)),
        elapsed_seconds=clock.elapsed_seconds() - started,
        dry_run=dry_run,
    )


def _counting(one: LockedObject) -> tuple[ObjectVersion, ...]:
    """The versions of an object that are read, now or as of some time."""
    # A configuration has no digest for a name, so another one may be as good.
    return (one.first, *one.later) if one.first.kind == "config" else (one.first,)
