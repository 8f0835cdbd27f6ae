"""The catalog and the configuration as a snapshot: what is written for it, and what is entered."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.daemons.director.catalog.portable import write_portable
from strongroom.daemons.director.catalog.snapshots import SnapshotRecord
from strongroom.repo.snapshots import read_snapshot

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.runs import RunRecord
    from strongroom.daemons.director.context import DirectorContext

CATALOG_JOB: Final = "catalog"
CATALOG_TAG: Final = "strongroom-catalog"
CATALOG_FILE: Final = "catalog.jsonl"


def write_catalog(context: DirectorContext, folder: str) -> int:
    """Write all rows to a file in a folder; how many there are. Blocks.

    Raises CatalogDamagedError: a copy of a damaged catalog would displace a good one.
    """
    context.catalog.check()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, CATALOG_FILE), "wb") as file:
        return write_portable(context.catalog, file)


def catalog_snapshot(
    context: DirectorContext, storage: str, name: str, record: RunRecord
) -> SnapshotRecord:
    """The entry of the snapshot that a run made of the catalog. Blocks."""
    repository = context.repositories.open(storage)
    try:
        snapshot = read_snapshot(repository.store, repository.key, name)
    finally:
        repository.close()
    return SnapshotRecord(
        id=name,
        client=context.name,
        job=CATALOG_JOB,
        storage=storage,
        pool=record.pool,
        run=record.id,
        start_ns=snapshot.start_ns,
        server_ns=snapshot.server_ns or clock.now_ns(),
        files=snapshot.totals.files,
        bytes=snapshot.totals.content_bytes,
        stored_bytes=snapshot.totals.stored_bytes,
        tags=snapshot.tags,
    )
