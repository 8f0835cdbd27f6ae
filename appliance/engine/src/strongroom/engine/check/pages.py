"""Checks listing pages: that they decode, and that all content they refer to is there.

A row's content is sound when every reference leads to a chunk whose bytes are stored, and the
lengths add up to the size of the file (to its extents, if it is sparse).
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from strongroom.base.decoding import reading
from strongroom.base.errors import DamageError, MemoryLimitError, StoreError
from strongroom.engine.check.verified_index import SoundIndex
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.index.block_rows import PlacesByClient
from strongroom.engine.repository.index.client_blocks import ClientBlocks
from strongroom.engine.repository.listing.page import decode_page, page_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import PageReference
from strongroom.engine.rows.rows import BLOCK_ID_BYTES, COLUMN_COUNT, MODE, SIZE, Rows, part_starts
from strongroom.engine.rows.views import join_path

NO_CONTENT = "its content is lost"
OTHER_LENGTH = "its content has another length than the file"
# A file may have millions of parts, of which no more are looked up at once.
_PIECE_PARTS: Final = 1 << 16
STRAY_CONTENT = "it has content, which its kind cannot have"


_Integers: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class BadRow(NamedTuple):
    """A row whose content is not sound; `blocks`: ids of the lost ones that it needs."""

    path: bytes
    problem: str
    blocks: tuple[bytes, ...]


class ClientPage(NamedTuple):
    """A page of a listing, and the client whose snapshots have it."""

    owner: bytes
    page: PageReference


class PageAnswer(NamedTuple):
    """What is wrong with a page: as a whole ("" if nothing), and with rows of it.

    is_unknown: it takes more memory than there is, and may be sound.
    """

    problem: str
    rows: list[BadRow]
    row_count: int
    is_unknown: bool = False


class PageChecker:
    """Checks pages against an index; callable as the work of a ForkedMap."""

    def __init__(
        self,
        known: SoundIndex,
        lost: Collection[tuple[bytes, bytes]] = frozenset(),
        listings: PlacesByClient | None = None,
    ) -> None:
        """`lost`: owners and ids of blocks that are in the index but can't be read.

        listings: where pages are, if `known` has not all blocks.
        """
        self._known = known
        self._lost = lost
        self._listings = known.index if listings is None else listings
        self._readers: ClientReaders | None = None
        self._repository: Repository | None = None
        self._blocks: dict[bytes, ClientBlocks] = {}

    def __call__(self, repository: Repository, of_client: ClientPage) -> PageAnswer:
        """Check one page; problems are returned, not raised."""
        return self._answer(repository, of_client, partial(self._described, of_client.owner))

    def blocks_of(
        self, repository: Repository, of_client: ClientPage
    ) -> tuple[list[bytes], PageAnswer]:
        """The ids of the blocks that a page refers to, joined for each group of its rows.

        The answer has its problem if it cannot be read; content is not checked.
        """
        found: list[bytes] = []

        def collect(rows: Rows) -> list[BadRow]:
            found.append(rows.part_blocks)
            return []

        return found, self._answer(repository, of_client, collect)

    def _answer(
        self,
        repository: Repository,
        of_client: ClientPage,
        judge: Callable[[Rows], list[BadRow]],
    ) -> PageAnswer:
        page = of_client.page
        try:
            with reading(f"listing page {page.block_id.hex()}"):
                groups = self.rows_of(repository, of_client)
                bad = [bad_row for rows in groups for bad_row in judge(rows)]
        except MemoryLimitError as error:
            return PageAnswer(str(error), [], 0, is_unknown=True)
        except (DamageError, StoreError) as error:
            return PageAnswer(str(error), [], 0)
        return PageAnswer("", bad, page.row_count)

    def rows_of(self, repository: Repository, of_client: ClientPage) -> list[Rows]:
        """The rows of a page; DamageError when it does not match its reference."""
        owner, page = of_client
        if self._readers is None or self._repository is not repository:
            self._readers = ClientReaders(repository, self._listings, 8 << 20)
            self._repository = repository
        groups = decode_page(bytes(self._readers.of(owner).chunk(page.block_id, 0)))
        first = groups[0]
        if (
            page_key(first.directory, first.names.partition(b"\0")[0])
            != page_key(page.first_directory, page.first_name)
            or sum(rows.row_count for rows in groups) != page.row_count
        ):
            raise DamageError("a listing page does not hold the rows it is listed with")
        return groups

    def bad_rows(self, owner: bytes, rows: Rows) -> list[tuple[int, str]]:
        """Rows of a client's snapshot whose content is not sound, and why."""
        counts = np.frombuffer(rows.part_counts, np.uint32).astype(np.int64)
        stats = np.frombuffer(rows.stats, "<i8").reshape(-1, COLUMN_COUNT)
        regular = (stats[:, MODE] & 0o170000) == stat.S_IFREG
        lengths = self._lengths(owner, rows)
        sums = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(np.maximum(lengths, 0), out=sums[1:])
        lost = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths < 0, out=lost[1:])
        ends = np.cumsum(counts)
        starts = ends - counts
        expected = np.where(regular, stats[:, SIZE], 0)
        for row, extents in rows.extents.items():
            expected[row] = sum(length for _, length in extents)
        other = sums[ends] - sums[starts] != expected
        # Unreadable rows have no content, rows that changed during backup may have any length.
        other[list(rows.states)] = False
        no_content = lost[ends] > lost[starts]
        stray = ~regular & (counts > 0)
        found: list[tuple[int, str]] = []
        for row in np.flatnonzero(no_content | other | stray).tolist():
            if no_content[row]:
                found.append((row, NO_CONTENT))
            else:
                found.append((row, STRAY_CONTENT if stray[row] else OTHER_LENGTH))
        return found

    def _described(self, owner: bytes, rows: Rows) -> list[BadRow]:
        found = self.bad_rows(owner, rows)
        if not found:
            return []
        names = rows.name_list()
        starts = part_starts(rows)
        lengths = self._lengths(owner, rows)
        described = []
        for row, problem in found:
            parts = range(starts[row], starts[row + 1])
            blocks = {
                rows.part_blocks[part * BLOCK_ID_BYTES : (part + 1) * BLOCK_ID_BYTES]: None
                for part in parts
                if lengths[part] < 0
            }
            path = join_path(rows.directory, names[row])
            described.append(BadRow(path, problem, tuple(blocks)))
        return described

    def _lengths(self, owner: bytes, rows: Rows) -> _Integers:
        """The length of each part, -1 where its bytes are not there."""
        blocks = self._blocks.get(owner)
        if blocks is None:
            blocks = self._blocks[owner] = self._known.index.of_client(owner)
        slots = np.frombuffer(rows.part_slots, np.uint16)
        lengths = np.full(len(slots), -1, np.int64)
        for first in range(0, len(slots), _PIECE_PARTS):
            piece = slice(first, first + _PIECE_PARTS)
            ids = rows.part_blocks[first * BLOCK_ID_BYTES : piece.stop * BLOCK_ID_BYTES]
            self._fill_lengths(lengths[piece], blocks, ids, slots[piece].astype(np.int64))
        return lengths

    def _fill_lengths(
        self, lengths: _Integers, blocks: ClientBlocks, ids: bytes, slots: _Integers
    ) -> None:
        index_rows = blocks.rows_of(ids)
        known = index_rows >= 0
        if self._lost:
            known &= self._are_left(blocks, ids)
        starts = self._known.chunk_starts
        known[known] = slots[known] < np.diff(starts)[index_rows[known]]
        lengths[known] = self._known.chunk_lengths[starts[index_rows[known]] + slots[known]]

    def _are_left(
        self, blocks: ClientBlocks, ids: bytes
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Of which blocks a copy is left that the client may read."""
        left = np.zeros(len(ids) // BLOCK_ID_BYTES, np.bool_)
        for owner, index_rows in blocks.rows_by_owner(ids):
            for place in np.flatnonzero(index_rows >= 0).tolist():
                one = ids[place * BLOCK_ID_BYTES : (place + 1) * BLOCK_ID_BYTES]
                left[place] |= (owner, one) not in self._lost
        return left
