"""Makes shared packs from chosen chunks.

A block all of whose chunks are shared is copied as it is stored, under its own id: clients with
equal folders have equal blocks, and then need none of their own. Other chunks are joined to blocks
of about 1 MiB. Everything is verified once more while it is copied.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from strongroom.engine.check.packs import open_entry
from strongroom.engine.content.codecs import AUTO, Compressor, decompress
from strongroom.engine.content.digests import CHUNK_ID_SIZE, block_id, ids_and_lengths
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import (
    HEADER_SIZE,
    KIND_DATA,
    PACK_SIZE_BYTES,
    BlockEntry,
    PackFooter,
    PackWriter,
    open_block_cipher,
    parse_header,
    read_footer,
)
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.share.counting import Chosen

_BLOCK_BYTES: Final = 1 << 20
_MOST_CHUNKS: Final = 512
_SLOT_BITS: Final = 16
# A block is copied as a whole if at least this much of it is new to the shared packs.
_LEAST_NEW: Final = 0.5


class SharedPacks:
    """Writes shared packs; `finish` or `abort` ends it."""

    def __init__(
        self,
        repository: Repository,
        chosen: Chosen,
        shared: SharedChunks,
        keep_alive: Callable[[], None],
        set_aside: SetAside,
    ) -> None:
        """`shared`: what was shared before. Calls `keep_alive` once a pack.

        set_aside: takes packs of which a block cannot be read.
        """
        self._set_aside = set_aside
        self._repository = repository
        self._key = repository.restore_key
        self._keys = self._key.owner(SHARED)
        self._chosen = chosen
        self._shared = shared
        self._keep_alive = keep_alive
        self._is_done = np.zeros(len(chosen), np.bool_)
        self._compressor = Compressor(AUTO)
        self._pack: PackWriter | None = None
        self._ids: list[bytes] = []
        self._data: list[bytes] = []
        self._joined_bytes = 0
        self._footers: list[PackFooter] = []
        self.chunks = 0
        self.raw_bytes = 0
        self.read_bytes = 0

    def copy_all(self) -> None:
        """Copy what was chosen, the pack that was stored first first. StoreError."""
        order = np.argsort(self._chosen.packs, kind="stable")
        numbers, starts = np.unique(self._chosen.packs[order], return_index=True)
        groups = np.split(order, starts[1:]) if len(numbers) else []
        for number, mine in zip(numbers.tolist(), groups, strict=True):
            self._keep_alive()
            pack_id = self._chosen.order[number]
            with self._set_aside.leaving_out("packs", pack_id.hex()):
                self._copy(pack_id, mine)

    def finish(self) -> list[PackFooter]:
        """Publish the open pack; returns every pack written."""
        self._join()
        if self._pack is not None:
            self._footers.append(self._pack.finish())
            self._pack = None
        return self._footers

    def abort(self) -> None:
        """Discard the open pack."""
        if self._pack is not None:
            self._pack.abort()
            self._pack = None

    def _copy(self, pack_id: bytes, mine: NDArray[np.int64]) -> None:
        store = self._repository.store
        footer = read_footer(store, self._key, pack_id)
        header = parse_header(store.get("packs", pack_id.hex(), 0, HEADER_SIZE))
        cipher = open_block_cipher(header, self._key, pack_id)
        keys = self._key.owner(footer.owner)
        entries = footer.blocks
        wanted: dict[int, list[int]] = {}
        for place in mine[~self._is_done[mine]].tolist():
            number, slot = divmod(int(self._chosen.blocks[place]), 1 << _SLOT_BITS)
            wanted.setdefault(number, []).append(slot)
        for number, slots in sorted(wanted.items()):
            entry = entries[number]
            data = store.get("packs", pack_id.hex(), entry.offset, entry.stored_length)
            self.read_bytes += len(data)
            stored = open_entry(header, cipher, keys, entry, memoryview(data))
            self._take(entry, sorted(slots), stored)

    def _take(self, entry: BlockEntry, slots: list[int], stored: bytes) -> None:
        ids = np.frombuffer(entry.chunk_ids, np.uint8).reshape(-1, CHUNK_ID_SIZE)
        places = self._chosen.find(ids)
        qualified = (places >= 0) | self._shared.has(entry.chunk_ids)
        lengths = np.array(entry.chunk_lengths, np.int64)
        fresh = np.zeros(len(places), np.bool_)
        fresh[places >= 0] = ~self._is_done[places[places >= 0]]
        new_bytes = int(lengths[fresh].sum())
        if not entry.dead and qualified.all() and new_bytes >= _LEAST_NEW * entry.raw_length:
            self._add(
                entry.block_id,
                entry.chunk_ids,
                entry.chunk_lengths,
                entry.codec,
                stored,
                entry.raw_length,
            )
            self._settle(places[fresh], new_bytes)
            return
        raw = memoryview(decompress(entry.codec, stored, entry.raw_length))
        live = lengths.copy()
        live[_dead_slots(entry)] = 0
        ends = np.cumsum(live)
        for slot in slots:
            place = int(places[slot])
            if self._is_done[place]:
                continue
            length = int(lengths[slot])
            if self._joined_bytes + length > _BLOCK_BYTES or len(self._ids) >= _MOST_CHUNKS:
                self._join()
            self._ids.append(ids[slot].tobytes())
            self._data.append(bytes(raw[int(ends[slot]) - length : int(ends[slot])]))
            self._joined_bytes += length
            self._settle(np.array([place]), length)

    def _settle(self, places: NDArray[np.int64], new_bytes: int) -> None:
        self._is_done[places] = True
        self.chunks += len(places)
        self.raw_bytes += new_bytes

    def _join(self) -> None:
        """A block of the chunks that wait."""
        if not self._ids:
            return
        ids = b"".join(self._ids)
        lengths = array("I", [len(data) for data in self._data])
        raw = b"".join(self._data)
        codec, stored = self._compressor.compress(raw)
        an_id = block_id(self._keys.own.block_key, ids_and_lengths(ids, lengths))
        self._add(an_id, ids, lengths, codec, stored, len(raw))
        self._ids, self._data, self._joined_bytes = [], [], 0

    def _add(
        self,
        an_id: bytes,
        ids: bytes,
        lengths: array[int],
        codec: int,
        stored: Buffer,
        raw_length: int,
    ) -> None:
        if self._pack is None:
            self._pack = self._repository.new_pack(KIND_DATA, SHARED)
        self._pack.add(an_id, ids, lengths, codec, stored, raw_length, offered=True)
        if self._pack.size_bytes >= PACK_SIZE_BYTES:
            pack, self._pack = self._pack, None
            self._footers.append(pack.finish())


def _dead_slots(entry: BlockEntry) -> NDArray[np.bool_]:
    count = len(entry.chunk_lengths)
    if not entry.dead:
        return np.zeros(count, np.bool_)
    bits = np.unpackbits(np.frombuffer(entry.dead, np.uint8), bitorder="little")[:count]
    return bits.astype(np.bool_)
