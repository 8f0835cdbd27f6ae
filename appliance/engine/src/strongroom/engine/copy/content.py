"""Moves content from one repository to another, each chunk once.

Chunk ids are keyed, so the same bytes have another id in another repository: a chunk is read,
verified, given its new id, looked up, and stored in a new block if the target does not hold it.
`ReferenceMap` maps references of the source to the target's, so that no chunk is read twice.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from strongroom.base.errors import DamageError, KeyRightError
from strongroom.base.progress import Progress
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.blocks import BlockReader
from strongroom.engine.repository.index.id_table import IdTable
from strongroom.engine.repository.keys.owners import OwnerKeys
from strongroom.engine.rows.rows import Rows
from strongroom.engine.writing.block_assembly import WHOLE_FILE_BYTES, BlockAssembler
from strongroom.engine.writing.deduplication import ChunkGroup, Deduplication, GroupAnswer
from strongroom.engine.writing.pack_lanes import BlockLane

Reference = tuple[bytes, int]

# Most pages that wait for references of their chunks; at the limit, open batches are stored.
PAGES_WAITING: Final = 4
# Of about 1 MiB each.
_FETCHED_BLOCKS: Final = 16
KEY_SIZE: Final = BLOCK_ID_SIZE + 8
_SLOT_BITS: Final = 16


def reference_keys(blocks: bytes, slots: array[int]) -> bytes:
    """References as ids of 24 bytes: block id, and slot as u64."""
    keys = np.zeros((len(slots), KEY_SIZE), np.uint8)
    keys[:, :BLOCK_ID_SIZE] = np.frombuffer(blocks, np.uint8).reshape(-1, BLOCK_ID_SIZE)
    keys[:, BLOCK_ID_SIZE:] = np.array(slots, "<u8").view(np.uint8).reshape(-1, 8)
    return keys.tobytes()


class ReferenceMap:
    """Maps references of the source to the target's; about 40 bytes each."""

    def __init__(self) -> None:
        self._table = IdTable(KEY_SIZE)
        # Added one by one since the last search: the table adds many in little more time than one.
        self._latest: dict[bytes, int] = {}
        self._numbers: dict[bytes, int] = {}
        self._blocks: list[bytes] = []

    def find(self, keys: bytes) -> list[Reference | None]:
        """For each of n * 24 bytes of keys the reference in the target, if it is known."""
        self._add_latest()
        return [
            None if value < 0 else (self._blocks[value >> _SLOT_BITS], value & 0xFFFF)
            for value in self._table.find(keys).tolist()
        ]

    def add(self, keys: bytes, references: Iterable[Reference]) -> None:
        """Remember n references by their n * 24 bytes of keys."""
        self._add_latest()
        self._table.add_many(keys, np.array([*map(self._value, references)], np.int64))

    def add_one(self, key: bytes, reference: Reference) -> None:
        """Remember one reference."""
        self._latest[key] = self._value(reference)

    def known(self, keys: bytes) -> NDArray[np.bool_]:
        """Which keys are in the map."""
        self._add_latest()
        flags: NDArray[np.bool_] = self._table.find(keys) >= 0
        return flags

    def _add_latest(self) -> None:
        if self._latest:
            self._table.add(b"".join(self._latest), [*self._latest.values()])
            self._latest.clear()

    def _value(self, reference: Reference) -> int:
        block, slot = reference
        number = self._numbers.setdefault(block, len(self._blocks))
        if number == len(self._blocks):
            self._blocks.append(block)
        return number << _SLOT_BITS | slot


class _MovingPage:
    """Rows of one page whose references are being replaced by those of the target."""

    def __init__(self, groups: list[Rows]) -> None:
        self._groups = groups
        self._blocks = [bytearray(len(rows.part_blocks)) for rows in groups]
        self._slots = [array("H", bytes(2 * len(rows.part_slots))) for rows in groups]
        self.missing = sum(len(rows.part_slots) for rows in groups)

    def put(self, group: int, part: int, reference: Reference) -> None:
        at = part * BLOCK_ID_SIZE
        self._blocks[group][at : at + BLOCK_ID_SIZE], self._slots[group][part] = reference
        self.missing -= 1

    def rows(self) -> list[Rows]:
        return [
            msgspec.structs.replace(rows, part_blocks=bytes(blocks), part_slots=slots)
            for rows, blocks, slots in zip(self._groups, self._blocks, self._slots, strict=True)
        ]


class _OwnClaims:
    """Claims that are answered here, at once."""

    def __init__(self, deduplication: Deduplication) -> None:
        self._deduplication = deduplication
        self._answers: deque[list[GroupAnswer]] = deque()

    def claim(self, groups: list[ChunkGroup]) -> None:
        """Decide about the chunks of these groups."""
        self._answers.append([self._deduplication.claim(group) for group in groups])

    def claim_answer(self) -> list[GroupAnswer]:
        """The oldest decision."""
        return self._answers.popleft()


class ContentMover:
    """Takes rows of the source page by page, returns them in order for the target."""

    def __init__(
        self,
        source: BlockReader,
        keys: OwnerKeys,
        deduplication: Deduplication,
        lane: BlockLane,
        moved: ReferenceMap,
        progress: Progress,
    ) -> None:
        """`keys`: of the client in the target."""
        self._source = source
        self._moved = moved
        self._progress = progress
        self._assembler = BlockAssembler(keys, lane, _OwnClaims(deduplication))
        self._pages: deque[_MovingPage] = deque()
        # Pending chunks: what waits for each, and its number at the assembler.
        self._waiting: dict[bytes, list[tuple[_MovingPage, int, int]]] = {}
        self._numbered: dict[int, bytes] = {}
        self._next_number = 0
        self.read_bytes = 0

    def add(self, groups: list[Rows]) -> list[Rows]:
        """Add a page; returns the rows that are ready. Raises DamageError, StoreError."""
        page = _MovingPage(groups)
        self._pages.append(page)
        for number, rows in enumerate(groups):
            if rows.part_slots:
                self._add_group(page, number, rows)
        if len(self._pages) > PAGES_WAITING:
            self._assembler.flush()
        return self._ready()

    def finish(self) -> list[Rows]:
        """The rows that are left. Raises DamageError, StoreError."""
        self._assembler.flush()
        return self._ready()

    def place(self, row: int, part: int, reference: Reference) -> None:
        """Take the reference of a chunk from the assembler; `row` is the chunk's number."""
        key = self._numbered.pop(row)
        self._moved.add_one(key, reference)
        for page, group, place in self._waiting.pop(key):
            page.put(group, place, reference)

    def _add_group(self, page: _MovingPage, group: int, rows: Rows) -> None:
        keys = reference_keys(rows.part_blocks, rows.part_slots)
        found = self._moved.find(keys)
        # In the order in which they are needed first.
        unread = dict.fromkeys(
            keys[part * KEY_SIZE : part * KEY_SIZE + BLOCK_ID_SIZE]
            for part, reference in enumerate(found)
            if reference is None
        )
        for part, reference in enumerate(found):
            if reference is not None:
                page.put(group, part, reference)
                continue
            key = keys[part * KEY_SIZE : (part + 1) * KEY_SIZE]
            if key in self._waiting:
                self._waiting[key].append((page, group, part))
                continue
            self._waiting[key] = [(page, group, part)]
            while key[:BLOCK_ID_SIZE] in unread:
                self._fetch(unread)
            self._move(key, rows.part_slots[part])

    def _fetch(self, unread: dict[bytes, None]) -> None:
        """Read the next blocks together: each by itself costs a far store a round trip."""
        some = list(islice(unread, _FETCHED_BLOCKS))
        for one in some:
            del unread[one]
        # Which of them cannot be read its chunks will show.
        with suppress(DamageError, KeyRightError):
            self._source.prefetch(some)

    def _move(self, key: bytes, slot: int) -> None:
        data = self._source.chunk(key[:BLOCK_ID_SIZE], slot)
        offered = self._source.is_offered(key[:BLOCK_ID_SIZE])
        self.read_bytes += len(data)
        self._progress.add(bytes=len(data))
        number = self._next_number
        self._next_number += 1
        self._numbered[number] = key
        if len(data) > WHOLE_FILE_BYTES:
            self._assembler.add_large(self, number, 0, [data], offered=offered)
        else:
            self._assembler.add_small(self, number, 0, data, offered=offered)

    def _ready(self) -> list[Rows]:
        rows: list[Rows] = []
        while self._pages and not self._pages[0].missing:
            rows += self._pages.popleft().rows()
        return rows
