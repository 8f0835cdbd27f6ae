"""Snapshots that no backup makes, stored by anyone who has a put key and uses the engine's API."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable

from kit.tiny_backup import DIRECTORY
from strongroom.engine.content.codecs import NONE
from strongroom.engine.content.digests import block_id, chunk_id, ids_and_lengths
from strongroom.engine.repository.listing.page import encode_page
from strongroom.engine.repository.packs import KIND_LISTING
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import PageReference, Snapshot, Totals
from strongroom.engine.rows.rows import Rows, new_rows

# A block that no one has.
NO_BLOCK = b"\x5a" * 24


def file_row(name: bytes, block: bytes, slot: int = 0, size: int = 10) -> Rows:
    """A directory with one file, whose content is said to be in one chunk of a block."""
    rows = new_rows(
        DIRECTORY, [name], array("q", (0o100644, 0, 0, size, 10**18, 10**18, 1, 65, 1, 0))
    )
    rows.part_counts[0] = 1
    rows.part_blocks += block
    rows.part_slots.append(slot)
    return rows


def stored_page(repository: Repository, raw: bytes) -> bytes:
    """Store a listing page in its own pack, and index it; the id of its block."""
    keys = repository.writer.client.own
    an_id = chunk_id(keys.chunk_key, raw)
    page = block_id(keys.block_key, ids_and_lengths(an_id, len(raw).to_bytes(4, "little")))
    pack = repository.new_pack(KIND_LISTING)
    pack.add(page, an_id, [len(raw)], NONE, raw, len(raw))
    repository.write_index([pack.finish()])
    return page


def forge(
    repository: Repository,
    *listed: Rows,
    change: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot,
    **fields: object,
) -> Snapshot:
    """Commit a snapshot that lists rows, each on its own page; `change` edits it before."""
    pages = []
    sizes = []
    for rows in listed:
        block = stored_page(repository, encode_page([rows]))
        sizes.append(int.from_bytes(rows.stats[24:32], "little"))
        pages.append(PageReference(rows.directory, rows.names, block, 1, sizes[-1]))
    whole = {
        "host": repository.writer.name,
        "paths": (DIRECTORY,),
        "totals": Totals(files=len(pages), content_bytes=sum(sizes)),
        "pages": tuple(pages),
    }
    snapshot = change(Snapshot(**{**whole, **fields}))  # type: ignore[arg-type]
    with repository.lease(repository.writer.name, os.getpid(), "backup") as lease:
        return repository.commit(snapshot, lease)
