"""Whether there is still nothing to do after objects came and none went: only these are read.

Where a count found nothing to do, and then packs, index objects and snapshots came and nothing
else, all that was used is used still. So only the new packs can have something that no snapshot
uses, and only the new snapshots can use it, by pages that are new. Whatever is not as simple as
that is counted as a whole: then there is no outcome here. Nothing is removed or written by this.

It errs to one side. Pages that were there before are not read again: what only they use of new
packs counts as unused. What the new snapshots use of old packs does not count at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from strongroom.engine.prune.kept_outcome import Listed, Margin, Outcome
from strongroom.engine.prune.marking import parts_of_pages
from strongroom.engine.prune.pack_usage import Keepers, PackUsage, measure_usage
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.prune.range_counts import BLOCK_BYTES
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.live_blocks import LiveBlocks
from strongroom.engine.repository.index.objects import read_index_object
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.listing.page import decode_parts
from strongroom.engine.repository.packs import PackFooter
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import is_of_one_object

_CACHE_BYTES: Final = 8 << 20


class Growth(NamedTuple):
    """What came: packs with their sizes, and names of snapshots and index objects."""

    packs: dict[bytes, int]
    snapshots: list[str]
    index_objects: list[str]

    @classmethod
    def between(cls, before: Listed, now: Listed) -> Growth | None:
        """None where anything went or is marked, or an object is verified that was not before."""
        if now.rows["tombstones"] or before.rows["tombstones"]:
            return None
        if now.unverified != before.unverified:
            return None
        if any(before.without(now, kind) for kind in ("packs", "snapshots", "index")):
            return None
        return cls(
            now.without(before, "packs"),
            [name.hex() for name in now.without(before, "snapshots")],
            [name.hex() for name in now.without(before, "index")],
        )


def margin_of(usages: Sequence[PackUsage], owners: Sequence[bytes]) -> Margin | None:
    """That of a count with nothing to do; owners: of packs. None where something is shared."""
    # What is used of shared packs follows from all blocks of all clients.
    if SHARED in owners:
        return None
    partly = [usage for usage in usages if usage.freeable_bytes > 0]
    return Margin(
        sum(usage.freeable_bytes for usage in partly),
        min((usage.used_bytes / usage.block_bytes for usage in partly), default=1.0),
    )


def grown(
    repository: Repository, earlier: Outcome, now: Listed, options: PruneOptions
) -> Outcome | None:
    """The outcome now, by an earlier one and what came; None where all must be counted.

    StoreError.
    """
    growth = Growth.between(earlier.listed, now)
    if earlier.margin is None or growth is None:
        return None
    try:
        measured = _measured(repository, growth, options.memory_bytes // BLOCK_BYTES)
    except Exception as error:
        if not is_of_one_object(error):
            raise
        # Something is damaged, or went meanwhile: who counts all says what.
        return None
    if measured is None:
        return None
    usages, owners = measured
    came = margin_of(usages, owners)
    if came is None or not all(usage.in_use for usage in usages):
        return None
    margin = Margin(
        earlier.margin.freeable_bytes + came.freeable_bytes,
        min(earlier.margin.least_used, came.least_used),
    )
    snapshots, packs, pack_bytes, used_bytes, unused_bytes = earlier.figures
    used_bytes += sum(usage.used_bytes for usage in usages)
    if (
        margin.freeable_bytes > options.max_unused * used_bytes
        and margin.least_used < options.repack_below
    ):
        return None
    figures = (
        snapshots + len(growth.snapshots),
        packs + len(growth.packs),
        pack_bytes + sum(growth.packs.values()),
        used_bytes,
        unused_bytes + sum(usage.unused_bytes for usage in usages),
    )
    return msgspec.structs.replace(
        earlier,
        figures=figures,
        listed=now,
        charges=dict.fromkeys(owners, 0) | earlier.charges,
        margin=margin,
        is_grown=True,
    )


def _measured(
    repository: Repository, growth: Growth, most_blocks: int
) -> tuple[list[PackUsage], list[bytes]] | None:
    """The usage of new packs, and the owner of each; None where others are described as well.

    Or where so many blocks came that they are counted in parts.
    """
    footers: list[PackFooter] = []
    left = most_blocks
    for name in growth.index_objects:
        found = read_index_object(repository.store, repository.key, name, chunks=False)
        left -= sum(footer.columns.block_count for footer in found.footers)
        if found.superseded or left < 0:
            return None
        footers += found.footers
    # Each new pack once, and no other: not one of a job that runs, nor one that two clients claim.
    if sorted((one.pack_id, one.size_bytes) for one in footers) != sorted(growth.packs.items()):
        return None
    index = Index.of(footers, ())
    index.object_names = tuple(growth.index_objects)
    live = _marked(repository, index, growth.snapshots)
    keepers = Keepers(index, growth.packs)
    usages = measure_usage(repository, index, keepers, live, SharedChunks())
    return usages, [footer.owner for footer in footers]


def _marked(repository: Repository, index: Index, names: Sequence[str]) -> LiveBlocks:
    """What snapshots use of the packs of an index, by pages that are in these."""
    live = LiveBlocks()
    readers = ClientReaders(repository, index, _CACHE_BYTES)
    seen: set[tuple[bytes, bytes]] = set()
    for name in names:
        snapshot = repository.snapshot(name)
        owner, blocks = snapshot.owner, index.of_client(snapshot.owner)
        pages = list(dict.fromkeys(page.block_id for page in snapshot.pages))
        pages = [page for page in pages if (owner, page) not in seen and page in blocks]
        seen.update((owner, page) for page in pages)
        live.mark(parts_of_pages(pages), blocks, only_what_is_there=True)
        for _, raw in readers.of(owner).blocks(pages):
            live.mark(decode_parts(raw), blocks, only_what_is_there=True)
    return live
