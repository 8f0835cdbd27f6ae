"""Writes the listing of a snapshot: rows in, pages out, in order, deduplicated and stored.

A page is one chunk in its own block in a listing pack. A page that is stored already (an
unchanged region of the parent's listing) is not stored again; one whose rows are those of a page of
the parent, untouched, is not even encoded. Others may encode pages: then they are stored in the
order in which they come back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import msgspec
from msgspec import structs

from strongroom.engine.content.codecs import Compressor, parse_compression
from strongroom.engine.content.digests import block_id, chunk_id, ids_and_lengths
from strongroom.engine.repository.index.block_rows import NewReferences
from strongroom.engine.repository.keys.owners import ContentKeys
from strongroom.engine.repository.keys.roles import PutKey
from strongroom.engine.repository.listing.page import encode_page
from strongroom.engine.repository.listing.page_builder import PageBuilder
from strongroom.engine.repository.packs import KIND_LISTING, PACK_SIZE_BYTES
from strongroom.engine.repository.snapshots import PageReference, Totals
from strongroom.engine.rows.entry_counts import count_entries, hole_bytes, strange_times
from strongroom.engine.rows.rows import Rows, bytes_together
from strongroom.engine.rows.views import join_path
from strongroom.engine.writing.pack_lanes import OpenPack, PackTarget

# Encodes pages of a listing: rows in, ids and the compressed chunk out.
#
# It is most of what writing a listing costs, so it can be given to another process: see
# `ListingWriter` and `backup.shards.group.PageTasks`.

_COMPRESSION: Final = "zstd1"


class EncodedPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A page, which is one chunk in its own block.

    raw_length: its bytes before compression. stored: the compressed bytes, b"" if the block was
    known. raw: those before compression, if they were asked for.
    """

    block_id: bytes
    chunk_id: bytes
    raw_length: int
    codec: int
    stored: bytes
    raw: bytes


class PageEncoder:
    """For one thread. `keys`: those of the client whose listing it is."""

    def __init__(self, keys: ContentKeys) -> None:
        self._keys = keys
        self._compressor = Compressor(parse_compression(_COMPRESSION))

    def encode(
        self, page: list[Rows], is_known: Callable[[bytes], bool], *, keeps_raw: bool
    ) -> EncodedPage:
        """`page`: rows in listing order; `is_known(block id)`: whether it is stored already.

        Raises ValueError as `encode_page` does.
        """
        raw = encode_page(page)
        chunk = chunk_id(self._keys.chunk_key, raw)
        length = len(raw).to_bytes(4, "little")
        block = block_id(self._keys.block_key, ids_and_lengths(chunk, length))
        codec, stored = (0, b"") if is_known(block) else self._compressor.compress(raw)
        kept = raw if keeps_raw else b""
        return EncodedPage(block, chunk, len(raw), codec, bytes(stored), kept)


class ParentPages(Protocol):
    """The pages of the snapshot that a backup compares with."""

    def reference_of(self, page: list[Rows]) -> PageReference | None:
        """The page that is known to have just these rows; None: not known."""

    def page_of(self, rows: Rows) -> list[Rows]:
        """The rows of the page that `rows` are of, as of `PageBuilder`."""


class PageKeeper(Protocol):
    """Keeps pages for the next backup, where the key cannot read them back."""

    def add(self, block_id: bytes, page: bytes) -> None:
        """Keep a page that was encoded, new or not."""

    def add_again(self, block_id: bytes) -> bool:
        """Keep a page of the parent as it was kept before; whether that was possible."""


class PageEncoders(Protocol):
    """Others that may encode pages."""

    def offer(
        self, page: list[Rows], done: Callable[[EncodedPage], None], *, keeps_raw: bool
    ) -> bool:
        """Whether one of them encodes the page.

        Then `done` is called in this thread before `ListingWriter.finish` is. keeps_raw: as of
        PageEncoder.
        """


class ListingWriter:
    """Takes rows in listing order; `finish` gives the snapshot's pages."""

    def __init__(
        self,
        key: PutKey,
        blocks: NewReferences,
        packs: PackTarget,
        *,
        pack_size_bytes: int = PACK_SIZE_BYTES,
        parent: ParentPages | None = None,
        keeper: PageKeeper | None = None,
        encoders: PageEncoders | None = None,
        observe: Callable[[int, list[Rows]], None] | None = None,
    ) -> None:
        """blocks: those that are stored already. A pack is finished at `pack_size_bytes`.

        observe: gets the place and rows of each page that is not taken from the parent as it is.
        """
        self._observe = observe
        self._parent = parent
        self._keeper = keeper
        self._encoders = encoders
        self._encoder = PageEncoder(key.client.own)
        self._blocks = blocks
        self._written: set[bytes] = set()
        self._packs = packs
        self._pack_size_bytes = pack_size_bytes
        self._pack: OpenPack | None = None
        self._builder = PageBuilder(None if parent is None else parent.page_of)
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
            self._packs.take(pack.finish())
        if not all(page.block_id for page in self.pages):
            raise RuntimeError("a page of the listing was offered and did not come back")
        return self.pages

    def totals(self, before: Totals) -> Totals:
        """The totals of a snapshot with these rows in place of others."""
        return structs.replace(
            before,
            files=self.files,
            directories=self.directories,
            others=self.others,
            content_bytes=self.size_bytes,
            hole_bytes=self.hole_bytes,
        )

    def abort(self) -> None:
        """Discard the open pack."""
        if self._pack is not None:
            self._pack.abort()
            self._pack = None

    def _store(self, page: list[Rows]) -> None:
        content_bytes = self._count(page)
        reference = None if self._parent is None else self._parent.reference_of(page)
        if (
            reference is not None
            # It may be gone since the parent was made: a prune removes what only that needs.
            and self._has(reference.block_id)
            and (self._keeper is None or self._keeper.add_again(reference.block_id))
        ):
            self.pages.append(reference)
            return
        first = page[0]
        place = len(self.pages)
        if self._observe is not None:
            self._observe(place, page)
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
        keeps_raw = self._keeper is not None
        done = partial(self._encoded, place)
        if self._encoders is None or not self._encoders.offer(page, done, keeps_raw=keeps_raw):
            done(self._encoder.encode(page, self._has, keeps_raw=keeps_raw))

    def _encoded(self, place: int, page: EncodedPage) -> None:
        """Page `place` is encoded: store it, unless it is stored."""
        block = page.block_id
        if self._keeper is not None:
            self._keeper.add(block, page.raw)
        if page.stored and not self._has(block):
            self._written.add(block)
            if self._pack is None:
                self._pack = self._packs.open_pack(KIND_LISTING)
            length = page.raw_length
            self._pack.add(block, page.chunk_id, [length], page.codec, page.stored, length)
            if self._pack.size_bytes >= self._pack_size_bytes:
                pack, self._pack = self._pack, None
                self._packs.take(pack.finish())
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
        if strange := strange_times(page):
            self.strange_times += len(strange)
            rows, row = strange[0]
            self.strange_path = self.strange_path or join_path(
                rows.directory, rows.name_list()[row]
            )
        self.hole_bytes = bytes_together((self.hole_bytes, *map(hole_bytes, page)))
        return counts.content_bytes
