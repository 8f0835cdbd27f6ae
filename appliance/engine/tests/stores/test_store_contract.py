"""What every store promises; each store of the engine runs this suite.

Objects have the names that their kind wants: a store may look whether a name is the digest.
"""

import os
import subprocess
import sys

import pytest

from kit.storage_daemon import Daemon
from strongroom.content.digests import object_name
from strongroom.errors import DamageError, ObjectMissingError, RepositoryNotFoundError, StoreError
from strongroom.stores.faults import FaultStore
from strongroom.stores.local import LocalStore

DATA = b"0123456789"
NAME = object_name(DATA)
OTHER = "cd" * 32


@pytest.fixture
def repository(tmp_path):
    return tmp_path / "repository"


@pytest.fixture(params=["local", "local behind faults", "storage daemon"])
def store(request, tmp_path, repository):
    daemon = None
    if request.param == "storage daemon":
        daemon = Daemon(tmp_path)
        made = daemon.local()
    else:
        made = LocalStore(repository)
    if request.param == "local behind faults":
        made = FaultStore(made)
    made.prepare()
    yield made
    made.close()
    if daemon is not None:
        daemon.stop()


@pytest.fixture(params=["packs", "index", "snapshots", "keys", "leases", "tombstones"])
def kind(request):
    return request.param


def write(store, kind, name, *parts):
    writer = store.writer(kind)
    for part in parts:
        writer.write(part)
    writer.commit(name)


def test_an_object_reads_back_whole_and_in_parts(store, kind):
    store.put(kind, NAME, DATA)
    assert store.get(kind, NAME) == DATA
    assert store.get(kind, NAME, 3) == b"3456789"
    assert store.get(kind, NAME, 3, 4) == b"3456"
    assert store.get(kind, NAME, 10, 0) == b""
    assert store.size(kind, NAME) == 10


def test_an_object_may_be_empty(store, kind):
    name = object_name(b"")
    store.put(kind, name, b"")
    assert store.get(kind, name) == b""
    assert store.size(kind, name) == 0


def test_a_streamed_object_is_the_sum_of_its_parts(store, kind):
    name = object_name(b"onetwothree")
    write(store, kind, name, b"one", memoryview(b"two"), bytearray(b"three"), b"")
    assert store.get(kind, name) == b"onetwothree"


@pytest.mark.parametrize("kind", ["packs", "index"])
def test_an_object_may_be_larger_than_any_message(store, kind):
    data = bytes(range(251)) * 80_000
    name = object_name(data)
    if kind == "packs":
        write(store, kind, name, data[:10], data[10:1_000_000], data[1_000_000:])
    else:
        store.put(kind, name, data)
    assert store.get(kind, name) == data
    assert store.get(kind, name, 5, 19_000_000) == data[5:19_000_005]


def test_a_writer_copies_what_it_is_given(store):
    buffer = bytearray(b"first")
    name = object_name(buffer)
    writer = store.writer("packs")
    writer.write(buffer)
    buffer[:] = b"XXXXX"
    writer.commit(name)
    assert store.get("packs", name) == b"first"


def test_an_object_is_invisible_until_committed_and_after_abort(store, kind):
    writer = store.writer(kind)
    writer.write(b"half")
    assert list(store.list(kind)) == []
    writer.abort()
    writer.abort()
    assert list(store.list(kind)) == []
    with pytest.raises(ObjectMissingError):
        store.get(kind, NAME)


def test_the_same_object_twice_is_fine(store, kind):
    store.put(kind, NAME, DATA)
    store.put(kind, NAME, DATA)
    store.put_durable(kind, NAME, DATA)
    write(store, kind, NAME, DATA)
    assert [info.name for info in store.list(kind)] == [NAME]


def test_another_object_of_the_same_name_is_refused(store, kind):
    store.put(kind, NAME, DATA)
    # One that knows that the name is false says that instead.
    with pytest.raises((StoreError, DamageError)):
        store.put(kind, NAME, b"other")
    with pytest.raises(DamageError):
        write(store, kind, NAME, b"longer than that")
    assert store.get(kind, NAME) == DATA


def test_put_new_takes_a_name_once(store, kind):
    assert store.put_new(kind, NAME, DATA)
    assert not store.put_new(kind, NAME, b"second" if kind == "leases" else DATA)
    assert store.get(kind, NAME) == DATA


def test_replace_replaces(store):
    store.put_new("leases", NAME, b"first")
    store.replace("leases", NAME, b"second")
    store.replace("leases", OTHER, b"new")
    assert store.get("leases", NAME) == b"second"
    assert store.get("leases", OTHER) == b"new"


def test_there_is_one_configuration(store):
    assert list(store.list("config")) == []
    assert store.put_new("config", "config", b"one")
    assert not store.put_new("config", "config", b"two")
    assert [(info.name, info.size_bytes) for info in store.list("config")] == [("config", 3)]
    assert store.get("config", "config") == b"one"


def test_list_names_every_object_of_the_kind_and_no_other(store, kind):
    other = object_name(b"22")
    store.put(kind, NAME, DATA)
    store.put(kind, other, b"22")
    store.put("packs" if kind != "packs" else "index", object_name(b"333"), b"333")
    pending = store.writer(kind)
    pending.write(b"half")
    listed = {info.name: info.size_bytes for info in store.list(kind)}
    pending.abort()
    assert listed == {NAME: 10, other: 2}


def test_the_time_of_an_object_goes_on_when_it_is_replaced(store):
    store.put_new("leases", NAME, b"first")
    (before,) = store.list("leases")
    store.replace("leases", NAME, b"second")
    (after,) = store.list("leases")
    assert after.modified_ns >= before.modified_ns > 0


def test_deleting_removes_and_repeats(store, kind):
    store.put(kind, NAME, DATA)
    store.delete(kind, NAME)
    store.delete(kind, NAME)
    assert list(store.list(kind)) == []
    with pytest.raises(ObjectMissingError):
        store.size(kind, NAME)


def test_a_missing_object_says_so(store, kind):
    with pytest.raises(ObjectMissingError):
        store.get(kind, NAME)
    with pytest.raises(ObjectMissingError):
        store.size(kind, NAME)


@pytest.mark.parametrize(("offset", "length"), [(0, 11), (9, 2), (11, 1), (0, 1 << 62)])
def test_too_few_bytes_are_damage_not_a_short_answer(store, kind, offset, length):
    store.put(kind, NAME, DATA)
    with pytest.raises(DamageError):
        store.get(kind, NAME, offset, length)


@pytest.mark.parametrize("name", ["../config", "a/b", "", "..", "a\0b", "é", "a b"])
def test_a_name_cannot_lead_elsewhere(store, kind, name):
    store.put_new("config", "config", b"secret")
    with pytest.raises(DamageError):
        store.get(kind, name)
    with pytest.raises(DamageError):
        store.put(kind, name, b"x")
    with pytest.raises(DamageError):
        store.delete(kind, name)
    assert store.get("config", "config") == b"secret"


def test_sync_and_reopen_keep_everything(store):
    store.put("index", NAME, DATA)
    store.sync()
    again = store.reopen()
    assert again.get("index", NAME) == DATA
    assert again.location == store.location
    again.close()


def test_a_living_writer_is_not_abandoned_and_a_dead_one_is(store, repository):
    living = store.writer("packs")
    living.write(DATA)
    program = (
        "import os, sys\n"
        "from strongroom.stores.local import LocalStore\n"
        "writer = LocalStore(sys.argv[1]).writer('packs')\n"
        "writer.write(b'left behind')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(repository)], check=False)
    assert store.remove_abandoned() == 1
    assert store.remove_abandoned() == 0
    living.commit(NAME)
    assert store.get("packs", NAME) == DATA


def test_a_writer_handed_to_a_child_lives_as_long_as_the_child(store):
    writer = store.writer("packs")
    writer.write(DATA)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    os.close(read_end)
    removed = store.reopen().remove_abandoned()
    os.close(write_end)
    os.waitpid(child, 0)
    writer.abort()
    assert removed == 0


def test_a_place_without_a_repository_says_so(tmp_path):
    with pytest.raises(RepositoryNotFoundError):
        LocalStore(tmp_path / "nowhere").get("config", "config")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RepositoryNotFoundError):
        LocalStore(tmp_path / "file").get("config", "config")
