"""Snapshots and packs that were read once are not read again, whatever happens to the notes."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.passing_store import PassingStore
from kit.tiny_backup import PASSPHRASE, TinyBackup, back_up, new_repository, read_back
from strongroom.base.errors import DamageError
from strongroom.base.progress import NullProgress
from strongroom.engine.copy.copy import CopyOptions, copy_snapshots, to_be_copied
from strongroom.engine.repository import kept_notes
from strongroom.engine.repository.cache_folder import kept_in, shrink
from strongroom.engine.repository.index import objects
from strongroom.engine.repository.index.kept_index import KeptIndex
from strongroom.engine.repository.keys.roles import PutKey
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.writing.deduplication import StoredChunks

OTHERS = [f"other{number}" for number in range(5)]


class Reads(PassingStore):
    """Notes what is read: (kind, name)."""

    def __init__(self, inner):
        super().__init__(inner, lambda _: None)
        self.read = []

    def get(self, kind, name, offset=0, length=None):
        self.read.append((kind, name))
        return super().get(kind, name, offset, length)

    def of(self, kind):
        found = [name for one, name in self.read if one == kind]
        self.read.clear()
        return found


@pytest.fixture
def repository(tmp_path):
    made = new_repository(LocalStore(tmp_path / "r"))
    for number in range(3):
        back_up(made, {b"file": b"%d" % number})
    return made


def opened(repository, cache, key=None):
    """As another process opens it."""
    key = key or repository.for_all_clients().key
    found = Repository.open(Reads(repository.store), key, cache_folder=cache)
    found.store.read.clear()
    return found


def notes_of(cache):
    return [path for one in kept_in(cache) if one.kind == "notes" for path in one.paths]


def test_a_snapshot_is_read_once(repository, cache):
    first = opened(repository, cache)
    expected = first.snapshots()
    assert len(first.store.of("snapshots")) == 3
    again = opened(repository, cache)
    assert again.snapshots() == expected == repository.snapshots()
    assert again.store.of("snapshots") == []
    new = back_up(repository, {b"file": b"new"})
    again = opened(repository, cache)
    assert new.id in [one.id for one in again.snapshots()]
    assert again.store.of("snapshots") == [new.id]
    # What was read is no reason to believe that it is there.
    repository.store.delete("snapshots", expected[0].id)
    assert len(opened(repository, cache).snapshots()) == 3
    assert read_back(opened(repository, cache), new.id) == {b"file": b"new"}


def test_an_agent_reads_its_own_snapshots_and_those_of_others_once(repository, cache):
    for name in OTHERS:
        back_up(repository, {b"file": name.encode()}, name)
    put = repository.key.put_key("host")
    assert isinstance(put, PutKey)
    agent = opened(repository, cache, put)
    assert {one.host for one in agent.snapshots()} == {"host"}
    assert len(agent.store.of("snapshots")) == 3 + len(OTHERS)
    again = opened(repository, cache, put)
    assert len(again.snapshots()) == 3
    assert again.store.of("snapshots") == []
    # The operator on the same machine does not believe what the agent noted.
    whole = opened(repository, cache)
    assert len(whole.snapshots()) == 3 + len(OTHERS)
    assert len(whole.store.of("snapshots")) == 3 + len(OTHERS)


@pytest.mark.parametrize("change", ["flip", "cut", "empty", "other repository", "folder", "link"])
def test_notes_that_do_not_open_are_made_again(repository, cache, tmp_path, change):
    expected = opened(repository, cache).snapshots()
    (path,) = notes_of(cache)
    with open(path, "rb") as file:
        data = file.read()
    if change == "flip":
        changes = [
            data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 37)
        ]
    elif change == "other repository":
        other = new_repository(LocalStore(tmp_path / "other"))
        back_up(other, {b"file": b"other"})
        opened(other, cache).snapshots()
        (theirs,) = [one for one in notes_of(cache) if one != path]
        with open(theirs, "rb") as file:
            changes = [file.read()]
    else:
        changes = [data[: len(data) // 2]] if change == "cut" else [b""]
    for changed in changes:
        for one in notes_of(cache):
            os.unlink(one)
        if change == "folder":
            os.mkdir(path)
        elif change == "link":
            os.symlink(__file__, path)
        else:
            with open(path, "wb") as file:
                file.write(changed)
        again = opened(repository, cache)
        assert again.snapshots() == expected
        assert len(again.store.of("snapshots")) == 3
    if change in ("folder", "link"):
        return
    again = opened(repository, cache)
    assert again.snapshots() == expected
    assert again.store.of("snapshots") == []


def test_many_backups_leave_few_files_and_notes_of_what_is_gone_go(repository, cache):
    for number in range(40):
        made = back_up(repository, {b"file": b"n%d" % number})
        assert made.id in [one.id for one in opened(repository, cache).snapshots()]
    assert len(notes_of(cache)) <= 6
    kept = {one.id for one in repository.snapshots()[-2:]}
    for one in repository.snapshots():
        if one.id not in kept:
            repository.store.delete("snapshots", one.id)
    for number in range(3):
        for _ in range(2**number):
            back_up(repository, {b"file": os.urandom(8)})
        opened(repository, cache).snapshots()
    notes = kept_notes.KeptNotes(cache, repository.for_all_clients().key, "snapshots")
    there = {one.id for one in repository.snapshots()}
    assert sum(notes.get(name) is not None for name in there) == len(there)
    assert shrink(cache, -1)
    assert notes_of(cache) == []


def test_where_nothing_can_be_written_or_kept_all_is_read(repository, cache, monkeypatch):
    expected = repository.snapshots()
    assert opened(repository, None).snapshots() == expected

    def refuses(*_):
        raise OSError("full")

    monkeypatch.setattr(kept_notes, "require_room", refuses)
    for _ in range(2):
        found = opened(repository, cache)
        assert found.snapshots() == expected
        assert len(found.store.of("snapshots")) == 3


def test_damage_since_then_is_found_by_whoever_reads_the_pages(repository, cache):
    (first, *_) = opened(repository, cache).snapshots()
    data = bytearray(repository.store.get("snapshots", first.id))
    data[-1] ^= 1
    repository.store.delete("snapshots", first.id)
    repository.store.put("snapshots", first.id, bytes(data))
    found = opened(repository, cache)
    assert first.id in [one.id for one in found.snapshots()]
    with pytest.raises(DamageError):
        found.snapshot(first.id)


def test_a_backup_opens_packs_and_index_objects_of_others_once(repository, cache):
    for name in OTHERS:
        back_up(repository, {b"file": name.encode()}, name)
    foreign = {info.name for kind in ("packs", "index") for info in repository.store.list(kind)}

    def opened_of_others():
        own = opened(repository, cache, repository.key.put_key("new"))
        StoredChunks(own)
        return [
            name for kind, name in own.store.read if kind in ("packs", "index") and name in foreign
        ]

    assert len(opened_of_others()) >= len(OTHERS)
    assert opened_of_others() == []
    # Interrupted jobs of one's own are found all the same, and what others add is opened once.
    mine = TinyBackup(repository.for_client("new"))
    mine.store({b"file": b"interrupted"})
    mine.abandon()
    own = opened(repository, cache, repository.key.put_key("new"))
    assert len(StoredChunks(own).orphans) == 1
    more = {info.name for info in repository.store.list("packs")}
    back_up(repository, {b"file": b"later"}, OTHERS[0])
    added = {info.name for info in repository.store.list("packs")} - more
    foreign |= added
    assert set(opened_of_others()) >= added
    assert opened_of_others() == []


def test_an_index_object_that_was_taken_for_another_clients_is_found_when_it_is_missed(
    repository, cache, monkeypatch
):
    owner = repository.writer.client_id
    whole = repository.load_index(owner=owner)
    read = objects.read_index_head
    monkeypatch.setattr(objects, "read_index_head", lambda *of: read(*of)._replace(owner=b"x" * 16))
    KeptIndex(repository.store, repository.key, owner, cache).close()
    monkeypatch.undo()
    snapshot = repository.for_all_clients().snapshot(repository.snapshots()[0].id)
    block = snapshot.pages[0].block_id
    index = KeptIndex(repository.store, repository.key, owner, cache)
    assert block not in index
    assert index.locate(block).pack_id == whole.of_client(owner).locate(block).pack_id
    assert block in KeptIndex(repository.store, repository.key, owner, cache)
    with pytest.raises(DamageError):
        index.locate(b"y" * 24)


def test_threads_that_miss_the_same_object_at_once_all_find_it(repository, cache, monkeypatch):
    owner = repository.writer.client_id
    read = objects.read_index_head
    monkeypatch.setattr(objects, "read_index_head", lambda *of: read(*of)._replace(owner=b"x" * 16))
    KeptIndex(repository.store, repository.key, owner, cache).close()
    monkeypatch.undo()
    blocks = [
        repository.for_all_clients().snapshot(one.id).pages[0].block_id
        for one in repository.snapshots()
    ]
    index = KeptIndex(repository.store, repository.key, owner, cache)
    all_missed, look = threading.Barrier(len(blocks), timeout=60), index._look_again  # noqa: SLF001

    def look_together(block_id):
        all_missed.wait()
        return look(block_id)

    monkeypatch.setattr(index, "_look_again", look_together)
    with ThreadPoolExecutor(len(blocks)) as threads:
        assert len(list(threads.map(index.locate, blocks))) == len(blocks)


def test_a_passphrase_opens_what_the_same_key_noted(repository, cache):
    opened(repository, cache).snapshots()
    found = Repository.open(Reads(repository.store), PASSPHRASE, cache_folder=cache)
    found.store.read.clear()
    assert len(found.snapshots()) == 3
    assert found.store.of("snapshots") == []


def damage(repository, name):
    data = bytearray(repository.store.get("snapshots", name))
    data[-1] ^= 1
    repository.store.delete("snapshots", name)
    repository.store.put("snapshots", name, bytes(data))


def test_a_damaged_copy_does_not_count_as_a_copy(repository, cache, tmp_path):
    target = new_repository(LocalStore(tmp_path / "target"))
    wanted = repository.snapshots()[-1:]
    options = CopyOptions(host="here")
    (copied,) = copy_snapshots(
        repository.for_all_clients(), target, wanted, options, NullProgress(), SetAside()
    )
    noting = opened(target, cache)
    assert to_be_copied(repository, noting, wanted)[0] == []
    noting.snapshots()
    damage(target, copied.copy.id)
    assert to_be_copied(repository, opened(target, cache), wanted) == (wanted, [])
