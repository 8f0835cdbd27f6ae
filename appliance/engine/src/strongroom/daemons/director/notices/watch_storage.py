"""The disks of repositories: how full they are, and whether they can be reached."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.capacity import full_at, note_space, shrinks_by
from strongroom.daemons.director.catalog.incidents import Condition
from strongroom.errors import CatalogError, StrongroomError
from strongroom.net.storage.place import parse_place
from strongroom.net.storage.store import RemoteStore
from strongroom.printable import printable
from strongroom.stores.servable import Space

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.daemons.director.context import DirectorContext
    from strongroom.stores.store import Store

DISK: Final = "disk:"
REACH: Final = "storage:"
# A failure counts when it is seen so often in a row.
_FAILURES: Final = 2
# A disk is no longer full when it is so many percent below the threshold.
_BELOW: Final = 2
_SOON_DAYS: Final = 7
_DAY_NS: Final = 86400 * SECOND_NS
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
                    remedy="see whether the storage daemon runs and its disk is mounted",
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
                        remedy="prune, keep less, or enlarge the disk",
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
        remedy="prune, keep less, or enlarge the disk",
        since_ns=now_ns,
        storage=name,
    )


def _space(store: Store, place: str) -> Space | None:
    """Of the file system with the objects; None where it cannot be known."""
    from strongroom.stores.local import LocalStore

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
