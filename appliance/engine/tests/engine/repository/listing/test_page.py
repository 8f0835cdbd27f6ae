"""Listing pages give back what was put in, and nothing but DamageError for anything else."""

from __future__ import annotations

import struct
import time
import tracemalloc
from array import array

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kit.rows_strategy import page_groups
from strongroom.base.errors import DamageError
from strongroom.engine.content.digests import BLOCK_ID_SIZE
from strongroom.engine.repository.listing.columns import SectionReader
from strongroom.engine.repository.listing.page import MAX_PAGE_ROWS, decode_page, encode_page
from strongroom.engine.rows.rows import Rows, comparison_digest, new_rows, split_rows
from strongroom.engine.scan.attributes import encode_xattrs

HEAD_BYTES = 14
# After directories (3 sections), their counts (1), names (3) and stat columns (13).
PART_COUNTS = 20


def plain_rows(directory: bytes, names: list[bytes]) -> Rows:
    stats = array("q")
    for number in range(len(names)):
        stats.extend((0o100644, 0, 0, number, 10**18, 10**18, 7 + number, 65, 1, 0))
    return new_rows(directory, names, stats)


@given(page_groups())
def test_a_page_decodes_to_the_rows_it_was_made_of_and_to_their_digests(groups):
    decoded = decode_page(encode_page(groups))
    assert decoded == groups
    assert [comparison_digest(rows.names, rows.stats) for rows in decoded] == [
        comparison_digest(rows.names, rows.stats) for rows in groups
    ]


@given(page_groups(), st.randoms(use_true_random=False))
def test_slices_leave_no_trace_in_a_page(groups, random):
    pieces = []
    for rows in groups:
        cuts = sorted(random.sample(range(rows.row_count + 1), min(2, rows.row_count)))
        pieces += split_rows(rows, cuts)
    assert encode_page(pieces) == encode_page(groups)


@given(page_groups(), st.data())
def test_any_change_to_a_page_is_damage_or_decodes(groups, data):
    page = bytearray(encode_page(groups))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(page) - 1))
        action = data.draw(st.sampled_from(["set", "cut", "insert", "delete"]))
        if action == "set":
            page[position] = data.draw(st.integers(0, 255))
        elif action == "cut":
            del page[max(position, 1) :]
        elif action == "insert":
            page[position:position] = data.draw(st.binary(min_size=1, max_size=9))
        elif len(page) > 1:
            del page[position]
    try:
        decoded = decode_page(bytes(page))
    except DamageError:
        return
    # What still decodes is its own page: well formed, and so it can be written again.
    assert decode_page(encode_page(decoded)) == decoded


@given(st.binary(max_size=200))
def test_noise_is_damage(noise):
    with pytest.raises(DamageError):
        decode_page(noise)
    with pytest.raises(DamageError):
        decode_page(b"SRL1" + noise)


def test_every_truncation_is_damage():
    page = encode_page([plain_rows(b"a", [b"x", b"y"]), plain_rows(b"b", [b"z"])])
    for length in range(len(page)):
        with pytest.raises(DamageError):
            decode_page(page[:length])
    with pytest.raises(DamageError, match="longer"):
        decode_page(page + b"\0")


def sections(page: bytes) -> list[bytes]:
    name_length = page[13]
    reader = SectionReader(page, HEAD_BYTES + name_length)
    found = []
    while True:
        try:
            found.append(reader.take())
        except DamageError:
            return found


def rebuilt(page: bytes, parts: list[bytes]) -> bytes:
    head = page[: HEAD_BYTES + page[13]]
    return head + b"".join(struct.pack("<I", len(part)) + part for part in parts)


CONSTANT_BOMB = struct.pack("<Bq", 0, 2**32 - 1)


@pytest.mark.parametrize("rows_and_groups", [(2**31, 1), (2**31, 2**31), (MAX_PAGE_ROWS + 1, 1),
                                             (0, 0), (1, 0), (1, 2)])  # fmt: skip
def test_forged_counts_in_the_head_are_damage(rows_and_groups):
    page = bytearray(encode_page([plain_rows(b"a", [b"x"])]))
    page[4:12] = struct.pack("<II", *rows_and_groups)
    with pytest.raises(DamageError):
        decode_page(bytes(page))


def test_every_section_can_be_forged_without_harm():
    rows = plain_rows(b"a", [b"w", b"x", b"y", b"z"])
    rows.part_counts = array("I", [1, 0, 2, 1])
    rows.part_blocks = b"a" * BLOCK_ID_SIZE + b"b" * 3 * BLOCK_ID_SIZE
    rows.part_slots = array("H", [3, 4, 5, 6])
    rows.targets = {1: b"target"}
    rows.xattrs = {0: encode_xattrs([(b"user.a", b"1")]), 3: encode_xattrs([(b"user.b", b"")])}
    rows.flags = {2: 0x10}
    rows.states = {3: 1}
    rows.extents = {2: [(0, 4096), (8192, 4096)]}
    page = encode_page([rows])
    parts = sections(page)
    assert rebuilt(page, parts) == page
    forgeries = [
        b"",
        CONSTANT_BOMB,
        struct.pack("<Bq", 0, -1),
        struct.pack("<Bq", 0, 2**62),
        struct.pack("<BBq", 1, 8, 0) + b"\xff" * 32,
        struct.pack("<BBq", 2, 8, 2**62) + b"\xfe" * 32,
        struct.pack("<BBq", 1, 3, 0) + b"\0" * 12,
        struct.pack("<BBq", 9, 1, 0) + b"\0" * 4,
        b"\x03\0" + b"\0" * 8 + b"\xff" * 4,
        b"\x03\xff",
        b"\xff" * 7,
        b"\0" * 16,
    ]
    tracemalloc.start()
    started = time.process_time()
    for number in range(len(parts)):
        for forgery in forgeries:
            forged = rebuilt(page, [*parts[:number], forgery, *parts[number + 1 :]])
            try:
                decode_page(forged)
            except DamageError:
                continue
    elapsed = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert elapsed < 10


def test_parts_that_are_not_stored_are_never_allocated():
    page = encode_page([plain_rows(b"a", [b"%05d" % number for number in range(MAX_PAGE_ROWS)])])
    parts = sections(page)
    assert parts[PART_COUNTS] == struct.pack("<Bq", 0, 0)
    forged = rebuilt(page, [*parts[:PART_COUNTS], CONSTANT_BOMB, *parts[PART_COUNTS + 1 :]])
    tracemalloc.start()
    with pytest.raises(DamageError):
        decode_page(forged)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 << 20


def spoilt(directory: bytes, names: bytes, count: int) -> bytes:
    """A page with names that the encoder would be handed only by a forger."""
    rows = plain_rows(directory, [b"%d" % number for number in range(count)])
    rows.names = names
    return encode_page([rows])


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (b"a/b", 1),
        (b"..", 1),
        (b".", 1),
        (b"a\0..\0b", 3),
        (b"", 1),
        (b"b\0a", 2),
        (b"a\0a", 2),
        (b"\0a", 2),
        (b"../../etc/passwd", 1),
    ],
)
def test_names_that_would_lead_elsewhere_are_damage(names, count):
    with pytest.raises(DamageError):
        decode_page(spoilt(b"home", names, count))


def test_only_the_root_has_a_row_without_a_name():
    page = spoilt(b"", b"\0bin", 2)
    assert decode_page(page)[0].name_list() == [b"", b"bin"]
    with pytest.raises(DamageError):
        decode_page(spoilt(b"", b"bin\0", 2))


@pytest.mark.parametrize("path", [b"..", b"a/../b", b"/a", b"a/", b"a//b", b"./a", b"a/."])
def test_directories_that_would_lead_elsewhere_are_damage(path):
    with pytest.raises(DamageError):
        decode_page(encode_page([plain_rows(path, [b"x"])]))


@pytest.mark.parametrize("paths", [(b"b", b"a"), (b"a-b", b"a/b")])
def test_directories_out_of_order_are_damage(paths):
    with pytest.raises(DamageError):
        decode_page(encode_page([plain_rows(path, [b"x"]) for path in paths]))


def test_a_name_with_nul_cannot_be_stored():
    rows = plain_rows(b"a", [b"x"])
    rows.names = b"x\0y"
    with pytest.raises(ValueError, match="names"):
        encode_page([rows])


def test_too_many_rows_and_mixed_signatures_are_refused():
    with pytest.raises(ValueError, match="rows"):
        encode_page([])
    with pytest.raises(ValueError, match="rows"):
        encode_page([plain_rows(b"a", [b"%06d" % n for n in range(MAX_PAGE_ROWS + 1)])])
    other = plain_rows(b"b", [b"x"])
    other.signature_name = "md5"
    with pytest.raises(ValueError, match="signatures"):
        encode_page([plain_rows(b"a", [b"x"]), other])


def test_a_directory_without_signatures_gets_zeros_beside_others():
    signed = plain_rows(b"a", [b"x"])
    signed.signature_name, signed.signatures = "md5", b"s" * 16
    unsigned = plain_rows(b"b", [b"x", b"y"])
    unsigned.signature_name = "md5"
    assert [rows.signatures for rows in decode_page(encode_page([signed, unsigned]))] == [
        b"s" * 16,
        bytes(32),
    ]


def test_empty_files_cost_less_than_a_byte_each():
    compressor = zstandard.ZstdCompressor(level=1)
    stored = 0
    for start in range(0, 65536, 8192):
        names = [b"file%07d" % number for number in range(start, start + 8192)]
        stats = array("q")
        for number in range(start, start + 8192):
            when = 1_700_000_000_000_000_000 + number // 500 * 4_000_000
            stats.extend((0o100644, 0, 0, 0, when, when, 1000 + number, 65, 1, 0))
        stored += len(compressor.compress(encode_page([new_rows(b"data", names, stats)])))
    assert stored < 65536 // 2
