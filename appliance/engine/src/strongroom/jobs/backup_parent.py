"""Which snapshot a backup compares with, and how its listing is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.jobs.parent_listing import ParentListing
from strongroom.jobs.shard import WIDE_DIRECTORY_ROWS
from strongroom.repo.keys import RestoreKey
from strongroom.repo.listing_reader import Listing
from strongroom.repo.snapshots import find_snapshot, select_snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.jobs.backup_options import BackupOptions, Tuning
    from strongroom.repo.index import Index
    from strongroom.repo.repository import Repository
    from strongroom.repo.snapshots import Snapshot

# Pages are read about in order, each once or twice: a small cache is enough for their blocks.
_CACHE_BYTES: Final = 4 << 20


def choose_parent(
    snapshots: Sequence[Snapshot], paths: tuple[bytes, ...], options: BackupOptions
) -> Snapshot | None:
    """The snapshot to compare with; None for a full backup.

    Without one named in the options it is the newest of the same host, job and paths, for the
    level `differential` the newest full one. Raises SnapshotNotFoundError for a named one.
    """
    if options.level == "full":
        return None
    if options.parent is not None:
        return find_snapshot(snapshots, options.parent)
    fitting = [
        snapshot
        for snapshot in select_snapshots(snapshots, host=options.host, job=options.job)
        if set(snapshot.paths) == set(paths)
        and (options.level == "incremental" or snapshot.level == "full")
    ]
    return find_snapshot(fitting, "latest") if fitting else None


def open_parent(
    repository: Repository, index: Index, base: Snapshot, tuning: Tuning
) -> ParentListing | None:
    """The listing of `base`; None with a put key, which cannot read it: then all is read."""
    if not isinstance(repository.key, RestoreKey):
        return None
    whole = repository.snapshot(base.id)
    reader = repository.block_reader(index, _CACHE_BYTES)
    listing = Listing(whole.pages, reader, tuning.lru_size)
    return ParentListing(listing, index, base.start_ns, WIDE_DIRECTORY_ROWS, tuning.signature)
