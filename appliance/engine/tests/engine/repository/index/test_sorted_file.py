"""A sorted file finds what was written into it, and nothing that was changed since."""

import os
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.base.errors import DamageError
from strongroom.engine.repository.index import sorted_file
from strongroom.engine.repository.index.kept_runs import CHUNK_ENTRY
from strongroom.engine.repository.index.sorted_file import (
    FileDamageError,
    KeyMix,
    SortedFile,
    words_of,
    write_sorted_file,
)

SECRET = bytes(32)
ids = st.integers(0, 400).map(lambda number: number.to_bytes(24, "little"))


@pytest.fixture(scope="module", autouse=True)
def files():
    """The descriptors of the files of this module; closed with it."""
    yield FILES
    for descriptor in FILES:
        os.close(descriptor)


FILES = []


def new_file():
    FILES.append(os.memfd_create("test"))
    return FILES[-1]


def written(ids, mix=None, *, filtered=True):
    """A file of these ids; the slot of each is its place in the list."""
    mix = mix or KeyMix(SECRET)
    entries = np.zeros(len(ids), CHUNK_ENTRY)
    entries["id"] = words_of(b"".join(ids))
    entries["slot"] = np.arange(len(ids)) & 0xFFFF
    keys = mix.keys(entries["id"])
    order = np.argsort(keys, kind="stable")
    descriptor = new_file()
    # In pieces, as a merge gives them.
    cuts = range(0, len(ids), 150)
    parts = [(keys[order][at : at + 150], entries[order][at : at + 150]) for at in cuts]
    write_sorted_file(descriptor, mix, parts, len(ids), b"about", filtered=filtered)
    return descriptor


def opened(descriptor, mix=None):
    return SortedFile(os.dup(descriptor), mix or KeyMix(SECRET), CHUNK_ENTRY, b"")


def found(file, wanted, mix=None):
    """The slots of each id that is sought, in order."""
    mix = mix or KeyMix(SECRET)
    words = words_of(b"".join(wanted))
    keys = mix.keys(words)
    slots = [[] for _ in wanted]
    possible = file.may_have(keys)
    for rows, entries in file.find(words[possible], keys[possible]):
        for row, slot in zip(possible[rows].tolist(), entries["slot"].tolist(), strict=True):
            slots[row].append(slot)
    return [sorted(one) for one in slots]


@pytest.mark.parametrize("filtered", [True, False])
@given(there=st.lists(ids, max_size=700), wanted=st.lists(ids, max_size=40))
@settings(deadline=None, max_examples=60)
def test_each_id_is_found_with_all_its_entries(filtered, there, wanted):
    file = opened(written(there, filtered=filtered))
    expected = [[at for at, one in enumerate(there) if one == an_id] for an_id in wanted]
    assert found(file, wanted) == expected
    mix = KeyMix(SECRET)
    for an_id, slots in zip(wanted, expected, strict=True):
        entries = file.find_one(an_id, int(mix.keys(words_of(an_id))[0]))
        assert sorted(int(entry["slot"]) for entry in entries) == slots
    assert sum(len(entries) for _, entries in file.windows()) == len(file) == len(there)
    assert file.about == b"about"


def test_a_small_pool_begins_again_and_finds_the_same(monkeypatch):
    monkeypatch.setattr(sorted_file, "POOL_BYTES_LIMIT", 4 * 128 * (CHUNK_ENTRY.itemsize + 16))
    there = [os.urandom(24) for _ in range(5000)]
    file = opened(written(there))
    assert found(file, there) == [[at] for at in range(len(there))]
    assert len(file._pool) <= 16 * 128  # noqa: SLF001


def test_ids_that_begin_alike_have_different_keys():
    there = [bytes(16) + os.urandom(8) for _ in range(2000)]
    mix = KeyMix(os.urandom(32))
    assert len(np.unique(mix.keys(words_of(b"".join(there))) >> np.uint64(40))) > 1900


def test_no_byte_that_changes_is_believed():
    there = [os.urandom(24) for _ in range(300)]
    good = written(there, filtered=False)
    size = os.fstat(good).st_size
    whole = os.pread(good, size, 0)
    for at in random.Random(1).sample(range(5, size), 200):
        changed = bytearray(whole)
        changed[at] ^= 1 << (at & 7)
        descriptor = new_file()
        os.write(descriptor, changed)
        try:
            assert found(opened(descriptor), there) == [[slot] for slot in range(300)]
            # Two bytes of the head are spare.
            assert at in (6, 7)
        except FileDamageError:
            continue


def test_a_bit_of_the_filter_only_hides_an_entry():
    there = [os.urandom(24) for _ in range(300)]
    descriptor = written(there)
    before = os.pread(descriptor, 1024, 40)
    os.pwrite(descriptor, bytes(1024), 40)
    assert any(before)
    assert set(map(tuple, found(opened(descriptor), there))) == {()}
    os.pwrite(descriptor, b"\xff" * 1024, 40)
    assert found(opened(descriptor), there) == [[slot] for slot in range(300)]
    assert found(opened(descriptor), [os.urandom(24)]) == [[]]


@pytest.mark.parametrize("size", [0, 3, 40, 44, 600, 18_000])
def test_a_file_that_is_cut_off_is_found_at_once(size):
    descriptor = written([os.urandom(24) for _ in range(300)])
    os.truncate(descriptor, size)
    with pytest.raises(FileDamageError):
        opened(descriptor)


def test_a_file_opens_with_its_own_key_only_and_pages_of_another_do_not():
    there = [os.urandom(24) for _ in range(300)]
    with pytest.raises(FileDamageError):
        opened(written(there), KeyMix(os.urandom(32)))
    one, two = written(there, filtered=False), written(there, filtered=False)
    size = 128 * CHUNK_ENTRY.itemsize + 16
    os.pwrite(one, os.pread(two, size, 40), 40)
    with pytest.raises(DamageError):
        found(opened(one), there)
