"""Encodes pages of a listing: rows in, ids and the compressed chunk out.

It is most of what writing a listing costs, so it can be given to another process: see
`ListingWriter` and `backup.shards.page_tasks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from strongroom.content.codecs import Compressor, parse_compression
from strongroom.content.digests import block_id, chunk_id, ids_and_lengths
from strongroom.repo.listing.page import encode_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.repo.keys.owners import ContentKeys
    from strongroom.rows.rows import Rows

_COMPRESSION: Final = "zstd1"


class EncodedPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A page, which is one chunk in a block of its own.

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
