"""The space of storages, and when their disks will be full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.daemons.director.catalog.snapshots import stored_since
from strongroom.daemons.director.results.resources import Capacity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strongroom.daemons.director.context import DirectorContext
    from strongroom.stores.servable import Space

_DAY_NS: Final = 86400 * SECOND_NS
# The rate is that of so many days; with fewer than the least it is not known.
_MOST_DAYS: Final = 30
_LEAST_DAYS: Final = 7
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
        full_ns = 0
        if space is not None and daily_bytes:
            ahead_ns = int(space.free_bytes / daily_bytes * _DAY_NS)
            full_ns = now_ns + ahead_ns if ahead_ns < _LONGEST_NS else 0
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
