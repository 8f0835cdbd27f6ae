"""Copies the used parts of packs into new packs.

A block is copied as it is stored and only encrypted again. If a good part of it is unused it is
*thinned*: it keeps its id and its list of chunks, so every reference stays valid, but the unused
chunks lose their bytes. Several threads share the packs; each writes packs of its own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from strongroom.base.errors import DamageError
from strongroom.base.progress import Progress
from strongroom.engine.content.codecs import (
    GZIP,
    LZ4,
    LZO,
    NONE,
    ZSTD,
    Compressor,
    decompress,
    parse_compression,
)
from strongroom.engine.prune.pack_usage import THIN_BELOW, BlockUse, Keepers
from strongroom.engine.repository.block_columns import chunk_starts
from strongroom.engine.repository.index.block_rows import IndexedPack
from strongroom.engine.repository.index.live_blocks import LiveBlocks
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.packs import (
    HEADER_SIZE,
    PACK_SIZE_BYTES,
    BlockEntry,
    PackFooter,
    PackWriter,
    entry_aad,
    open_block_cipher,
    parse_header,
    read_footer,
)
from strongroom.engine.repository.repository import Repository

_GREATEST_READ: Final = 8 << 20
_COMPRESSIONS: Final = {NONE: "none", ZSTD: "zstd3", LZ4: "lz4", GZIP: "gzip6", LZO: "lzo"}


class Repacker:
    """Copies packs; call `run` once."""

    def __init__(
        self,
        repository: Repository,
        keepers: Keepers,
        live: LiveBlocks,
        shared: SharedChunks,
        progress: Progress,
        threads: int,
    ) -> None:
        self._repository = repository
        self._keepers = keepers
        self._live = live
        self._shared = shared
        self._progress = progress
        self._threads = max(1, threads)
        self._live_lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, packs: Sequence[IndexedPack]) -> list[PackFooter]:
        """The new packs with the used parts of `packs`; they are in the store, but not synced.

        DamageError when a block does not open: nothing may be removed then. StoreError.
        """
        queue = deque(packs)
        with ThreadPoolExecutor(self._threads, "repack") as executor:
            lanes = [
                executor.submit(self._lane, queue) for _ in range(min(self._threads, len(packs)))
            ]
        return [footer for lane in lanes for footer in lane.result()]

    def _lane(self, queue: deque[IndexedPack]) -> list[PackFooter]:
        lane = _Lane(self._repository.reopen())
        try:
            while not self._stopped.is_set():
                try:
                    pack = queue.popleft()
                except IndexError:
                    return lane.finish()
                self._copy(pack, lane)
            return []
        except BaseException:
            self._stopped.set()
            raise
        finally:
            lane.close()

    def _copy(self, pack: IndexedPack, lane: _Lane) -> None:
        footer = read_footer(lane.repository.store, lane.repository.key, pack.pack_id)
        if footer.columns.block_count != pack.block_count:
            raise DamageError(
                f"pack {pack.pack_id.hex()} does not match the index; run strongroom check"
            )
        rows = slice(pack.first_row, pack.first_row + pack.block_count)
        # LiveBlocks is for one thread at a time.
        with self._live_lock:
            use = self._keepers.use_of(footer.columns, footer.owner, rows, self._live, self._shared)
        for copied_bytes in lane.copy(footer, use):
            self._progress.add(bytes=copied_bytes)


class _Lane:
    """One thread's open packs, one of each owner and kind."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._writers: dict[tuple[bytes, int], PackWriter] = {}
        self._finished: list[PackFooter] = []
        self._compressors: dict[int, Compressor] = {}

    def copy(self, footer: PackFooter, use: BlockUse) -> Iterator[int]:
        """Copy the used blocks; returns the raw size of each copy."""
        repository = self.repository
        name = footer.pack_id.hex()
        header = parse_header(repository.store.get("packs", name, 0, HEADER_SIZE))
        cipher = open_block_cipher(header, repository.restore_key, footer.pack_id)
        starts = chunk_starts(footer.columns.chunk_counts)
        blocks = [entry for entry in footer.blocks if use.in_use[entry.number]]
        for group in _neighbours(blocks):
            first, last = group[0], group[-1]
            size = last.offset + last.stored_length - first.offset
            data = memoryview(repository.store.get("packs", name, first.offset, size))
            for entry in group:
                at = entry.offset - first.offset
                sealed = data[at : at + entry.stored_length]
                stored = cipher.open(sealed, entry_aad(header.raw, entry))
                flags = use.chunk_flags[starts[entry.number] : starts[entry.number + 1]]
                if use.used_raw[entry.number] < THIN_BELOW * entry.raw_length:
                    self._add_thinned(footer, entry, stored, flags)
                else:
                    self._add(footer, entry, entry.codec, stored, entry.raw_length, entry.dead)
                yield entry.raw_length

    def finish(self) -> list[PackFooter]:
        """Publish the open packs; returns every pack written."""
        for writer in self._writers.values():
            self._finished.append(writer.finish())
        self._writers = {}
        return self._finished

    def close(self) -> None:
        """Discard the open packs."""
        for writer in self._writers.values():
            writer.abort()
        self.repository.close()

    def _add_thinned(
        self, footer: PackFooter, entry: BlockEntry, stored: bytes, flags: NDArray[np.bool_]
    ) -> None:
        dead = np.packbits(~flags, bitorder="little").tobytes()
        if not flags.any():
            # It only lists its chunks: shared packs have them.
            self._add(footer, entry, NONE, b"", 0, dead)
            return
        raw = memoryview(decompress(entry.codec, stored, entry.raw_length))
        kept = []
        at = 0
        for slot, length in enumerate(entry.chunk_lengths):
            if is_dead(entry.dead, slot):
                continue
            if flags[slot]:
                kept.append(raw[at : at + length])
            at += length
        joined = b"".join(kept)
        compressor = self._compressors.get(entry.codec)
        if compressor is None:
            compression = parse_compression(_COMPRESSIONS[entry.codec])
            compressor = self._compressors[entry.codec] = Compressor(compression)
        codec, compressed = compressor.compress(joined)
        self._add(footer, entry, codec, compressed, len(joined), dead)

    def _add(
        self,
        footer: PackFooter,
        entry: BlockEntry,
        codec: int,
        stored: Buffer,
        raw_length: int,
        dead: bytes,
    ) -> None:
        of = (footer.owner, footer.kind)
        writer = self._writers.get(of)
        if writer is None:
            writer = self._writers[of] = self.repository.new_pack(footer.kind, footer.owner)
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
            self._finished.append(self._writers.pop(of).finish())


def is_dead(dead: bytes, slot: int) -> bool:
    """Whether a block's bitmap (b"" for a whole block) says that a chunk lost its bytes."""
    return bool(dead) and bool(dead[slot >> 3] >> (slot & 7) & 1)


def _neighbours(blocks: list[BlockEntry]) -> Iterator[list[BlockEntry]]:
    group: list[BlockEntry] = []
    for entry in blocks:
        if group:
            end = group[-1].offset + group[-1].stored_length
            far = entry.offset != end
            if far or end + entry.stored_length - group[0].offset > _GREATEST_READ:
                yield group
                group = []
        group.append(entry)
    if group:
        yield group
