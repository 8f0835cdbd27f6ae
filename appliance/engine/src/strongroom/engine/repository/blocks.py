"""Reads blocks and chunks: decrypted, decompressed, and verified end to end.

The seal of a block proves that a holder of the public key wrote it, not that its content matches
its id. So the list of chunks is verified against the block id, and each chunk that is returned
against its chunk id: a pack with other content under a block id is detected. A block may be
stored several times; if a copy is missing or damaged, the others are tried. A chunk that lost its
bytes because it was shared is read from the shared packs, by its id.

Caches are those of `read_caches`. Safe from any thread: no lock is held while reading or decoding,
so two threads may decode the same block at the same time.
"""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from strongroom.base.errors import DamageError, KeyRightError
from strongroom.engine.content.ciphers import BLOCK_OVERHEAD_SIZE
from strongroom.engine.content.codecs import decompress
from strongroom.engine.content.digests import CHUNK_ID_SIZE, block_id, chunk_id, ids_and_lengths
from strongroom.engine.repository.block_columns import OFFERED, THINNED
from strongroom.engine.repository.blocks_ahead import BlocksAhead
from strongroom.engine.repository.index.block_rows import BlockLocation, BlockPlaces
from strongroom.engine.repository.index.kept_index import KeptIndex
from strongroom.engine.repository.keys.owners import SHARED, ContentKeys
from strongroom.engine.repository.keys.roles import ReadingKey
from strongroom.engine.repository.packs import (
    HEADER_SIZE,
    BlockEntry,
    PackHeader,
    block_aad,
    open_block_cipher,
    parse_header,
    read_ends,
    read_footer,
)
from strongroom.engine.repository.read_caches import LoadedBlock, PackAccess, ReadCaches
from strongroom.engine.stores.at_once import at_once, most_together
from strongroom.engine.stores.capabilities import ReadsAhead
from strongroom.engine.stores.store import Store

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# One copy of a block may be unreadable where another is not: a ticket has keys of some packs.
_NOT_THIS_COPY = (DamageError, KeyRightError)
# Blocks this close in a pack are fetched by one read, of at most so much.
_GREATEST_GAP = 128 << 10
_GREATEST_READ = 8 << 20
# Of such reads of a distant store that are made together; one by itself may be larger.
_TOGETHER_BYTES = 16 << 20
# Of one that is made ahead: several are in flight, and the first is waited for.
_GREATEST_READ_AHEAD = (2 << 20) + _GREATEST_GAP
_END_SECONDS = 1.0


class BlockReader:
    """Blocks of one client by id, chunks by block id and slot."""

    def __init__(
        self,
        store: Store,
        key: ReadingKey,
        blocks: BlockPlaces,
        cache: int | ReadCaches = 32 << 20,
    ) -> None:
        """`cache`: its size in bytes, or caches that other readers use too."""
        self._store = store
        self._key = key
        self._owner = blocks.owner
        self._keys = key.owner(blocks.owner)
        self._index = blocks
        self._caches = ReadCaches(cache) if isinstance(cache, int) else cache
        self._lock = threading.Lock()
        self._shared: tuple[KeptIndex, BlockReader] | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._ahead: list[BlocksAhead] = []

    def block(self, wanted: bytes) -> bytes:
        """The raw bytes of a block, its chunk list verified; DamageError when it is not sound."""
        return self._load(wanted).raw

    def chunk(self, wanted: bytes, slot: int) -> memoryview:
        """The raw bytes of one chunk, verified against its id."""
        block = self._load(wanted)
        if slot >= len(block.extents):
            raise DamageError(
                f"block {wanted.hex()} has {len(block.extents)} chunks, and slot {slot} is wanted; "
                "run check"
            )
        data = self._chunk_in(block, slot)
        return self._chunk_of_copy(wanted, slot, block) if data is None else data

    def chunks(self, wanted: bytes, slots: Iterable[int]) -> dict[int, memoryview]:
        """Chunks of one block by slot, verified against their ids.

        Those that the first copy does not have are left out. DamageError when it is not sound.
        """
        raw, ids, extents, keys = self._load(wanted)
        data = memoryview(raw)
        # As of `_chunk_in`, without a call for each.
        is_verified = len(extents) == 1
        key = keys.chunk_key
        found = {}
        for slot in slots:
            if slot < len(extents):
                start, end = extents[slot]
                chunk = data[start:end]
                if start >= 0 and (
                    is_verified
                    or chunk_id(key, chunk)
                    == ids[slot * CHUNK_ID_SIZE : (slot + 1) * CHUNK_ID_SIZE]
                ):
                    found[slot] = chunk
        return found

    def chunk_length(self, wanted: bytes, slot: int) -> int:
        """The length of a chunk, without reading it; DamageError when no copy exists."""
        location = self._index.locate(wanted)
        if slot == 0 and _is_its_chunk(location):
            return location.raw_length
        return self._listed(wanted, slot)[1]

    def is_chunk(self, wanted: bytes, slot: int, data: bytes | memoryview) -> bool:
        """Whether `data` matches a chunk's id, without reading the chunk itself."""
        location = self._index.locate(wanted)
        keys = self._content_keys(location)
        an_id = chunk_id(keys.chunk_key, data)
        if slot == 0 and _is_its_chunk(location):
            length = len(data).to_bytes(4, "little")
            return block_id(keys.block_key, ids_and_lengths(an_id, length)) == wanted
        return an_id == self._listed(wanted, slot)[0]

    def is_offered(self, wanted: bytes) -> bool:
        """Whether a block's content was offered to share; DamageError when no copy exists."""
        return bool(self._index.locate(wanted).flags & OFFERED)

    def blocks(self, wanted: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Many blocks as (id, raw bytes) in the order in which they are stored.

        Neighbours in a pack are fetched by one read. Each block is given once.
        """
        for block_id_, block in self._load_many(wanted):
            yield block_id_, block.raw

    def prefetch(self, wanted: Iterable[bytes]) -> None:
        """Load blocks into the cache, neighbours by one read; no more than fit in it."""
        for _ in self._load_many(wanted):
            pass

    def read_ahead(self, small: Iterable[bytes], large: Iterable[bytes] = ()) -> None:
        """Begin to read blocks before they are asked for; none is waited for. Of one thread.

        small, large: those of small files and of large ones, each in the order of their use. A
        near store reads only the small ones ahead, where it can.
        """
        near = self._store.capability(ReadsAhead)
        if near is not None:
            for group in _neighbours(self._places(small)):
                first = group[0][0]
                near.read_ahead("packs", first.pack_id.hex(), first.offset, _span(group))
        elif most_together(self._store) > 1:
            if not self._ahead:
                from concurrent.futures import ThreadPoolExecutor

                self._threads = ThreadPoolExecutor(most_together(self._store), "ahead")
                self._ahead = [
                    BlocksAhead(self._threads, self._part_of_pack, self._openings) for _ in range(2)
                ]
            for ahead, wanted in zip(self._ahead, (small, large), strict=True):
                order = list(dict.fromkeys(wanted))
                ahead.expect(order, _neighbours(self._places(order), _GREATEST_READ_AHEAD))

    def close(self) -> bool:
        """Read nothing ahead any more; whether nothing is in flight, so the store may be closed."""
        threads, self._ahead, self._threads = self._threads, [], None
        if threads is None:
            return True
        threads.shutdown(wait=False, cancel_futures=True)
        # A store that does not answer is not waited for: it may be away for a quarter of an hour.
        ending = threading.Thread(target=threads.shutdown, name="ending", daemon=True)
        ending.start()
        ending.join(_END_SECONDS)
        return not ending.is_alive()

    def _places(self, wanted: Iterable[bytes]) -> list[tuple[BlockLocation, bytes]]:
        """Where blocks are, in the order in which they are stored; without those that are not."""
        places = []
        for an_id in wanted:
            with contextlib.suppress(DamageError):
                places.append((self._index.locate(an_id), an_id))
        return sorted(places, key=lambda place: (place[0].pack_id, place[0].offset))

    def _load(self, wanted: bytes) -> LoadedBlock:
        block = self._caches.blocks.get((self._owner, wanted))
        if block is not None:
            return block
        location = self._index.locate(wanted)
        try:
            for ahead in self._ahead:
                sealed = ahead.take(wanted)
                if sealed is not None:
                    return self._decode(wanted, location, sealed)
            return self._read(wanted, location)
        except _NOT_THIS_COPY as error:
            return self._copy_of(wanted, location, error)

    def _part_of_pack(self, pack_id: bytes, offset: int, size_bytes: int) -> bytes:
        return self._store.get("packs", pack_id.hex(), offset, size_bytes)

    def _read(self, wanted: bytes, location: BlockLocation) -> LoadedBlock:
        name = location.pack_id.hex()

        def sealed() -> bytes:
            return self._store.get("packs", name, location.offset, location.stored_length)

        data, *_ = at_once(self._store, sealed, *self._openings([location]))
        return self._decode(wanted, location, memoryview(data))

    def _openings(self, locations: Iterable[BlockLocation]) -> list[Callable[[], bytes]]:
        """What reads what opens some blocks, unless it is in the caches: for `at_once`."""
        headers, ends = set(), {}
        for location in locations:
            if not _is_its_chunk(location) and self._caches.footers.get(location.pack_id) is None:
                ends[location.pack_id] = location.pack_bytes
            elif self._caches.packs.get((self._owner, location.pack_id)) is None:
                headers.add(location.pack_id)
        return [
            *(partial(self._keep_header, one) for one in headers - ends.keys()),
            *(partial(self._keep_ends, *one) for one in ends.items()),
        ]

    def _keep_header(self, pack_id: bytes) -> bytes:
        return self._pack(pack_id).header

    def _keep_ends(self, pack_id: bytes, size_bytes: int) -> bytes:
        header, footer = read_ends(self._store, self._key, pack_id, size_bytes)
        self._caches.footers.keep(pack_id, footer.blocks)
        return self._keep_pack(pack_id, header).header

    def _copy_of(
        self, wanted: bytes, bad: BlockLocation, error: DamageError | KeyRightError
    ) -> LoadedBlock:
        """The block from another place than `bad`; raises `error` when there is no sound one."""
        for location in self._index.copies(wanted):
            if location != bad:
                with contextlib.suppress(*_NOT_THIS_COPY):
                    return self._read(wanted, location)
        raise error

    def _chunk_in(self, block: LoadedBlock, slot: int) -> memoryview | None:
        """A chunk of a block; None when it was dropped there, or does not match its id."""
        start, end = block.extents[slot]
        if start < 0:
            return None
        data = memoryview(block.raw)[start:end]
        expected = block.chunk_ids[slot * CHUNK_ID_SIZE : (slot + 1) * CHUNK_ID_SIZE]
        # A block of one chunk was verified as a whole when it was loaded.
        if len(block.extents) > 1 and chunk_id(block.keys.chunk_key, data) != expected:
            return None
        return data

    def _chunk_of_copy(self, wanted: bytes, slot: int, bad: LoadedBlock) -> memoryview:
        """A chunk from any copy of its block; one of them, `bad`, does not have it."""
        for location in self._index.copies(wanted):
            with contextlib.suppress(*_NOT_THIS_COPY):
                data = self._chunk_in(self._read(wanted, location), slot)
                if data is not None:
                    return data
        if bad.keys == self._keys.common:
            shared = self._shared_chunk(bad.chunk_ids[slot * CHUNK_ID_SIZE :][:CHUNK_ID_SIZE])
            if shared is not None:
                return shared
        problem = "does not match its id"
        if bad.extents[slot][0] < 0:
            problem = "was dropped as unused, but is used"
        raise DamageError(f"chunk {slot} of block {wanted.hex()} {problem}; run check")

    def _shared_chunk(self, an_id: bytes) -> memoryview | None:
        """A chunk of the shared packs, None where they do not have it."""
        if self._index.owner == SHARED:
            return None
        table, reader = self._shared_content()
        reference = table.claim(an_id).get(0)
        return None if reference is None else reader.chunk(*reference)

    def _shared_content(self) -> tuple[KeptIndex, BlockReader]:
        """Loaded when the first chunk is missing: few restores need it."""
        with self._lock:
            if self._shared is None:
                if isinstance(self._index, KeptIndex):
                    index = self._index.of_all_clients()
                else:
                    index = KeptIndex(self._store, self._key, SHARED)
                index.load_chunks()
                reader = BlockReader(self._store, self._key, index, self._caches)
                self._shared = index, reader
            return self._shared

    def _content_keys(self, location: BlockLocation) -> ContentKeys:
        return self._keys.content(offered=bool(location.flags & OFFERED))

    def _load_many(self, wanted: Iterable[bytes]) -> Iterator[tuple[bytes, LoadedBlock]]:
        places: list[tuple[BlockLocation, bytes]] = []
        for an_id in dict.fromkeys(wanted):
            block = self._caches.blocks.get((self._owner, an_id))
            if block is None:
                places.append((self._index.locate(an_id), an_id))
            else:
                yield an_id, block
        places.sort(key=lambda place: (place[0].pack_id, place[0].offset))
        for group, whole in self._read_groups(list(_neighbours(places))):
            if whole is None:
                for _, an_id in group:
                    yield an_id, self._load(an_id)
                continue
            first = group[0][0]
            data = memoryview(whole)
            for location, an_id in group:
                at = location.offset - first.offset
                sealed = data[at : at + location.stored_length]
                try:
                    block = self._decode(an_id, location, sealed)
                except _NOT_THIS_COPY as error:
                    block = self._copy_of(an_id, location, error)
                yield an_id, block

    def _read_groups(
        self, groups: list[list[tuple[BlockLocation, bytes]]]
    ) -> Iterator[tuple[list[tuple[BlockLocation, bytes]], bytes | None]]:
        """Groups of neighbours, and their bytes; None where they cannot be read together."""

        def read(group: list[tuple[BlockLocation, bytes]]) -> bytes | None:
            first = group[0][0]
            try:
                return self._part_of_pack(first.pack_id, first.offset, _span(group))
            except DamageError:
                return None

        def tried(opening: Callable[[], bytes]) -> None:
            # It is read again for each block, of which there may be another copy.
            with contextlib.suppress(*_NOT_THIS_COPY):
                opening()

        most, at = most_together(self._store), 0
        while at < len(groups):
            some, size = [groups[at]], _span(groups[at])
            for group in groups[at + 1 : at + most]:
                size += _span(group)
                if size > _TOGETHER_BYTES:
                    break
                some.append(group)
            at += len(some)
            openings = self._openings(location for group in some for location, _ in group)
            data = at_once(
                self._store,
                *(partial(read, group) for group in some),
                *(partial(tried, opening) for opening in openings),
            )
            yield from zip(some, data[: len(some)], strict=True)

    def _decode(self, wanted: bytes, location: BlockLocation, sealed: memoryview) -> LoadedBlock:
        if location.stored_length < BLOCK_OVERHEAD_SIZE:
            raise DamageError(f"block {wanted.hex()} is shorter than its seal; run check")
        pack = self._pack(location.pack_id)
        # A block of one chunk that is there needs no footer.
        dead = b"" if _is_its_chunk(location) else self._entry(location).dead
        aad = block_aad(
            pack.header,
            location.number,
            location.codec,
            location.flags,
            location.raw_length,
            wanted,
            dead,
        )
        compressed = pack.cipher.open(sealed, aad)
        raw = decompress(location.codec, compressed, location.raw_length)
        block = self._verified(wanted, location, raw)
        self._caches.blocks.keep((self._owner, wanted), block)
        return block

    def _verified(self, wanted: bytes, location: BlockLocation, raw: bytes) -> LoadedBlock:
        keys = self._content_keys(location)
        if _is_its_chunk(location):
            # The only chunk is the block: its id follows from the bytes, no footer is needed.
            ids = chunk_id(keys.chunk_key, raw)
            lengths = len(raw).to_bytes(4, "little")
            extents = [(0, len(raw))]
        else:
            ids, lengths, extents = self._chunks(location)
        if block_id(keys.block_key, ids_and_lengths(ids, lengths)) != wanted:
            raise DamageError(
                f"pack {location.pack_id.hex()} claims to hold block {wanted.hex()} "
                "but holds something else; run check"
            )
        return LoadedBlock(raw, ids, extents, keys)

    def _listed(self, wanted: bytes, slot: int) -> tuple[bytes, int]:
        """Id and length of a chunk as its block lists it, the list verified."""
        listed = self._caches.lists.get((self._owner, wanted))
        if listed is None:
            location = self._index.locate(wanted)
            try:
                listed = self._list_at(wanted, location)
            except _NOT_THIS_COPY as error:
                listed = self._list_of_copy(wanted, location, error)
            self._caches.lists.keep((self._owner, wanted), listed)
        ids, numbers = listed
        if slot >= len(numbers):
            raise DamageError(
                f"block {wanted.hex()} has {len(numbers)} chunks, and slot {slot} is wanted; "
                "run check"
            )
        return ids[slot * CHUNK_ID_SIZE : (slot + 1) * CHUNK_ID_SIZE], numbers[slot]

    def _list_at(self, wanted: bytes, location: BlockLocation) -> tuple[bytes, array[int]]:
        ids, lengths, _ = self._chunks(location)
        block_key = self._content_keys(location).block_key
        if block_id(block_key, ids_and_lengths(ids, lengths)) != wanted:
            raise DamageError(f"block {wanted.hex()} lists other chunks than it has; run check")
        return ids, array("I", lengths)

    def _list_of_copy(
        self, wanted: bytes, bad: BlockLocation, error: DamageError | KeyRightError
    ) -> tuple[bytes, array[int]]:
        for location in self._index.copies(wanted):
            if location != bad:
                with contextlib.suppress(*_NOT_THIS_COPY):
                    return self._list_at(wanted, location)
        raise error

    def _chunks(self, location: BlockLocation) -> tuple[bytes, bytes, list[tuple[int, int]]]:
        entry = self._entry(location)
        extents = []
        at = 0
        for slot, length in enumerate(entry.chunk_lengths):
            if entry.dead and entry.dead[slot >> 3] >> (slot & 7) & 1:
                extents.append((-1, -1))
            else:
                extents.append((at, at + length))
                at += length
        return entry.chunk_ids, entry.chunk_lengths.tobytes(), extents

    def _entry(self, location: BlockLocation) -> BlockEntry:
        entries = self._footer(location.pack_id)
        if location.number >= len(entries):
            raise DamageError(
                f"pack {location.pack_id.hex()} has {len(entries)} blocks and number "
                f"{location.number} is wanted; run repair"
            )
        return entries[location.number]

    def _pack(self, pack_id: bytes) -> PackAccess:
        # By client too: what one may read another may not.
        pack = self._caches.packs.get((self._owner, pack_id))
        if pack is None:
            header = parse_header(self._store.get("packs", pack_id.hex(), 0, HEADER_SIZE))
            pack = self._keep_pack(pack_id, header)
        return pack

    def _keep_pack(self, pack_id: bytes, header: PackHeader) -> PackAccess:
        if header.owner not in (self._owner, SHARED):
            raise DamageError(
                f"pack {pack_id.hex()} is another client's than the index says; run check"
            )
        pack = PackAccess(header.raw, open_block_cipher(header, self._key, pack_id))
        self._caches.packs.keep((self._owner, pack_id), pack)
        return pack

    def _footer(self, pack_id: bytes) -> list[BlockEntry]:
        entries = self._caches.footers.get(pack_id)
        if entries is None:
            entries = read_footer(self._store, self._key, pack_id).blocks
            self._caches.footers.keep(pack_id, entries)
        return entries


def _is_its_chunk(location: BlockLocation) -> bool:
    """Whether a block is one chunk that has not lost its bytes."""
    return location.chunk_count == 1 and not location.flags & THINNED


def _span(group: list[tuple[BlockLocation, bytes]]) -> int:
    """How many bytes a group of neighbours takes, with what is between them."""
    first, last = group[0][0], group[-1][0]
    return last.offset + last.stored_length - first.offset


def _neighbours(
    places: list[tuple[BlockLocation, bytes]],
    most_bytes: int = _GREATEST_READ,
) -> Iterator[list[tuple[BlockLocation, bytes]]]:
    group: list[tuple[BlockLocation, bytes]] = []
    for place in places:
        if group:
            first, last, location = group[0][0], group[-1][0], place[0]
            end = location.offset + location.stored_length
            near = location.offset - (last.offset + last.stored_length) <= _GREATEST_GAP
            if location.pack_id != first.pack_id or not near or end - first.offset > most_bytes:
                yield group
                group = []
        group.append(place)
    if group:
        yield group
