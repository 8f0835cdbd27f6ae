"""Saves intact blocks from damaged packs.

A block that is lost in one pack may be intact in another; if in none, its chunks may be in other
blocks, and then it is reassembled from those that are found. What remains lost is identified by
block id and slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strongroom.content.codecs import AUTO, Compressor
from strongroom.content.digests import BLOCK_ID_SIZE, BLOCK_ID_WORDS, CHUNK_ID_SIZE
from strongroom.errors import DamageError, StoreError, UnknownFormatError
from strongroom.jobs.check.packs import open_entry
from strongroom.jobs.upkeep.repack import is_dead
from strongroom.repo.index.id_table import IdTable
from strongroom.repo.index.objects import read_index_object
from strongroom.repo.packs import (
    HEADER_SIZE,
    PACK_SIZE_BYTES,
    open_block_cipher,
    parse_header,
    read_footer,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from typing_extensions import Buffer

    from strongroom.repo.index.index import Index
    from strongroom.repo.packs import BlockEntry, PackFooter, PackWriter
    from strongroom.repo.repository import Repository

_CHUNK_ID = np.dtype((np.void, CHUNK_ID_SIZE))


class LostBlock(NamedTuple):
    """A block without an intact copy, and the kind of pack it was in."""

    kind: int
    entry: BlockEntry


class SavedPacks:
    """Collects blocks in new packs, one open pack of each kind; in a dry run only counts them."""

    def __init__(self, repository: Repository, *, dry_run: bool) -> None:
        self._repository = repository
        self._dry_run = dry_run
        self.blocks = 0
        self._writers: dict[int, PackWriter] = {}
        self.footers: list[PackFooter] = []

    def add(
        self, kind: int, entry: BlockEntry, codec: int, stored: Buffer, raw_length: int, dead: bytes
    ) -> None:
        """Append a block. Raises StoreError."""
        self.blocks += 1
        if self._dry_run:
            return
        writer = self._writers.get(kind)
        if writer is None:
            writer = self._writers[kind] = self._repository.new_pack(kind)
        lengths = entry.chunk_lengths
        writer.add(entry.block_id, entry.chunk_ids, lengths, codec, stored, raw_length, dead)
        if writer.size_bytes >= PACK_SIZE_BYTES:
            self.footers.append(self._writers.pop(kind).finish())

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


def whole_blocks(index: Index, without: Collection[bytes]) -> IdTable:
    """Raw lengths of blocks by id, of the most complete copy outside of some packs."""
    stays = np.array([pack.pack_id not in without for pack in index.packs()], np.bool_)
    rows = np.flatnonzero(stays[index.pack_numbers])
    raw_lengths = index.raw_lengths[rows].astype(np.int64)
    order = np.argsort(-raw_lengths, kind="stable")
    ids = np.frombuffer(index.block_ids(), np.uint64).reshape(-1, BLOCK_ID_WORDS)[rows[order]]
    table = IdTable(BLOCK_ID_SIZE)
    table.add_many(ids.tobytes(), raw_lengths[order])
    return table


def save_blocks(
    repository: Repository,
    pack_id: bytes,
    indexed: PackFooter | None,
    elsewhere: IdTable,
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
        cipher = open_block_cipher(header, key)
    except (DamageError, StoreError, UnknownFormatError):
        return [LostBlock(footer.kind, entry) for entry in _only_here(footer, elsewhere)]
    lost = []
    for entry in _only_here(footer, elsewhere):
        try:
            data = store.get("packs", name, entry.offset, entry.stored_length)
            stored = open_entry(header, cipher, key.put_key, entry, memoryview(data))
        except (DamageError, StoreError):
            lost.append(LostBlock(footer.kind, entry))
        else:
            saved.add(footer.kind, entry, entry.codec, stored, entry.raw_length, entry.dead)
    return lost


def _only_here(footer: PackFooter, elsewhere: IdTable) -> list[BlockEntry]:
    lengths = elsewhere.find(footer.columns.block_ids).tolist()
    return [
        entry
        for entry, length in zip(footer.blocks, lengths, strict=True)
        if length < entry.raw_length
    ]


def heal_blocks(
    repository: Repository, index: Index, lost: list[LostBlock], saved: SavedPacks
) -> int:
    """Reassemble lost blocks from chunks in other blocks; returns the number of chunks found.

    `index` must hold only sound blocks.
    """
    wanted = {
        block.entry.chunk_ids[at : at + CHUNK_ID_SIZE]
        for block in lost
        for at in range(0, len(block.entry.chunk_ids), CHUNK_ID_SIZE)
    }
    places = _places(repository, index, wanted)
    reader = repository.block_reader(index)
    compressor = Compressor(AUTO)
    healed = 0
    for block in lost:
        entry = block.entry
        data: list[bytes] = []
        dead = np.ones(len(entry.chunk_lengths), np.bool_)
        for slot in range(len(entry.chunk_lengths)):
            place = places.get(entry.chunk_ids[slot * CHUNK_ID_SIZE : (slot + 1) * CHUNK_ID_SIZE])
            if place is None or is_dead(entry.dead, slot):
                continue
            try:
                data.append(bytes(reader.chunk(*place)))
            except (DamageError, StoreError):
                continue
            dead[slot] = False
        if not data:
            continue
        healed += len(data)
        raw = b"".join(data)
        codec, stored = compressor.compress(raw)
        bitmap = np.packbits(dead, bitorder="little").tobytes() if dead.any() else b""
        saved.add(block.kind, entry, codec, stored, len(raw), bitmap)
    return healed


def _places(
    repository: Repository, index: Index, wanted: Collection[bytes]
) -> dict[bytes, tuple[bytes, int]]:
    """Block id and slot of those chunks that a block of the index has."""
    places: dict[bytes, tuple[bytes, int]] = {}
    ids = np.unique(np.frombuffer(b"".join(wanted), _CHUNK_ID))
    for name in index.object_names if len(ids) else ():
        an_object = read_index_object(repository.store, repository.key, name, chunks=True)
        for footer in an_object.footers:
            here = np.isin(np.frombuffer(footer.columns.chunk_ids, _CHUNK_ID), ids)
            if not here.any():
                continue
            for entry in footer.blocks:
                for slot in range(len(entry.chunk_lengths)):
                    an_id = entry.chunk_ids[slot * CHUNK_ID_SIZE : (slot + 1) * CHUNK_ID_SIZE]
                    if an_id in wanted and not is_dead(entry.dead, slot):
                        places.setdefault(an_id, (entry.block_id, slot))
    return places
