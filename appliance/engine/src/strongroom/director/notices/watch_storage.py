"""The disks of repositories: how full they are, when they will be, and whether they can be reached.

The forecast takes by how much the free space of the disk has shrunk, as measured once a day; before
there are enough measurements, what backups have stored, as if nothing were removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import CatalogError, StrongroomError
from strongroom.base.printable import printable
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.incidents import Condition
from strongroom.director.catalog.snapshots import stored_since
from strongroom.director.catalog.state import read_state, write_state
from strongroom.director.context import DirectorContext
from strongroom.director.results.status import Capacity
from strongroom.engine.stores.servable import Space
from strongroom.engine.stores.store import Store
from strongroom.net.storage.place import parse_place
from strongroom.net.storage.store import RemoteStore

DISK: Final = "disk:"
REACH: Final = "storage:"
# A failure counts when it is seen so often in a row.
_FAILURES: Final = 2
# A disk is no longer full when it is so many percent below the threshold.
_BELOW: Final = 2
_SOON_DAYS: Final = 7
_DAY_NS: Final = 86400 * SECOND_NS
# The rate is that of so many days; with fewer than the least it is not known.
_MOST_DAYS: Final = 30
_LEAST_DAYS: Final = 7
# As many days between two measurements say how much a disk fills.
_MEASURED_DAYS: Final = 3
_MEASURED: Final = "space of "
# What lies further away is no forecast.
_LONGEST_NS: Final = 20 * 365 * _DAY_NS
_FREE: Final = "strongroom_storage_free_bytes"
_SIZE: Final = "strongroom_storage_size_bytes"


@dataclass(slots=True)
class _Seen:
    """What was seen of one storage: used percent, None before the first look; failures in a row.

    full_ns: when its disk will be full as it fills now, 0 where that is not known.
    """

    used: float | None = None
    space: Space | None = None
    full_ns: int = 0
    failures: int = 0
    error: str = ""
    failing_since_ns: int = 0


@dataclass(slots=True)
class StorageWatch:
    """Measures in one thread, and is asked for conditions in another; each value is set at once."""

    context: DirectorContext
    _seen: dict[str, _Seen] = field(default_factory=dict)

    def measure(self, storage: str) -> None:
        """Look at one storage. Blocks, perhaps for long."""
        seen = self._seen.setdefault(storage, _Seen())
        try:
            store = self.context.repositories.open_store(storage)
            try:
                space = _space(store, self.context.repositories.place(storage).place)
            finally:
                store.close()
        except (StrongroomError, OSError) as error:
            seen.error = printable(str(error), 300)
            seen.failing_since_ns = seen.failing_since_ns or clock.now_ns()
            seen.failures += 1
            return
        seen.failures, seen.failing_since_ns = 0, 0
        if space is not None and space.size_bytes:
            seen.space = space
            self.context.repository_spaces[storage] = space
            seen.used = 100.0 * (1 - space.free_bytes / space.size_bytes)
            with suppress(CatalogError):
                catalog = self.context.catalog
                note_space(catalog, storage, space)
                seen.full_ns = full_at(space, shrinks_by(catalog, storage, space) or 0.0)

    def spaces(self) -> dict[str, Space]:
        """The space at each storage, as last measured; without those where it is not known."""
        return {name: seen.space for name, seen in self._seen.items() if seen.space is not None}

    def has_measured(self, topic: str) -> bool:
        """Whether an incident of this topic can be judged now."""
        begin, _, storage = topic.partition(":")
        seen = self._seen.get(storage)
        if storage not in self.context.configuration.storages:
            return True
        if seen is None:
            return False
        return seen.failures == 0 if begin + ":" == REACH else seen.used is not None

    def conditions(self, lasting: frozenset[str]) -> Iterator[Condition]:
        """What is wrong; lasting: the topics of open incidents."""
        for name, storage in self.context.configuration.storages.items():
            seen = self._seen.get(name)
            if seen is None:
                continue
            if seen.failures >= _FAILURES:
                yield Condition(
                    event="storage-unreachable",
                    topic=REACH + name,
                    title=f"the repository of storage {name} cannot be reached",
                    detail=seen.error,
                    since_ns=seen.failing_since_ns,
                    storage=name,
                )
            if seen.used is None or seen.space is None:
                continue
            thresholds = [
                (event, threshold, words)
                for event, threshold, words in (
                    ("disk-full", storage.full_at, "is full"),
                    ("disk-nearly-full", storage.nearly_full_at, "is nearly full"),
                )
                if threshold
            ]
            for event, threshold, words in thresholds:
                is_lowest = event == thresholds[-1][0]
                room = _BELOW if is_lowest and DISK + name in lasting else 0
                if seen.used >= threshold - room:
                    free = f"{seen.space.free_bytes / (1 << 30):,.1f} GiB are free"
                    yield Condition(
                        event=event,
                        topic=DISK + name,
                        title=f"the disk of storage {name} {words}",
                        detail=f"{seen.used:.0f} percent are used, {free}",
                        since_ns=clock.now_ns(),
                        storage=name,
                    )
                    break
            else:
                yield from _filling(name, seen, DISK + name in lasting)


def _filling(name: str, seen: _Seen, lasts: bool) -> Iterator[Condition]:
    """A disk that will be full within days, before any threshold is reached."""
    most_days = _SOON_DAYS + (_BELOW if lasts else 0)
    now_ns = clock.now_ns()
    if seen.space is None or not seen.full_ns or seen.full_ns > now_ns + most_days * _DAY_NS:
        return
    days = max(0.0, (seen.full_ns - now_ns) / _DAY_NS)
    free = f"{seen.space.free_bytes / (1 << 30):,.1f} GiB are free"
    yield Condition(
        event="disk-filling",
        topic=DISK + name,
        title=f"the disk of storage {name} will be full within {_SOON_DAYS} days",
        detail=f"about {days:.0f} days are left at the rate of the last days, {free}",
        since_ns=now_ns,
        storage=name,
    )


def _space(store: Store, place: str) -> Space | None:
    """Of the file system with the objects; None where it cannot be known."""
    from strongroom.engine.stores.local import LocalStore

    if isinstance(store, LocalStore):
        return store.space()
    if not isinstance(store, RemoteStore):
        return None
    from prometheus_client.parser import text_string_to_metric_families

    named = parse_place(place).repository
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(store.metrics()):
        for sample in family.samples:
            if sample.name in (_FREE, _SIZE):
                repository = sample.labels.get("repository", "")
                found.setdefault(repository, {})[sample.name] = sample.value
    # Without a name the place means the daemon's first repository.
    chosen = found.get(named) or next(iter(found.values()), {})
    if _FREE not in chosen or _SIZE not in chosen:
        return None
    return Space(int(chosen[_FREE]), int(chosen[_SIZE]))


def capacities(context: DirectorContext, spaces: Mapping[str, Space]) -> list[Capacity]:
    """Of all Storage resources, by name. Blocks."""
    now_ns = clock.now_ns()
    stored = _stored(context, now_ns - _MOST_DAYS * _DAY_NS)
    found = []
    for name in sorted(context.configuration.storages):
        space = spaces.get(name)
        first_ns, added_bytes = stored.get(name, (now_ns, 0))
        past_days = (now_ns - first_ns) / _DAY_NS
        daily_bytes = int(added_bytes / past_days) if past_days >= _LEAST_DAYS else None
        rate = None if space is None else shrinks_by(context.catalog, name, space)
        if rate is None:
            rate = float(daily_bytes or 0)
        full_ns = full_at(space, rate) if space is not None else 0
        found.append(
            Capacity(
                storage=name,
                size_bytes=space.size_bytes if space is not None else 0,
                free_bytes=space.free_bytes if space is not None else 0,
                stored_bytes=context.repository_bytes.get(name, 0),
                daily_bytes=daily_bytes,
                full_ns=full_ns,
            )
        )
    return found


def _stored(context: DirectorContext, since_ns: int) -> dict[str, tuple[int, int]]:
    """What was stored since then; it may be kept for a hundred times as long as that takes."""
    begun = clock.elapsed_seconds()
    if context.stored is None or begun >= context.stored[0]:
        found = stored_since(context.catalog, since_ns)
        ended = clock.elapsed_seconds()
        context.stored = (ended + 100 * (ended - begun), found)
    return context.stored[1]


def note_space(catalog: Catalog, storage: str, space: Space) -> None:
    """Keep what was measured, once a day. Blocks."""
    now_ns = clock.now_ns()
    noted = _noted(catalog, storage)
    if noted and 0 <= now_ns - noted[-1][0] < _DAY_NS:
        return
    recent = [one for one in noted if now_ns - _MOST_DAYS * _DAY_NS <= one[0] < now_ns]
    recent.append((now_ns, space.free_bytes, space.size_bytes))
    write_state(catalog, _MEASURED + storage, recent)


def shrinks_by(catalog: Catalog, storage: str, space: Space) -> float | None:
    """By how much the free space shrinks a day, in bytes; None where that is not known. Blocks."""
    now_ns = clock.now_ns()
    for time_ns, free_bytes, size_bytes in _noted(catalog, storage):
        days = (now_ns - time_ns) / _DAY_NS
        if size_bytes == space.size_bytes and _MEASURED_DAYS <= days <= _MOST_DAYS:
            return (free_bytes - space.free_bytes) / days
    return None


def full_at(space: Space, daily_bytes: float) -> int:
    """When a disk is full that fills by so much a day; 0 where that cannot be reported."""
    if daily_bytes <= 0:
        return 0
    ahead_ns = int(space.free_bytes / daily_bytes * _DAY_NS)
    return clock.now_ns() + ahead_ns if ahead_ns < _LONGEST_NS else 0


def _noted(catalog: Catalog, storage: str) -> list[tuple[int, int, int]]:
    return [(one[0], one[1], one[2]) for one in read_state(catalog, _MEASURED + storage) or ()]
