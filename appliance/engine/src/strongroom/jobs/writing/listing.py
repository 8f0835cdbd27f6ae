"""Writes the listing of a snapshot: rows in, pages out, in order, deduplicated and stored.

A page is one chunk in a block of its own in a listing pack. A page that is stored already (an
unchanged region of the parent's listing) costs one look-up; one whose rows are those of a page of
the parent, untouched, is not even encoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.content.codecs import Compressor, parse_compression
from strongroom.content.digests import block_id, chunk_id, ids_and_lengths
from strongroom.repo.listing.page import encode_page
from strongroom.repo.listing.page_builder import PageBuilder
from strongroom.repo.snapshots import PageReference
from strongroom.rows.entry_counts import count_entries

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.jobs.writing.pack_lanes import OpenPack
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
    ) -> None:
        """`keep(block id, page)` is called for every page, new or not.

        `reference_of(rows)`: the page of the parent that is known to have just these rows.
        """
        self._keep = keep
        self._reference_of = reference_of
        self._keys = key.client.own
        self._blocks = blocks
        self._written: set[bytes] = set()
        self._new_pack = new_pack
        self._finished = finished
        self._pack_size_bytes = pack_size_bytes
        self._progress = progress
        self._pack: OpenPack | None = None
        self._builder = PageBuilder()
        self._compressor = Compressor(parse_compression("zstd1"))
        self.pages: list[PageReference] = []
        self.files = 0
        self.directories = 0
        self.others = 0
        self.size_bytes = 0

    def add(self, rows: Rows) -> None:
        """Add the next rows. Raises StoreError."""
        for page in self._builder.add(rows):
            self._store(page)

    def finish(self) -> list[PageReference]:
        """Store the rest and finish the pack. Raises StoreError."""
        for page in self._builder.finish():
            self._store(page)
        if self._pack is not None:
            pack, self._pack = self._pack, None
            self._finished(pack.finish())
        return self.pages

    def abort(self) -> None:
        """Discard the open pack."""
        if self._pack is not None:
            self._pack.abort()
            self._pack = None

    def _store(self, page: list[Rows]) -> None:
        content_bytes = self._count(page)
        if self._reference_of is not None and self._keep is None:
            reference = self._reference_of(page)
            if reference is not None and self._has(reference.block_id):
                self.pages.append(reference)
                return
        raw = encode_page(page)
        chunk = chunk_id(self._keys.chunk_key, raw)
        length = len(raw).to_bytes(4, "little")
        block = block_id(self._keys.block_key, ids_and_lengths(chunk, length))
        if self._keep is not None:
            self._keep(block, raw)
        if block not in self._written and not self._has(block):
            self._written.add(block)
            codec, stored = self._compressor.compress(raw)
            if self._pack is None:
                self._pack = self._new_pack()
            self._pack.add(block, chunk, [len(raw)], codec, stored, len(raw))
            if self._pack.size_bytes >= self._pack_size_bytes:
                pack, self._pack = self._pack, None
                self._finished(pack.finish())
        first = page[0]
        self.pages.append(
            PageReference(
                first_directory=first.directory,
                first_name=first.names.partition(b"\0")[0],
                block_id=block,
                row_count=sum(rows.row_count for rows in page),
                content_bytes=content_bytes,
            )
        )

    def _has(self, block: bytes) -> bool:
        return bool(self._blocks.has_blocks(block).all())

    def _count(self, page: list[Rows]) -> int:
        """Add a page to the totals; the bytes of its files."""
        counts = count_entries(page)
        self.files += counts.files
        self.directories += counts.directories
        self.others += counts.others
        self.size_bytes += counts.content_bytes
        self._progress.add(files=sum(counts[:3]))
        return counts.content_bytes
