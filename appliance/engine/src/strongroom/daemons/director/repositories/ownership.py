"""Checks that a snapshot in a repository belongs to the client in its catalog record.

The name of the client in a snapshot is proven by its id. But where the director had no access to
the repository at the end of a backup, the catalog took the agent's report, and a compromised agent
may have named the snapshot of another client. So every caller that opens or removes a snapshot
checks here.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from strongroom.daemons.director.catalog.storable_text import plain_columns
from strongroom.daemons.director.shown_text import shown
from strongroom.errors import DamageError, FalseSnapshotError

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.snapshots import SnapshotRecord
    from strongroom.repo.repository import Repository
    from strongroom.repo.snapshots import Snapshot

_log = logging.getLogger(__name__)


def own_snapshot(repository: Repository, record: SnapshotRecord) -> Snapshot:
    """The snapshot of a record. Raises DamageError if it is another client's, and as reading."""
    snapshot = repository.snapshot(record.id)
    if fault := foreign(snapshot, record):
        raise DamageError(f"{fault}; find out what that agent did")
    return snapshot


def require_sound(record: SnapshotRecord) -> None:
    """FalseSnapshotError for a snapshot that was found false: nobody gets its files from here."""
    if record.false_reason:
        raise FalseSnapshotError(
            f"snapshot {record.id[:8]} was found false: {record.false_reason}. What is there of it "
            "can be read on the appliance: `strongroom restore ID --false`, with its whole id"
        )


def foreign(snapshot: Snapshot, record: SnapshotRecord) -> str:
    """Why a snapshot does not belong to the client of its record; "" if it does."""
    if plain_columns({"client": snapshot.host})["client"] == record.client:
        return ""
    # Whoever may see the one client may not know of the other.
    _log.warning("snapshot %s says that it is of %s", record.id, shown(snapshot.host))
    return f"snapshot {record.id[:8]} is not of {record.client}, whose agent reported it"
