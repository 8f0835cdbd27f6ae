"""What a client keeps of the index says what the repository says, whatever happens to it."""

import contextlib
import errno
import itertools
import multiprocessing
import os
import random
import shutil

import numpy as np
import pytest

from kit.block_making import block_id_of, chunk_ids_of, make_pack
from kit.memory_store import MemoryStore
from kit.tiny_backup import new_repository
from strongroom.base.errors import DamageError
from strongroom.engine.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE
from strongroom.engine.repository.index import kept_loading, kept_runs
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.kept_index import KeptIndex
from strongroom.engine.repository.index.objects import write_index_object
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import KIND_LISTING
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import write_tombstone
from strongroom.engine.stores.local import LocalStore


def kept(repository, cache, *, chunks=True):
    index = KeptIndex(repository.store, repository.key, repository.writer.client_id, cache)
    if chunks:
        index.load_chunks()
    return index


def written(repository, footers, superseded=(), owner=None):
    key = repository.for_all_clients().key
    owner = owner or repository.writer.client_id
    return write_index_object(repository.store, key, owner, footers, superseded, repository.cipher)


def files(cache):
    found = [os.path.join(at, name) for at, _, names in os.walk(cache) for name in names]
    return [one for one in found if b"/runs/" in one]


class House:
    """A repository that changes at random, and what must be found in it."""

    def __init__(self, repository, seed):
        self.repository = repository
        self.random = random.Random(seed)
        self.blocks = []
        self.objects = {}
        self.number = 0

    def add(self):
        """A backup: one or two packs and their index object."""
        footers = []
        shared = self.random.random() < 0.25
        for _ in range(self.random.randint(1, 3)):
            blocks = []
            for _ in range(self.random.randint(1, 4)):
                if self.blocks and self.random.random() < 0.2:
                    blocks.append(self.random.choice(self.blocks))
                else:
                    self.number += 1
                    blocks.append([b"%d-%d" % (self.number, at) for at in range(3)])
            self.blocks += blocks
            kind = {"kind": KIND_LISTING} if self.random.random() < 0.2 else {}
            offered = shared or self.random.random() < 0.3
            made = make_pack(self.repository, blocks, offered=offered, shared=shared, **kind)
            footers.append(made)
        owner = SHARED if shared else self.repository.writer.client_id
        self.objects[written(self.repository, footers, (), owner)] = (owner, footers)

    def supersede(self):
        """A prune joins index objects, some packs less; the old ones stay for a while or not."""
        owner = self.random.choice([SHARED, self.repository.writer.client_id])
        mine = [name for name, (whose, _) in self.objects.items() if whose == owner]
        if not mine:
            return
        chosen = self.random.sample(mine, self.random.randint(1, min(3, len(mine))))
        footers = [one for name in chosen for one in self.objects[name][1]]
        left = [one for one in footers if self.random.random() < 0.8]
        self.objects[written(self.repository, left, chosen, owner)] = (owner, left)
        for name in chosen:
            del self.objects[name]
            if self.random.random() < 0.7:
                self.repository.store.delete("index", name)

    def forget(self):
        """An index object is gone, as in a repository of an older day."""
        if self.objects:
            name = self.random.choice(list(self.objects))
            del self.objects[name]
            self.repository.store.delete("index", name)

    def mark(self):
        if not self.objects:
            return
        owner, footers = self.objects[self.random.choice(list(self.objects))]
        if footers:
            key, cipher = self.repository.for_all_clients().key, self.repository.cipher
            write_tombstone(self.repository.store, key, owner, [footers[0].pack_id], cipher)

    def require(self, index):
        """The index says what the whole index in memory says, of every block and chunk."""
        owner = self.repository.writer.client_id
        whole = Index.load(self.repository.store, self.repository.key, owner, chunks=True)
        expected = whole.of_client(owner)
        usable = set()
        for pack, columns in whole.columns_by_pack():
            if pack.kind != KIND_LISTING and not pack.marked:
                ids, blocks, at = columns.chunk_ids, columns.block_ids, 0
                for number, count in enumerate(np.frombuffer(columns.chunk_counts, "<u2").tolist()):
                    block = blocks[number * BLOCK_ID_SIZE : (number + 1) * BLOCK_ID_SIZE]
                    for slot in range(count):
                        usable.add((ids[at : at + CHUNK_ID_SIZE], block, slot))
                        at += CHUNK_ID_SIZE
        for offered in (False, True):
            for chunks in self.blocks:
                block = block_id_of(self.repository, chunks, offered=offered)
                copies = expected.copies(block)
                assert set(index.copies(block)) == set(copies)
                assert (block in index) == bool(copies)
                if copies:
                    best, own = expected.locate(block), index.locate(block)
                    assert (best.raw_length, best.flags) == (own.raw_length, own.flags)
                else:
                    with pytest.raises(DamageError):
                        index.locate(block)
                rows = expected.usable_rows(block)
                state = int(whole.are_offered(rows)[0]) if rows[0] >= 0 else -1
                assert index.offered(block).tolist() == [state]
                ids = chunk_ids_of(self.repository, chunks, offered=offered)
                claimed = index.claim(ids)
                for at in range(len(chunks)):
                    an_id = ids[at * CHUNK_ID_SIZE : (at + 1) * CHUNK_ID_SIZE]
                    places = {(one, slot) for found, one, slot in usable if found == an_id}
                    assert (claimed.get(at) in places) if places else (at not in claimed)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("entries", [1, 1 << 20])
def test_it_says_what_the_repository_says_after_any_change(
    tmp_path, cache, monkeypatch, seed, entries
):
    monkeypatch.setattr(kept_loading, "_RUN_ENTRIES", entries)
    repository = new_repository(LocalStore(tmp_path / "r"))
    house = House(repository, seed)
    older = None
    for step in range(14):
        house.random.choice([house.add, house.add, house.add, house.supersede, house.forget])()
        if house.random.random() < 0.2:
            house.mark()
        accident = house.random.randrange(6)
        there = files(cache)
        if accident == 0 and there:
            os.unlink(house.random.choice(there))
        elif accident == 1 and there:
            path = house.random.choice(there)
            with open(path, "r+b") as file:
                # Not the filter, which is no more than a hint.
                file.seek(os.path.getsize(path) - 1 - house.random.randrange(60))
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 8]))
        elif accident == 2 and os.path.exists(cache):
            older = cache + b"-%d" % step
            shutil.copytree(cache, older)
        elif accident == 3 and older is not None:
            shutil.rmtree(cache)
            shutil.copytree(older, cache)
        house.require(kept(repository, cache))
        house.require(kept(repository, cache))
    house.require(kept(repository, None))


def test_only_objects_that_were_not_seen_are_read(tmp_path, repository, cache):
    for number in range(9):
        written(repository, [make_pack(repository, [[b"%d" % number, b"more %d" % number]])])
    assert len(kept(repository, cache).claim(chunk_ids_of(repository, [b"3", b"5", b"no"]))) == 2
    read = []
    plain = repository.store.get
    repository.store.get = lambda kind, *rest: (read.append(kind), plain(kind, *rest))[1]
    index = kept(repository, cache)
    assert len(index.claim(chunk_ids_of(repository, [b"3", b"5", b"no"]))) == 2
    assert "index" not in read
    written(repository, [make_pack(repository, [[b"new"]])])
    assert len(kept(repository, cache).claim(chunk_ids_of(repository, [b"new", b"no"]))) == 1
    # The head and the rest of the one that is new, and all of it by who wrote it.
    assert read.count("index") == 3


def test_runs_are_few_and_merged_by_halves(repository, cache):
    for number in range(40):
        written(repository, [make_pack(repository, [[b"%d" % number, b"more %d" % number]])])
        index = kept(repository, cache)
        lengths = [len(run) for run in index._runs.chunk_folders[repository.writer.client_id].runs]  # noqa: SLF001
        assert sum(lengths) == 2 * (number + 1)
        assert all(one >= 2 * other for one, other in itertools.pairwise(lengths))


class Killed(BaseException):
    pass


@pytest.mark.parametrize("call", ["pwrite", "rename", "unlink"])
def test_a_process_that_dies_at_any_moment_leaves_what_is_right(
    tmp_path, repository, cache, monkeypatch, call
):
    house = House(repository, 3)
    plain = getattr(os, call)
    for limit in range(12):
        house.add()
        count = 0

        def dies(*given, limit=limit, **named):
            nonlocal count
            count += 1
            if count > limit and (call == "pwrite" or b"cache" in given[0]):
                raise Killed
            return plain(*given, **named)

        monkeypatch.setattr(kept_runs.os, call, dies)
        with contextlib.suppress(Killed):
            kept(repository, cache)
        monkeypatch.setattr(kept_runs.os, call, plain)
        house.require(kept(repository, cache))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_where_nothing_can_be_written_it_is_made_in_memory(repository, cache, monkeypatch, number):
    house = House(repository, 4)
    for _ in range(5):
        house.add()

    def fails(*_, **__):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(kept_runs.os, "rename", fails)
        house.require(kept(repository, cache))
    with monkeypatch.context() as patch:
        patch.setattr(os, "makedirs", fails)
        house.require(kept(repository, cache))
    assert files(cache) == []
    house.require(kept(repository, cache))
    assert files(cache)


def test_a_file_in_the_way_of_the_folder_does_no_harm(repository, cache):
    house = House(repository, 5)
    house.add()
    with open(cache, "xb"):
        pass
    house.require(kept(repository, cache))


def test_a_copied_folder_is_used_and_that_of_another_repository_or_client_is_not(
    tmp_path, repository, cache
):
    house = House(repository, 6)
    house.add()
    house.require(kept(repository, cache))
    copy = cache + b"-copy"
    shutil.copytree(cache, copy)
    before = set(files(copy))
    house.require(kept(repository, copy))
    assert set(files(copy)) == before
    # Runs of another client, repository or folder under our names.
    others = [(repository.for_client("another"), cache + b"-2")]
    others.append((new_repository(LocalStore(tmp_path / "r2")), cache + b"-3"))
    others.append((repository, cache + b"-4"))
    for other, folder in others:
        written(other, [make_pack(other, [[b"of another"]])])
        kept(other, folder)
        mine = {os.path.dirname(path) for path in files(cache)}
        for path in files(folder):
            for place in mine:
                shutil.copy(path, place)
        house.require(kept(repository, cache))
        assert not kept(repository.for_client("third"), cache).claim(
            chunk_ids_of(other, [b"of another"])
        )


def test_damage_during_a_lookup_is_made_good(repository, cache):
    blocks = [[b"%d" % number] for number in range(400)]
    written(repository, [make_pack(repository, blocks)])
    index = kept(repository, cache)
    for path in files(cache):
        with open(path, "r+b") as file:
            size = os.path.getsize(path)
            file.seek(0 if b"blocks" in path else 40 + 8 * 256)
            head = file.read(40) if b"blocks" in path else b""
            file.write(os.urandom(size - 6000 - file.tell()))
            assert len(head) in (0, 40)
    ids = b"".join(block_id_of(repository, chunks) for chunks in blocks)
    assert index.has_blocks(ids).all()
    chunks = chunk_ids_of(repository, [chunk for chunks in blocks for chunk in chunks])
    assert len(index.claim(chunks)) == 400
    assert index.locate(ids[:BLOCK_ID_SIZE]).chunk_count == 1
    again = kept(repository, cache)
    assert len(again.claim(chunks)) == 400


def _open_often(path, cache, passphrase, answers):
    repository = Repository.open(LocalStore(path), passphrase).for_client("host")
    wrong = 0
    for _ in range(15):
        names = {info.name for info in repository.store.list("index")}
        index = kept(repository, cache)
        count = len(index.claim(chunk_ids_of(repository, [b"%d" % at for at in range(40)])))
        wrong += count < len(names)
    answers.put(wrong)


def test_processes_that_share_a_folder_all_have_it_right(tmp_path, repository, cache):
    written(repository, [make_pack(repository, [[b"0"]])])
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    start = (repository.store.location, cache, b"passphrase", answers)
    processes = [context.Process(target=_open_often, args=start) for _ in range(4)]
    for process in processes:
        process.start()
    for number in range(1, 30):
        written(repository, [make_pack(repository, [[b"%d" % number]])])
    assert [answers.get(timeout=120) for _ in processes] == [0] * 4
    for process in processes:
        process.join()
    index = kept(repository, cache)
    assert len(index.claim(chunk_ids_of(repository, [b"%d" % at for at in range(30)]))) == 30
    assert not [path for path in files(cache) if b"/new-" in path]


def test_memory_store_without_a_folder(cache):
    repository = new_repository(MemoryStore())
    house = House(repository, 9)
    for _ in range(4):
        house.add()
    house.require(kept(repository, None))
