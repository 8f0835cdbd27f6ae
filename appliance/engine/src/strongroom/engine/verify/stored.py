"""Read everything that one snapshot needs, as a restore would, without writing.

Every chunk is fetched, decoded and compared with its id, and every page of the listing with its
own; each once, however many files share it. Blocks are read in the order they are stored.
"""

from __future__ import annotations

from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.errors import DamageError
from strongroom.base.progress import Progress
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.listing.page import decode_parts
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot

_CACHE_BYTES: Final = 64 << 20
# Blocks are about 1 MiB raw; so many fit in the cache.
_FETCHED_BLOCKS: Final = 16
_MOST_NAMED: Final = 100


class StoredReport(msgspec.Struct, frozen=True):
    """What was read; damage: what was wrong, the first of it."""

    pages: int
    chunks: int
    read_bytes: int
    damaged: int
    damage: tuple[str, ...]
    elapsed_seconds: float


def verify_stored(repository: Repository, snapshot: Snapshot, progress: Progress) -> StoredReport:
    """Read all that `snapshot` (read with its pages) needs. Raises StoreError, KeyRightError."""
    started = clock.elapsed_seconds()
    index = repository.kept_index()
    reader = repository.reader_of(snapshot, index, _CACHE_BYTES)
    progress.message("reading the listing")
    damage: list[str] = []
    damaged = 0
    wanted: dict[bytes, set[int]] = {}
    for page in snapshot.pages:
        try:
            parts = decode_parts(bytes(reader.chunk(page.block_id, 0)))
        except DamageError as error:
            damaged += 1
            damage.append(f"a page of the listing: {error}")
            continue
        for place, slot in zip(parts.places.tolist(), parts.slots.tolist(), strict=True):
            start = place * BLOCK_ID_SIZE
            block_id = parts.block_ids[start : start + BLOCK_ID_SIZE]
            wanted.setdefault(block_id, set()).add(slot)
    progress.message("reading content")
    chunks = read_bytes = 0
    ids = list(wanted)
    for start in range(0, len(ids), _FETCHED_BLOCKS):
        some = ids[start : start + _FETCHED_BLOCKS]
        try:
            reader.prefetch(some)
        except DamageError:
            # One of them; reading the chunks shows which.
            progress.message("reading content, some of it damaged")
        before = read_bytes
        for block_id in some:
            for slot in sorted(wanted[block_id]):
                try:
                    read_bytes += len(reader.chunk(block_id, slot))
                except DamageError as error:
                    damaged += 1
                    if len(damage) < _MOST_NAMED:
                        damage.append(str(error))
                chunks += 1
        progress.add(bytes=read_bytes - before)
    return StoredReport(
        pages=len(snapshot.pages),
        chunks=chunks,
        read_bytes=read_bytes,
        damaged=damaged,
        damage=tuple(damage),
        elapsed_seconds=clock.elapsed_seconds() - started,
    )
