"""The content references of a listing page, without its rows.

Prune needs nothing else of a page, and decoding only four of its sections is some twenty times as
fast as decoding the rows. It does not verify the sections it skips; check decodes whole pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from strongroom.content.digests import BLOCK_ID_SIZE
from strongroom.decoding import reading
from strongroom.errors import DamageError
from strongroom.repo.listing.details import MAX_PARTS
from strongroom.repo.listing.page import open_page

if TYPE_CHECKING:
    from strongroom.repo.listing.columns import Integers

# Sections before them: directories (3), rows of each (1), names (3) and stat columns (13).
_SECTIONS_BEFORE: Final = 20
_MAX_SLOT: Final = (1 << 16) - 1


class PageParts(NamedTuple):
    """References of a page, each (block, slot) once.

    block_ids: n * 24 bytes. places: for each reference the number of its block among them.
    """

    block_ids: bytes
    places: Integers
    slots: Integers


def decode_parts(data: bytes) -> PageParts:
    """The references of a page. Raises DamageError."""
    with reading("a listing page"):
        return _decode_parts(data)


def _decode_parts(data: bytes) -> PageParts:
    head, reader = open_page(data)
    for _ in range(_SECTIONS_BEFORE):
        reader.take()
    total = int(reader.take_counts(head.row_count, MAX_PARTS).sum())
    if total > MAX_PARTS:
        raise DamageError(f"listing page claims {total} parts")
    block_ids = reader.take()
    places = reader.take_integers(total)
    slots = reader.take_counts(total, _MAX_SLOT)
    if len(block_ids) % BLOCK_ID_SIZE:
        raise DamageError("listing page holds a part of a block id")
    count = len(block_ids) // BLOCK_ID_SIZE
    if total and (int(places.min()) < 0 or int(places.max()) >= count):
        raise DamageError("listing page refers to a block beyond the end of its table")
    references = np.unique(places << 16 | slots)
    return PageParts(block_ids, references >> 16, references & _MAX_SLOT)
