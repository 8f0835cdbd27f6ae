"""Which snapshot a backup compares with, and how its listing is read.

Without the parent's listing a backup reads everything, with the same result. So the only error
here that ends a job is a parent that the user named and that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.errors import DamageError
from strongroom.jobs.backup.parent_listing import ParentListing
from strongroom.jobs.backup.wide_directory import WIDE_DIRECTORY_ROWS
from strongroom.repo.keys.roles import RestoreKey
from strongroom.repo.listing.reader import Listing
from strongroom.repo.snapshots import find_snapshot, select_snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strongroom.jobs.backup.options import BackupOptions
    from strongroom.jobs.backup.parent_cache import ParentCache
    from strongroom.repo.index.client_blocks import ClientBlocks
    from strongroom.repo.listing.reader import ChunkReader
    from strongroom.repo.repository import Repository
    from strongroom.repo.snapshots import Snapshot

# Pages are read about in order, each once or twice: a small cache is enough for their blocks.
_CACHE_BYTES: Final = 4 << 20


def choose_parent(
    snapshots: Sequence[Snapshot], paths: tuple[bytes, ...], options: BackupOptions
) -> Snapshot | None:
    """The snapshot to compare with; None for a full backup.

    Without one named in the options it is the newest of the same host, job, paths and kept
    attributes, for the level `differential` the newest full one of those; where there is none of
    the same paths, the newest that shares one, since a path may be missing for a day. Raises
    SnapshotNotFoundError for a named one.
    """
    if options.level == "full":
        return None
    if options.parent is not None:
        return find_snapshot(select_snapshots(snapshots, host=options.host), options.parent)
    fitting = [
        snapshot
        for snapshot in select_snapshots(snapshots, host=options.host, job=options.job)
        if not set(snapshot.paths).isdisjoint(paths)
        and _keeps_the_same(snapshot, options)
        and (options.level == "incremental" or snapshot.level == "full")
    ]
    same = [snapshot for snapshot in fitting if set(snapshot.paths) == set(paths)]
    return find_snapshot(same or fitting, "latest") if fitting else None


def open_parent(
    repository: Repository,
    blocks: ClientBlocks,
    base: Snapshot,
    options: BackupOptions,
    cache: ParentCache | None,
    warn: Callable[[str], None],
) -> ParentListing | None:
    """The listing of `base`; None when it cannot be read: then all files are read.

    A key that cannot read gets it from `cache`. Raises StoreError.
    """
    tuning = options.tuning
    if not _keeps_the_same(base, options):
        warn(
            "the named parent was made with other choices of ACLs, extended attributes or flags, "
            "so everything is read"
        )
        return None
    cached = None
    try:
        if isinstance(repository.key, RestoreKey):
            pages = repository.snapshot(base.id).pages
            chunks: ChunkReader = repository.block_reader(blocks, _CACHE_BYTES)
        else:
            cached = None if cache is None else cache.find(base.id)
            if cached is None:
                return None
            pages, chunks = cached.pages, cached
        listing = Listing(pages, chunks, tuning.lru_size)
    except (DamageError, OSError) as error:
        warn(f"the parent's listing cannot be used, so everything is read: {error}")
        return None
    return ParentListing(
        listing, blocks, base.start_ns, WIDE_DIRECTORY_ROWS, tuning.signature, warn, cached
    )


def _keeps_the_same(snapshot: Snapshot, options: BackupOptions) -> bool:
    """Whether unchanged rows of a snapshot hold what ours would.

    An attribute that was left out does not show in the columns that are compared.
    """
    wanted = options.attribute_options()
    return all(snapshot.options.get(name, "") == choice for name, choice in wanted.items())
