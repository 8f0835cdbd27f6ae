"""A compromised agent stores little that takes much memory, or much time, to read."""

import os
import resource
import struct
from array import array
from contextlib import suppress
from functools import partial

import pytest
from msgspec.structs import replace

from kit.forged_snapshot import file_row, forge
from kit.hostile_house import HostileHouse
from kit.killed_process import in_child
from kit.sealed_by_hand import snapshot_object
from strongroom.base import clock
from strongroom.base.errors import DamageError, UsageError
from strongroom.base.process_memory import limit_memory
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, check
from strongroom.engine.check.vouch import vouch
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.listing import details
from strongroom.engine.repository.listing.page import (
    decode_page,
    decode_parts,
    encode_page,
    open_page,
)
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.rows.rows import decode_rows, encode_rows, new_rows
from strongroom.engine.share.share import ShareOptions, share

MEMORY_BYTES = 600 << 20
PAGE = (b"data", b"one", b"\x5a" * 24, 1, 10)
HOUSE = HostileHouse()
JOBS = {
    "check": lambda house: check(house.whole, CheckOptions(processes=1), NullProgress()),
    "share": lambda house: share(house.whole, ShareOptions(1), NullProgress()),
    "prune": lambda house: prune(house.whole, PruneOptions(), NullProgress()),
    "vouch": lambda house: vouch(house.whole, house.store, NullProgress()),
}


def within_memory(action, memory_bytes=MEMORY_BYTES):
    def limited():
        with open("/proc/self/status", encoding="ascii") as file:
            data_kib = next(int(line.split()[1]) for line in file if line.startswith("VmData"))
        most = (data_kib << 10) + memory_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        action()

    return in_child(limited)


def test_a_few_kilobytes_of_references_take_little_memory_in_any_job():
    """As many references to pages as fit into 512 MiB, which compress to 44 kB."""
    house = HOUSE.fresh()
    count = 12_000_000
    one = b"\x95\xc4\x04data\xc4\x03one\xc4\x18" + b"\x5a" * 24 + b"\x01\x0a"
    assert len(one) * count < 512 << 20
    raw = b"\xdd" + count.to_bytes(4, "big") + one * count
    data = snapshot_object(house.attacker.writer, {}, (), raw_pages=raw)
    assert len(data) < 100_000
    house.add("snapshots", data)
    # Less than the limit for honest lists, so nothing is said of its size: its count is.
    fewer = [PAGE] * 20_000
    house.add("snapshots", snapshot_object(house.attacker.writer, {}, fewer))
    for name, job in JOBS.items():
        assert within_memory(partial(job, house)) == 0, name


def test_a_few_kilobytes_of_long_names_are_damage():
    house = HOUSE.fresh()
    pages = [(b"%06d" % n + b"d" * 100_000, b"one", os.urandom(24), 1, 10) for n in range(400)]
    data = snapshot_object(house.attacker.writer, {}, pages)
    assert len(data) < 40_000
    name = house.add("snapshots", data)
    with pytest.raises(DamageError):
        house.whole.snapshot(name)


def page_of_extents(count):
    """A page of one file that is said to have so many extents."""
    stats = array("q", (0o100644, 0, 0, 1 << 40, 10**18, 10**18, 1, 65, 1, 0))
    rows = new_rows(b"data", [b"one"], stats)
    rows.extents = {0: [(0, 1)]}
    # Three columns of a number each, and no signatures.
    head = encode_page([rows])[:-43]
    number = (9).to_bytes(4, "little") + b"\0" + count.to_bytes(8, "little")
    column = bytes((1, 1)) + bytes(8 + count)
    columns = 2 * (len(column).to_bytes(4, "little") + column)
    return head + number + columns + bytes(4)


def test_what_takes_too_much_memory_is_set_aside_and_never_false():
    house = HOUSE.fresh()
    name = house.add_page(page_of_extents(1 << 24))
    assert len(decode_page(page_of_extents(3))[0].extents[0]) == 3

    def limited():
        report = vouch(house.whole, house.store, NullProgress())
        assert report.set_aside.names("snapshots") == [name]
        assert report.false_objects == []
        assert house.store.unverified("snapshots") == {name}

    assert within_memory(limited, 250 << 20) == 0


def test_more_extents_than_a_backup_can_count_are_damage():
    with pytest.raises(DamageError, match="16777216"):
        decode_page(page_of_extents((1 << 24) + 1))


def page_of_parts(count):
    """A page of one file that is said to have so many parts, all of them the same."""
    stats = array("q", (0o100644, 0, 0, 1 << 40, 10**18, 10**18, 1, 65, 1, 0))
    raw = encode_page([new_rows(b"data", [b"one"], stats)])
    head_size = struct.calcsize("<4sIIBB") + raw[13]
    _, reader = open_page(raw)
    sections = []
    with suppress(DamageError):
        while True:
            sections.append(reader.take())
    column = bytes((1, 1)) + bytes(8 + count)
    # How many parts the row has, the table of blocks, and for each part its block and its slot.
    sections[20:24] = [b"\0" + struct.pack("<q", count), b"\x5a" * 24, column, column]
    return raw[:head_size] + b"".join(struct.pack("<I", len(one)) + one for one in sections)


@pytest.mark.parametrize("page_of", [page_of_extents, page_of_parts])
def test_the_largest_page_takes_less_than_a_gigabyte_to_check(page_of):
    house = HOUSE.fresh()
    name = house.add_page(page_of(1 << 24))

    def limited():
        found = check(house.whole, CheckOptions(processes=1), NullProgress()).findings
        assert not any("memory" in one.problem for one in found)
        assert page_of is page_of_extents or [one.name for one in found] == [name]

    assert within_memory(limited, 1 << 30) == 0


def test_more_parts_than_a_file_can_have_are_damage_for_every_reader():
    page = page_of_parts((1 << 24) + 1)
    for read in (decode_page, decode_parts):
        with pytest.raises(DamageError, match="16777216"):
            read(page)
    assert len(decode_page(page_of_parts(100_000))[0].part_slots) == 100_000


def test_what_no_reader_would_take_is_not_written(monkeypatch):
    rows = decode_page(page_of_extents(3))
    monkeypatch.setattr(details, "MAX_EXTENTS", 2)
    with pytest.raises(UsageError):
        encode_page(rows)


def test_extents_in_columns_are_those_in_pairs():
    (rows,) = decode_page(page_of_extents(5000))
    many = rows.extents[0]
    pairs = list(many)
    assert pairs == many == many[:]
    assert many != pairs[1:]
    assert (many[0], many[-1], len(many[1:])) == (pairs[0], pairs[-1], 4999)
    assert decode_rows(encode_rows(rows)).extents == {0: pairs} == rows.extents
    assert encode_page([rows]) == encode_page([replace(rows, extents={0: pairs})])


def test_a_job_process_has_a_limit_of_its_own():
    def take():
        limit_memory()
        limit, most = resource.getrlimit(resource.RLIMIT_DATA)
        assert limit == most != resource.RLIM_INFINITY
        assert limit >= 1 << 30

    assert in_child(take) == 0


def test_a_client_that_takes_long_waits_and_the_others_do_not(monkeypatch):
    house = HOUSE.fresh()
    before = house.names()
    block = house.whole.for_all_clients().load_index().block_ids(0, 1)
    rows = [file_row(b"%03d" % number, block, size=0) for number in range(40)]
    with SetAside().leaving_out("snapshots", ""):
        forge(house.attacker, *rows, start_ns=1)
    house.store.unsure |= house.names() - before
    house.store.unsure |= {("snapshots", house.kept.id)}
    seconds = iter(range(10**6))
    with monkeypatch.context() as patched:
        # Every look at the clock takes half a minute.
        patched.setattr(clock, "elapsed_seconds", lambda: 30.0 * next(seconds))
        report = vouch(house.whole, house.store, NullProgress())
        assert len(report.set_aside.names("packs")) > 1
        assert house.kept.id not in house.store.unverified("snapshots")
        assert not [one for one in report.false_objects if one[0] == "packs"]
    waiting = len(house.store.unverified("packs"))
    assert waiting
    # The next run continues.
    assert not vouch(house.whole, house.store, NullProgress()).set_aside.names("packs")
    assert len(house.store.unverified("packs")) < waiting
