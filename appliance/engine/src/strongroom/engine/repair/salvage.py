"""Saves intact blocks from damaged packs.

A block that is lost in one pack may be intact in another; if in none, its chunks may be in other
blocks, and then it is reassembled from those that are found. What remains lost is identified by
block id and slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
from typing_extensions import Buffer

from strongroom.base.errors import DamageError, StoreError, UnknownFormatError
from strongroom.engine.check.packs import open_entry
from strongroom.engine.content.codecs import AUTO, Compressor
from strongroom.engine.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE
from strongroom.engine.prune.repack import is_dead
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.index.block_rows import SHARED_NUMBER
from strongroom.engine.repository.index.id_table import OwnedIds
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.objects import read_index_object
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import (
    HEADER_SIZE,
    PACK_SIZE_BYTES,
    BlockEntry,
    PackFooter,
    PackWriter,
    open_block_cipher,
    parse_header,
    read_footer,
)
from strongroom.engine.repository.repository import Repository

_CHUNK_ID = np.dtype((np.void, CHUNK_ID_SIZE))


class LostBlock(NamedTuple):
    """A block without an intact copy, its owner, and the kind of pack it was in."""

    owner: bytes
    kind: int
    entry: BlockEntry


class SavedPacks:
    """Collects blocks in new packs, one open pack of each owner and kind.

    In a dry run it only counts them.
    """

    def __init__(self, repository: Repository, *, dry_run: bool) -> None:
        self._repository = repository
        self._dry_run = dry_run
        self.blocks = 0
        self._writers: dict[tuple[bytes, int], PackWriter] = {}
        self.footers: list[PackFooter] = []

    def add(
        self,
        owner: bytes,
        kind: int,
        entry: BlockEntry,
        codec: int,
        stored: Buffer,
        raw_length: int,
        dead: bytes,
    ) -> None:
        """Append a block. Raises StoreError."""
        self.blocks += 1
        if self._dry_run:
            return
        writer = self._writers.get((owner, kind))
        if writer is None:
            writer = self._writers[owner, kind] = self._repository.new_pack(kind, owner)
        writer.add(
            entry.block_id,
            entry.chunk_ids,
            entry.chunk_lengths,
            codec,
            stored,
            raw_length,
            dead,
            offered=entry.offered,
        )
        if writer.size_bytes >= PACK_SIZE_BYTES:
            self.footers.append(self._writers.pop((owner, kind)).finish())

    def finish(self) -> list[PackFooter]:
        """Publish the open packs; returns all packs written."""
        for writer in self._writers.values():
            self.footers.append(writer.finish())
        self._writers = {}
        return self.footers

    def abort(self) -> None:
        """Discard the open packs."""
        for writer in self._writers.values():
            writer.abort()


def indexed_footers(
    repository: Repository, object_names: Iterable[str], pack_ids: Collection[bytes]
) -> dict[bytes, PackFooter]:
    """Index entries of some packs."""
    found: dict[bytes, PackFooter] = {}
    for name in object_names if pack_ids else ():
        an_object = read_index_object(repository.store, repository.key, name, chunks=True)
        for footer in an_object.footers:
            if footer.pack_id in pack_ids:
                found.setdefault(footer.pack_id, footer)
    return found


def whole_blocks(index: Index, without: Collection[bytes]) -> OwnedIds:
    """Rows of the index by owner and block id, of the most complete copy outside of some packs."""
    stays = np.array([pack.pack_id not in without for pack in index.packs()], np.bool_)
    rows = np.flatnonzero(stays[index.pack_numbers])
    raw_lengths = index.raw_lengths[rows].astype(np.int64)
    order = np.argsort(-raw_lengths, kind="stable")
    ids = np.frombuffer(index.block_ids(), np.uint8).reshape(-1, BLOCK_ID_SIZE)[rows[order]]
    table = OwnedIds()
    table.add(ids.tobytes(), index.owners_of_rows[rows[order]], raw_lengths[order])
    return table


def save_blocks(
    repository: Repository,
    pack_id: bytes,
    indexed: PackFooter | None,
    index: Index,
    elsewhere: OwnedIds,
    saved: SavedPacks,
) -> list[LostBlock]:
    """Copy the intact blocks of a damaged or missing pack; returns the blocks that are lost.

    `indexed`: its index entry, if any. Blocks that are as complete elsewhere are neither copied nor
    lost.
    """
    store, key = repository.store, repository.restore_key
    name = pack_id.hex()
    footer = indexed
    try:
        footer = read_footer(store, key, pack_id)
    except (DamageError, StoreError, UnknownFormatError):
        if footer is None:
            return []
    assert footer is not None
    try:
        header = parse_header(store.get("packs", name, 0, HEADER_SIZE))
        cipher = open_block_cipher(header, key, pack_id)
    except (DamageError, StoreError, UnknownFormatError):
        return [
            LostBlock(footer.owner, footer.kind, entry)
            for entry in _only_here(footer, index, elsewhere)
        ]
    keys = key.owner(footer.owner)
    lost = []
    for entry in _only_here(footer, index, elsewhere):
        try:
            data = store.get("packs", name, entry.offset, entry.stored_length)
            stored = open_entry(header, cipher, keys, entry, memoryview(data))
        except (DamageError, StoreError):
            lost.append(LostBlock(footer.owner, footer.kind, entry))
        else:
            raw_length, dead = entry.raw_length, entry.dead
            saved.add(footer.owner, footer.kind, entry, entry.codec, stored, raw_length, dead)
    return lost


def _only_here(footer: PackFooter, index: Index, elsewhere: OwnedIds) -> list[BlockEntry]:
    ids = footer.columns.block_ids
    own = elsewhere.find(ids, index.number_of(footer.owner))
    lengths = np.maximum(own, elsewhere.find(ids, SHARED_NUMBER)).tolist()
    return [
        entry
        for entry, length in zip(footer.blocks, lengths, strict=True)
        if length < entry.raw_length
    ]


def heal_blocks(
    repository: Repository, index: Index, lost: list[LostBlock], saved: SavedPacks
) -> int:
    """Reassemble lost blocks from chunks in other blocks; returns the number of chunks found.

    The other blocks are the same client's, or shared. `index` must hold only sound blocks.
    """
    wanted = {
        (block.owner, block.entry.chunk_ids[at : at + CHUNK_ID_SIZE])
        for block in lost
        for at in range(0, len(block.entry.chunk_ids), CHUNK_ID_SIZE)
    }
    places = _places(repository, index, wanted)
    readers = ClientReaders(repository, index)
    compressor = Compressor(AUTO)
    healed = 0
    for block in lost:
        entry = block.entry
        data: list[bytes] = []
        is_left_to_shared = False
        dead = np.ones(len(entry.chunk_lengths), np.bool_)
        for slot in range(len(entry.chunk_lengths)):
            an_id = entry.chunk_ids[slot * CHUNK_ID_SIZE : (slot + 1) * CHUNK_ID_SIZE]
            if block.owner != SHARED and entry.offered and (SHARED, an_id) in places:
                # It needs no bytes here, but the block must list it.
                is_left_to_shared = True
                continue
            place = places.get((block.owner, an_id))
            if place is None or is_dead(entry.dead, slot):
                continue
            try:
                data.append(bytes(readers.of(block.owner).chunk(*place)))
            except (DamageError, StoreError):
                continue
            dead[slot] = False
        if not data and not is_left_to_shared:
            continue
        healed += len(data)
        raw = b"".join(data)
        codec, stored = compressor.compress(raw)
        bitmap = np.packbits(dead, bitorder="little").tobytes() if dead.any() else b""
        saved.add(block.owner, block.kind, entry, codec, stored, len(raw), bitmap)
    return healed


def _places(
    repository: Repository, index: Index, wanted: Collection[tuple[bytes, bytes]]
) -> dict[tuple[bytes, bytes], tuple[bytes, int]]:
    """Block id and slot of those chunks, by owner and id, that a block of the index has."""
    places: dict[tuple[bytes, bytes], tuple[bytes, int]] = {}
    chunk_ids = {an_id for _, an_id in wanted}
    ids = np.unique(np.frombuffer(b"".join(chunk_ids), _CHUNK_ID))
    for name in index.object_names if len(ids) else ():
        an_object = read_index_object(repository.store, repository.key, name, chunks=True)
        for footer in an_object.footers:
            here = np.isin(np.frombuffer(footer.columns.chunk_ids, _CHUNK_ID), ids)
            if not here.any():
                continue
            for entry in footer.blocks:
                for slot in range(len(entry.chunk_lengths)):
                    an_id = entry.chunk_ids[slot * CHUNK_ID_SIZE : (slot + 1) * CHUNK_ID_SIZE]
                    if an_id in chunk_ids and not is_dead(entry.dead, slot):
                        places.setdefault((footer.owner, an_id), (entry.block_id, slot))
    return places
