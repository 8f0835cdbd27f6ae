"""Whether a snapshot in a repository is of the client that the catalog says.

The catalog takes the client from the snapshot's own host, whether a run made it, a copy job, the
director itself or whether it was read back. Only where the repository could not be asked at the end
of a backup it took the agent's word, and an agent that was taken over may have named the snapshot
of another client. So whoever opens a snapshot for somebody, or removes one, asks here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.daemons.director.catalog.storable_text import plain_columns
from strongroom.errors import DamageError

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.snapshots import SnapshotRecord
    from strongroom.repo.repository import Repository
    from strongroom.repo.snapshots import Snapshot


def own_snapshot(repository: Repository, record: SnapshotRecord) -> Snapshot:
    """The snapshot of a record. Raises DamageError where it is another client's, and as reading."""
    snapshot = repository.snapshot(record.id)
    if fault := foreign(snapshot, record):
        raise DamageError(f"{fault}; find out what that agent did")
    return snapshot


def foreign(snapshot: Snapshot, record: SnapshotRecord) -> str:
    """What is wrong with a snapshot that is not of the client of its record; "" where it is."""
    if plain_columns({"client": snapshot.host})["client"] == record.client:
        return ""
    return (
        f"snapshot {record.id[:8]} is of {snapshot.host[:100]!r}, not of {record.client}, "
        "whose agent named it"
    )
