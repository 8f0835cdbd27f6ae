"""Writes the listing of a snapshot: rows in, pages out, in order, deduplicated and stored.

A page is one chunk in a block of its own in a listing pack. A page that is stored already (an
unchanged region of the parent's listing) is not stored again; one whose rows are those of a page of
the parent, untouched, is not even encoded. Others may encode pages: then they are stored in the
order in which they come back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from strongroom.jobs.writing.page_encoding import PageEncoder
from strongroom.repo.listing.page_builder import PageBuilder
from strongroom.repo.snapshots import PageReference
from strongroom.rows.byte_totals import bytes_together
from strongroom.rows.entry_counts import count_entries, hole_bytes, strange_times
from strongroom.rows.views import join_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.jobs.writing.pack_lanes import OpenPack
    from strongroom.jobs.writing.page_encoding import EncodedPage
    from strongroom.progress import Progress
    from strongroom.repo.index.client_blocks import ClientBlocks
    from strongroom.repo.keys.roles import PutKey
    from strongroom.repo.packs import PackFooter
    from strongroom.rows.rows import Rows


class ListingWriter:
    """Takes rows in listing order; `finish` gives the snapshot's pages."""

    def __init__(
        self,
        key: PutKey,
        blocks: ClientBlocks,
        new_pack: Callable[[], OpenPack],
        finished: Callable[[PackFooter], None],
        pack_size_bytes: int,
        progress: Progress,
        keep: Callable[[bytes, bytes], None] | None = None,
        reference_of: Callable[[list[Rows]], PageReference | None] | None = None,
        offer: Callable[[list[Rows], Callable[[EncodedPage], None]], bool] | None = None,
        keep_again: Callable[[bytes], bool] | None = None,
        page_of: Callable[[Rows], list[Rows]] | None = None,
    ) -> None:
        """`keep(block id, page)` is called for every page that is encoded, new or not.

        `reference_of(rows)`: the page of the parent that is known to have just these rows;
        `keep_again(block id)`: whether that is kept without `keep`, or need not be. `page_of`: as
        of `PageBuilder`.
        `offer(rows, done)`: whether others encode a page; then `done` is called in this thread
        before `finish` is, with raw bytes where there is a `keep`.
        """
        self._keep = keep
        self._reference_of = reference_of
        self._keep_again = keep_again
        self._offer = offer
        self._encoder = PageEncoder(key.client.own)
        self._blocks = blocks
        self._written: set[bytes] = set()
        self._new_pack = new_pack
        self._finished = finished
        self._pack_size_bytes = pack_size_bytes
        self._progress = progress
        self._pack: OpenPack | None = None
        self._builder = PageBuilder(page_of)
        self.pages: list[PageReference] = []
        self.files = 0
        self.directories = 0
        self.others = 0
        self.size_bytes = 0
        self.hole_bytes = 0
        # How many times do not fit into a row, and the path of one of these.
        self.strange_times = 0
        self.strange_path = b""

    def add(self, rows: Rows) -> None:
        """Add the next rows. Raises StoreError."""
        for page in self._builder.add(rows):
            self._store(page)

    def end(self) -> None:
        """Encode, or offer, the last page: no more rows come. Raises StoreError."""
        for page in self._builder.finish():
            self._store(page)

    def finish(self) -> list[PageReference]:
        """Store the rest and finish the pack. Raises StoreError."""
        self.end()
        if self._pack is not None:
            pack, self._pack = self._pack, None
            self._finished(pack.finish())
        if not all(page.block_id for page in self.pages):
            raise RuntimeError("a page of the listing was offered and did not come back")
        return self.pages

    def abort(self) -> None:
        """Discard the open pack."""
        if self._pack is not None:
            self._pack.abort()
            self._pack = None

    def _store(self, page: list[Rows]) -> None:
        content_bytes = self._count(page)
        reference = None if self._reference_of is None else self._reference_of(page)
        if (
            reference is not None
            and self._has(reference.block_id)
            and (self._keep_again is None or self._keep_again(reference.block_id))
        ):
            self.pages.append(reference)
            return
        first = page[0]
        place = len(self.pages)
        # Its block is known once it is encoded.
        self.pages.append(
            PageReference(
                first_directory=first.directory,
                first_name=first.names.partition(b"\0")[0],
                block_id=b"",
                row_count=sum(rows.row_count for rows in page),
                content_bytes=content_bytes,
            )
        )
        if self._offer is None or not self._offer(page, partial(self._encoded, place)):
            keeps_raw = self._keep is not None
            self._encoded(place, self._encoder.encode(page, self._has, keeps_raw=keeps_raw))

    def _encoded(self, place: int, page: EncodedPage) -> None:
        """Page `place` is encoded: store it, unless it is stored."""
        block = page.block_id
        if self._keep is not None:
            self._keep(block, page.raw)
        if page.stored and not self._has(block):
            self._written.add(block)
            if self._pack is None:
                self._pack = self._new_pack()
            length = page.raw_length
            self._pack.add(block, page.chunk_id, [length], page.codec, page.stored, length)
            if self._pack.size_bytes >= self._pack_size_bytes:
                pack, self._pack = self._pack, None
                self._finished(pack.finish())
        self.pages[place] = structs.replace(self.pages[place], block_id=block)

    def _has(self, block: bytes) -> bool:
        return block in self._written or bool(self._blocks.has_blocks(block).all())

    def _count(self, page: list[Rows]) -> int:
        """Add a page to the totals; the bytes of its files."""
        counts = count_entries(page)
        self.files += counts.files
        self.directories += counts.directories
        self.others += counts.others
        self.size_bytes = bytes_together((self.size_bytes, counts.content_bytes))
        for rows in page:
            if strange := strange_times(rows):
                self.strange_times += len(strange)
                self.strange_path = self.strange_path or join_path(
                    rows.directory, rows.name_list()[strange[0]]
                )
        self.hole_bytes = bytes_together((self.hole_bytes, *map(hole_bytes, page)))
        self._progress.add(files=sum(counts[:3]))
        return counts.content_bytes
