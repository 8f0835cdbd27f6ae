"""Requests of a distant store are made at the same time; of a near one, one after the other."""

import os
import threading
from array import array
from contextlib import closing
from functools import partial
from random import Random

import pytest

from kit.block_making import make_pack
from kit.daemon_process import wait_for
from kit.memory_store import MemoryStore
from kit.tiny_backup import CHEAP, HOST, PASSPHRASE, back_up, read_back
from strongroom.base.errors import DamageError, ObjectMissingError, RightError
from strongroom.base.progress import NullProgress
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.blocks import BlockReader
from strongroom.engine.repository.blocks_ahead import AHEAD_BYTES
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.packs import read_footer
from strongroom.engine.repository.repository import Repository
from strongroom.engine.restore.stored_content import StoredContent
from strongroom.engine.rows.rows import new_rows
from strongroom.engine.stores.at_once import at_once, delete_each, most_together, read_each


class DistantStore(MemoryStore):
    """Counts what is in progress."""

    most_together = 4
    has_read_ahead = False
    takes_changes = True

    def __init__(self, objects=None):
        super().__init__(objects)
        self.ranges = []
        self.removed = []

    def delete(self, kind, name):
        self.removed.append(kind)
        super().delete(kind, name)

    def get(self, kind, name, offset=0, length=None):
        self.ranges.append((kind, offset, length))
        return super().get(kind, name, offset, length)


@pytest.fixture
def distant():
    return DistantStore()


def test_what_does_not_depend_on_each_other_is_in_progress_together(distant):
    meeting = threading.Barrier(4, timeout=60)
    threads = threading.active_count()
    assert at_once(distant, *(meeting.wait for _ in range(4))) != []
    assert at_once(distant, *(partial(pow, 2, number) for number in range(9))) == [
        2**number for number in range(9)
    ]
    assert threading.active_count() == threads


def test_of_a_near_store_one_follows_the_other():
    near, seen = MemoryStore(), []
    assert most_together(near) == 1
    at_once(near, *(partial(seen.append, number) for number in range(5)))
    assert seen == list(range(5))


def test_the_first_that_fails_is_raised_after_all_were_tried(distant):
    tried = []

    def fail(error):
        tried.append(error)
        raise error

    first, second = DamageError("first"), ObjectMissingError("second")
    with pytest.raises(DamageError) as raised:
        at_once(distant, lambda: None, partial(fail, first), partial(fail, second))
    assert raised.value is first
    assert len(tried) == 2


def test_objects_come_in_the_order_of_their_names_or_with_what_is_wrong_with_them(distant):
    for number in range(0, 10, 2):
        distant.put("leases", f"{number}", bytes([number]))
    names = [f"{number}" for number in range(10)]
    found = list(read_each(distant, names, lambda name: distant.get("leases", name)))
    assert [name for name, _ in found] == names
    for number, (_, data) in enumerate(found):
        if number % 2:
            assert isinstance(data, ObjectMissingError)
        else:
            assert data == bytes([number])


def test_objects_are_removed_together_and_one_that_is_refused_keeps_none_of_the_others(
    distant, monkeypatch
):
    meeting = threading.Barrier(4, timeout=60)
    remove, refused = MemoryStore.delete, RightError("not this one")

    def delete(store, kind, name):
        meeting.wait()
        if name == "2":
            raise refused
        remove(store, kind, name)

    monkeypatch.setattr(MemoryStore, "delete", delete)
    names = [f"{number}" for number in range(8)]
    for name in names:
        distant.put("leases", name, b"")
    found = dict(delete_each(distant, "leases", names))
    assert found == {name: refused if name == "2" else None for name in names}
    assert [info.name for info in distant.list("leases")] == ["2"]


def test_prune_drops_packs_from_the_index_before_they_go_and_their_marks_last(repository):
    kept = back_up(repository, {b"a": os.urandom(3000)})
    for _ in range(3):
        gone = back_up(repository, {b"b": os.urandom(3000)})
        repository.store.delete("snapshots", gone.id)
    store = repository.store
    store.removed.clear()
    again = Repository.open(store.reopen(), PASSPHRASE)
    assert prune(again, PruneOptions(), NullProgress()).removed_packs > 1
    removed = [kind for kind in again.store.removed if kind in ("index", "packs", "tombstones")]
    assert removed == sorted(removed)
    assert set(removed) == {"index", "packs", "tombstones"}
    assert read_back(again, kept.id).keys() == {b"a"}


@pytest.fixture
def repository(distant):
    return Repository.create(distant, PASSPHRASE, cost=CHEAP).for_client(HOST)


@pytest.mark.parametrize("chunk_count", [2, 4000])
def test_a_footer_is_read_whatever_its_size_and_what_is_said_of_the_pack(repository, chunk_count):
    footer = make_pack(repository, [[os.urandom(8) for _ in range(chunk_count)]])
    store, key = repository.store, repository.key
    for size in (0, footer.size_bytes, footer.size_bytes + 5, footer.size_bytes - 5, 1, 1 << 40):
        assert read_footer(store, key, footer.pack_id, size) == footer
    with pytest.raises(ObjectMissingError):
        read_footer(store, key, b"\1" * 32)


def test_a_snapshot_is_read_with_the_ends_of_its_packs(repository):
    files = {b"a": b"first" * 100, b"b": os.urandom(3000), b"c": b""}
    snapshot = back_up(repository, files)
    again = Repository.open(repository.store.reopen(), PASSPHRASE)
    assert [one.id for one in again.snapshots()] == [snapshot.id]
    assert read_back(again, snapshot.id) == files
    store = repository.store
    for info in list(store.list("packs")):
        store.delete("packs", info.name)
    with pytest.raises((DamageError, ObjectMissingError)):
        read_back(Repository.open(store.reopen(), PASSPHRASE), snapshot.id)


class Announced:
    """Blocks in packs of a distant store, and a reader of them."""

    def __init__(self, repository, packs):
        """packs: the chunks of each block of each."""
        self.footers = [make_pack(repository, blocks) for blocks in packs]
        index = Index()
        for footer in self.footers:
            index.add(footer)
        self.store = repository.store
        blocks = index.of_client(repository.writer.client_id)
        self.reader = BlockReader(self.store, repository.restore_key, blocks)
        self.ids = [entry.block_id for footer in self.footers for entry in footer.blocks]
        self.store.ranges.clear()


def test_announced_blocks_come_before_they_are_asked_for_and_neighbours_together(repository):
    chunks = [[bytes([number]) * 9000] for number in range(12)]
    packs = Announced(repository, [chunks[first : first + 4] for first in (0, 4, 8)])
    with closing(packs.reader) as reader:
        reader.read_ahead(packs.ids)
        assert reader.block(packs.ids[0]) == chunks[0][0]
        assert [reader.block(one) for one in packs.ids] == [b"".join(one) for one in chunks]
        assert len(packs.store.ranges) == 2 * len(packs.footers)


def test_announced_blocks_come_in_any_order(repository):
    chunks = [[os.urandom(700 << 10)] for _ in range(60)]
    packs = Announced(repository, [chunks[first::3] for first in range(3)])
    stored = [one for first in range(3) for one in chunks[first::3]]
    content = dict(zip(packs.ids, stored, strict=True))
    order = packs.ids[:]
    Random(7).shuffle(order)
    with closing(packs.reader) as reader:
        reader.read_ahead(packs.ids[:30], packs.ids[30:])
        for one in order:
            assert reader.block(one) == content[one][0]


def test_what_is_read_ahead_takes_bounded_memory(repository):
    chunks = [[os.urandom(1 << 20)] for _ in range(40)]
    packs = Announced(repository, [chunks[:20], chunks[20:]])
    with closing(packs.reader) as reader:
        reader.read_ahead(packs.ids)
        for used, one in enumerate(packs.ids):
            assert reader.block(one) == chunks[used][0]
            asked = sum(length for _, _, length in packs.store.ranges)
            assert asked - (used << 20) <= AHEAD_BYTES + (3 << 20)


def test_a_block_is_read_though_one_that_is_wanted_next_is_gone(repository):
    packs = Announced(repository, [[[bytes([number]) * 90]] for number in range(2)])
    gone = packs.footers[1]
    repository.store.delete("packs", gone.pack_id.hex())
    with closing(packs.reader) as reader:
        reader.read_ahead([*packs.ids, b"\7" * 24])
        assert reader.block(packs.ids[0]) == bytes(90)
        with pytest.raises((DamageError, ObjectMissingError)):
            reader.block(packs.ids[1])


def test_parts_of_large_files_come_before_they_are_asked_for_too(repository):
    packs = Announced(repository, [[[os.urandom(1 << 20)] for _ in range(8)]])
    content = StoredContent(packs.reader)
    content.expect_parts([(one, 0) for one in packs.ids])
    for one in packs.ids:
        content.chunk(one, 0)
    assert len(packs.store.ranges) <= 6
    rows = new_rows(b"d", [b"0"], array("q", [0] * 10))
    rows.part_counts[0] = 8
    for one in packs.ids:
        rows.part_blocks += one
        rows.part_slots.append(0)
    content = StoredContent(packs.reader)
    content.expect([(rows, frozenset())])
    packs.store.ranges.clear()
    for one in packs.ids:
        content.chunk(one, 0)
    assert len(packs.store.ranges) <= 6
    packs.reader.close()


def test_what_was_passed_over_is_not_read_instead_of_what_comes_next(repository):
    """A restore keeps files that are there as they are, and asks for none of their content."""
    chunks = [[os.urandom(2 << 20)] for _ in range(8)]
    packs = Announced(repository, [[one] for one in chunks])
    content = StoredContent(packs.reader)
    rows = new_rows(b"d", [b"%d" % number for number in range(8)], array("q", [0] * 80))
    for number, block in enumerate(packs.ids):
        rows.part_counts[number] = 1
        rows.part_blocks += block
        rows.part_slots.append(0)
    content.expect([(rows, frozenset())])
    assert content.chunk(packs.ids[4], 0) == chunks[4][0]
    assert content.chunk(packs.ids[5], 0) == chunks[5][0]
    # A header and a block of each that is left.
    wait_for(lambda: len(packs.store.ranges) >= 2 * 4)
    packs.reader.close()
    assert len(packs.store.ranges) == 2 * 4


def test_what_opens_many_packs_is_read_once_though_much_of_it_came_before_it_is_used(
    repository, monkeypatch
):
    packs = Announced(repository, [[[os.urandom(90), os.urandom(90)]] for _ in range(200)])
    # A header, an end and a block of each.
    wanted, all_came = 3 * len(packs.footers), threading.Event()
    get = DistantStore.get

    def count(store, *words):
        data = get(store, *words)
        if len(store.ranges) >= wanted:
            all_came.set()
        return data

    monkeypatch.setattr(DistantStore, "get", count)
    with closing(packs.reader) as reader:
        reader.read_ahead(packs.ids)
        reader.block(packs.ids[0])
        assert all_came.wait(60)
        for one in packs.ids:
            reader.block(one)
    assert len(packs.store.ranges) == wanted


def test_a_request_that_is_not_wanted_any_more_counts_until_it_ends(repository, monkeypatch):
    """Though its block begins anew, as where files that are kept have what a later one has."""
    chunks = [[os.urandom(1 << 20)] for _ in range(3)]
    packs = Announced(repository, [[one] for one in chunks])
    slow, may_end = packs.footers[1].pack_id.hex(), threading.Event()
    get, asked = DistantStore.get, []

    def wait(store, kind, name, offset=0, length=None):
        if name == slow and (length or 0) > 1 << 19:
            asked.append(name)
            if len(asked) == 1:
                assert may_end.wait(60)
        return get(store, kind, name, offset, length)

    monkeypatch.setattr(DistantStore, "get", wait)
    with closing(packs.reader) as reader:
        reader.read_ahead(packs.ids)
        assert reader.block(packs.ids[0]) == chunks[0][0]
        assert reader.block(packs.ids[2]) == chunks[2][0]
        assert reader.block(packs.ids[1]) == chunks[1][0]
        assert reader._ahead[0]._held_bytes > 1 << 20  # noqa: SLF001
        may_end.set()
    assert len(asked) == 2


def test_a_store_that_does_not_answer_is_not_waited_for_at_the_end(repository, monkeypatch):
    packs = Announced(repository, [[[bytes([number]) * 90]] for number in range(2)])
    may_end, get = threading.Event(), DistantStore.get

    def wait(store, kind, name, *part):
        if name == packs.footers[1].pack_id.hex():
            assert may_end.wait(60)
        return get(store, kind, name, *part)

    monkeypatch.setattr(DistantStore, "get", wait)
    packs.reader.read_ahead(packs.ids)
    assert packs.reader.block(packs.ids[0]) == bytes(90)
    assert not packs.reader.close()
    may_end.set()
    packs.reader.read_ahead(packs.ids)
    assert packs.reader.block(packs.ids[1]) == bytes([1]) * 90
    assert packs.reader.close()
