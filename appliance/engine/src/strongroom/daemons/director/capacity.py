"""The space of storages, and when their disks will be full.

The forecast takes by how much the free space of the disk has shrunk, as measured once a day; before
there are enough measurements, what backups have stored, as if nothing were removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.snapshots import stored_since
from strongroom.daemons.director.catalog.state import read_state, write_state
from strongroom.daemons.director.results.resources import Capacity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strongroom.daemons.director.catalog.database import Catalog
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.stores.servable import Space

_DAY_NS: Final = 86400 * SECOND_NS
# The rate is that of so many days; with fewer than the least it is not known.
_MOST_DAYS: Final = 30
_LEAST_DAYS: Final = 7
# As many days between two measurements say how much a disk fills.
_MEASURED_DAYS: Final = 3
_MEASURED: Final = "space of "
# What lies further away is no forecast.
_LONGEST_NS: Final = 20 * 365 * _DAY_NS


def capacities(context: DirectorContext, spaces: Mapping[str, Space]) -> list[Capacity]:
    """Of all Storage resources, by name. Blocks."""
    now_ns = clock.now_ns()
    stored = stored_since(context.catalog, now_ns - _MOST_DAYS * _DAY_NS)
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
    """When a disk is full that fills by so much a day; 0 where that cannot be told."""
    if daily_bytes <= 0:
        return 0
    ahead_ns = int(space.free_bytes / daily_bytes * _DAY_NS)
    return clock.now_ns() + ahead_ns if ahead_ns < _LONGEST_NS else 0


def _noted(catalog: Catalog, storage: str) -> list[tuple[int, int, int]]:
    return [(one[0], one[1], one[2]) for one in read_state(catalog, _MEASURED + storage) or ()]
