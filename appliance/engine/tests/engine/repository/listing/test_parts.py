"""The references of a page are those of its rows."""

from hypothesis import given

from kit.rows_strategy import page_groups
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.listing.page import decode_parts, encode_page


@given(page_groups())
def test_the_references_of_a_page_are_those_of_its_rows(groups):
    expected = set()
    for rows in groups:
        for part, slot in enumerate(rows.part_slots):
            expected.add(
                (rows.part_blocks[part * BLOCK_ID_SIZE : (part + 1) * BLOCK_ID_SIZE], slot)
            )
    parts = decode_parts(encode_page(groups))
    found = [
        (parts.block_ids[place * BLOCK_ID_SIZE : (place + 1) * BLOCK_ID_SIZE], slot)
        for place, slot in zip(parts.places.tolist(), parts.slots.tolist(), strict=True)
    ]
    assert set(found) == expected
    assert len(found) == len(expected)
