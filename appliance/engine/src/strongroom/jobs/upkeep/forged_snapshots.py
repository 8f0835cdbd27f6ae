"""Snapshots that an agent stored in the name of another client.

The host in a snapshot is set by whoever wrote it. If a storage daemon knows who stored what, the
host is compared with that: false snapshots must not push out the true ones of the client that they
name. What the appliance stored, and what has no known owner, is trusted, as is everything in a
plain folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.errors import RightError
from strongroom.stores.capabilities import KnowsOwners

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strongroom.repo.snapshots import Snapshot
    from strongroom.stores.store import Store


def falsely_named(store: Store, snapshots: Iterable[Snapshot]) -> dict[str, str]:
    """Ids of those whose host did not store them, and who did. Raises StoreError."""
    owners = owners_of(store)
    found = {}
    for snapshot in snapshots:
        stored_by = owners.get(snapshot.id, {""})
        if "" not in stored_by and snapshot.host not in stored_by:
            found[snapshot.id] = ", ".join(sorted(stored_by))
    return found


def owners_of(store: Store) -> dict[str, set[str]]:
    """Who stored each snapshot, as far as the store knows; "" is the appliance. StoreError."""
    knowing = store.capability(KnowsOwners)
    if knowing is None:
        return {}
    try:
        return knowing.owners("snapshots")
    except RightError:
        # Whoever may not ask may not delete either.
        return {}
