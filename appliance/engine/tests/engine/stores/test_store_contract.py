"""What every store promises; each store of the engine runs this suite.

Objects have the names that their kind wants: a store may look whether a name is the digest. Remote
stores are those of a real daemon on loopback, by its socket and over TCP, where the peer is one who
may do everything: who may do what is for tests/storage_daemon. Behind ssh is OpenSSH's own server.
"""

import os
import subprocess
import sys

import pytest

from kit.memory_store import MemoryStore
from kit.ssh_server import ssh_server
from kit.storage_daemon import Daemon
from strongroom.base import clock
from strongroom.base.errors import (
    DamageError,
    ObjectMissingError,
    RepositoryNotFoundError,
    StoreError,
)
from strongroom.engine.content.digests import object_name
from strongroom.engine.stores.capabilities import (
    ConnectsAhead,
    KeepsJudgements,
    KnowsOwners,
    NamesPacks,
    ReadsAhead,
    TakesSeries,
    connect_ahead,
    copy_ahead,
    together,
)
from strongroom.engine.stores.faults import Fault, FaultStore
from strongroom.engine.stores.limited import LimitedStore
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.place import place_of
from strongroom.engine.stores.s3_store import S3Store
from strongroom.engine.stores.sftp_store import SftpStore
from strongroom.engine.stores.store import ObjectInfo
from strongroom.net.identities.peer import Peer
from strongroom.net.storage.place import open_ssh

DATA = b"0123456789"
NAME = object_name(DATA)
OTHER = "cd" * 32


@pytest.fixture
def repository(tmp_path):
    return tmp_path / "repository"


class NoLimit:
    def take(self, size_bytes):
        pass


MAINTENANCE = Peer("maintenance", "local", "1")
STORES = {
    "local": lambda daemon: LocalStore(daemon.folder / "repository"),
    "local behind faults": lambda daemon: FaultStore(STORES["local"](daemon)),
    "local, limited": lambda daemon: LimitedStore(STORES["local"](daemon), NoLimit()),
    "socket": lambda daemon: daemon.local(),
    "socket, cached": lambda daemon: daemon.local(os.fsencode(daemon.folder / "cache")),
    "network": lambda daemon: daemon.peer(MAINTENANCE, is_far=True),
    "network, cached, behind faults, limited": lambda daemon: LimitedStore(
        FaultStore(
            daemon.peer(MAINTENANCE, cache_folder=os.fsencode(daemon.folder / "cache"), is_far=True)
        ),
        NoLimit(),
    ),
    "daemon on memory": lambda daemon: daemon.local(),
    "s3": lambda daemon: S3Store(daemon.place),
    "ssh": lambda daemon: open_ssh(place_of(f"ssh://there{daemon.folder / 'repository'}")),
    "sftp": lambda daemon: SftpStore(place_of(f"sftp:there:{daemon.folder / 'repository'}")),
}

# A login and the start of a program there; a client that reads what S3 is, and a far disk.
SLOW_SHAPES = ("ssh", "sftp", "s3")


class Nobody:
    """Represents the daemon where a store needs none."""

    def __init__(self, folder):
        self.folder = folder

    def stop(self):
        pass


@pytest.fixture(params=list(STORES))
def shape(request):
    # Before anything is started: `kind` comes after the store.
    kind = request.node.callspec.params.get("kind", "packs")
    if request.param in SLOW_SHAPES and kind not in ("packs", "leases"):
        pytest.skip("each test logs in; these two kinds are stored in different ways")
    return request.param


@pytest.fixture(scope="module")
def ssh(tmp_path_factory):
    yield from ssh_server(tmp_path_factory.mktemp("ssh"), {"key": ""})


@pytest.fixture
def daemon(shape, tmp_path, request, monkeypatch):
    if shape.startswith("local"):
        found = Nobody(tmp_path)
    elif shape == "s3":
        found = Nobody(tmp_path)
        found.place = request.getfixturevalue("object_store").place(str(tmp_path).strip("/"))
    elif shape in ("ssh", "sftp"):
        programs = request.getfixturevalue("ssh").logged_in("key")
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        found = Nobody(tmp_path)
    elif shape == "daemon on memory":
        memory = MemoryStore()
        found = Daemon(tmp_path, open_store=lambda _: memory.reopen())
    else:
        found = Daemon(tmp_path)
    yield found
    found.stop()


@pytest.fixture
def store(shape, daemon):
    made = STORES[shape](daemon)
    made.prepare()
    yield made
    made.close()


@pytest.fixture(params=["packs", "index", "snapshots", "keys", "leases", "tombstones", "tickets"])
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
    assert store.info(kind, NAME).size_bytes == 10


def test_an_object_may_be_empty(store, kind):
    name = object_name(b"")
    store.put(kind, name, b"")
    assert store.get(kind, name) == b""
    assert store.info(kind, name).size_bytes == 0


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


def test_packs_that_are_named_are_those_that_are_listed(shape, store):
    naming = store.capability(NamesPacks)
    assert (naming is not None) == shape.startswith("local")
    if naming is None:
        return
    assert naming.pack_ids() == b""
    names = [object_name(b"%d" % number) for number in range(20)]
    for name in names:
        store.put("packs", name, DATA)
    # What is no pack, or is not where one is looked for.
    folder = f"{store.location}/packs"
    for place in (f"{names[0][:2]}/{names[0][:2]}{'F' * 62}", f"{names[0][:2]}/{names[0][:-1]}"):
        with open(f"{folder}/{place}", "wb"):
            pass
    os.mkdir(f"{folder}/{names[1][:2]}/{names[1][:2]}{'0' * 62}")
    os.symlink("/etc/hostname", f"{folder}/{names[1][:2]}/{names[1][:2]}{'1' * 62}")
    with open(f"{folder}/{names[2][:2]}/{names[2][:2]}{' ' * 62}", "wb"):
        pass
    with open(f"{folder}/{names[3][:2]}/{'00' if names[3][:2] != '00' else '11'}{'0' * 62}", "wb"):
        pass
    found = naming.pack_ids()
    assert sorted(found[at : at + 32].hex() for at in range(0, len(found), 32)) == sorted(names)


def test_the_time_of_an_object_goes_on_when_it_is_replaced(store):
    store.put_new("leases", NAME, b"first")
    (before,) = store.list("leases")
    store.replace("leases", NAME, b"second")
    (after,) = store.list("leases")
    assert after.modified_ns >= before.modified_ns > 0


def test_info_says_what_a_listing_says(store, kind, shape):
    before_ns = clock.now_ns()
    store.put(kind, NAME, DATA)
    store.put("packs" if kind != "packs" else "index", NAME, DATA)
    info = store.info(kind, NAME)
    assert info == ObjectInfo(NAME, 10, info.modified_ns)
    assert [info] == list(store.list(kind))
    # A file system's clock ticks less often than ours, and S3 and SFTP count whole seconds.
    slack_ns = 2_000_000_000 if shape in ("s3", "sftp") else 20_000_000
    assert -slack_ns < info.modified_ns - before_ns < 60_000_000_000


def test_info_of_a_replaced_object_is_that_of_the_new_one(store):
    store.put_new("leases", NAME, b"first")
    before = store.info("leases", NAME)
    store.replace("leases", NAME, b"the second")
    after = store.info("leases", NAME)
    assert after.size_bytes == 10
    assert after.modified_ns >= before.modified_ns


def test_info_of_the_configuration(store):
    with pytest.raises(ObjectMissingError):
        store.info("config", "config")
    store.put_new("config", "config", b"one")
    assert store.info("config", "config").size_bytes == 3


def test_deleting_removes_and_repeats(store, kind):
    store.put(kind, NAME, DATA)
    store.delete(kind, NAME)
    store.delete(kind, NAME)
    assert list(store.list(kind)) == []
    with pytest.raises(ObjectMissingError):
        store.info(kind, NAME)


def test_a_missing_object_says_so(store, kind):
    with pytest.raises(ObjectMissingError):
        store.get(kind, NAME)
    with pytest.raises(ObjectMissingError):
        store.info(kind, NAME)


def test_too_few_bytes_are_damage_not_a_short_answer(store, kind):
    store.put(kind, NAME, DATA)
    for offset, length in ((0, 11), (9, 2), (11, 1), (0, 1 << 62)):
        with pytest.raises(DamageError):
            store.get(kind, NAME, offset, length)


def test_a_name_cannot_lead_elsewhere(store, kind):
    store.put_new("config", "config", b"secret")
    for name in ("../config", "a/b", "", "..", "a\0b", "é", "a b"):
        with pytest.raises(DamageError):
            store.get(kind, name)
        with pytest.raises(DamageError):
            store.info(kind, name)
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


def test_a_living_writer_is_not_abandoned_and_a_dead_one_is(shape, store, repository):
    if shape in ("daemon on memory", "s3", "sftp"):
        pytest.skip("a dead writer leaves nothing, or what is left is a day old before it goes")
    living = store.writer("packs")
    living.write(DATA)
    program = (
        "import os, sys\n"
        "from strongroom.engine.stores.local import LocalStore\n"
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


CAPABILITIES = [ConnectsAhead, KeepsJudgements, KnowsOwners, TakesSeries]


def test_a_store_has_the_capabilities_of_what_it_leads_to(shape, store):
    has = [wanted for wanted in CAPABILITIES if store.capability(wanted) is not None]
    assert has == ([] if shape.startswith(("local", "s3", "sftp")) else CAPABILITIES)
    for wanted in has:
        assert isinstance(store.capability(wanted), wanted)


def test_a_capability_that_nobody_decided_about_is_not_passed_on(store):
    class Unheard:
        pass

    assert store.capability(Unheard) is None


def test_reading_ahead_leaves_to_get_what_is_wrong(store):
    store.put("packs", NAME, DATA)
    reader = store.capability(ReadsAhead)
    if reader is not None:
        for name, offset in ((NAME, 0), (NAME, 1 << 40), ("cd" * 32, 0)):
            reader.read_ahead("packs", name, offset, 1 << 20)
    assert store.get("packs", NAME) == DATA


def test_changes_of_a_series_are_all_done(store):
    with together(store) as series:
        store.put("index", NAME, DATA)
        store.put_new("leases", NAME, b"lease")
        if series is not None:
            series.require("leases", NAME)
        store.delete("leases", NAME)
    assert store.get("index", NAME) == DATA
    assert list(store.list("leases")) == []


def test_a_copy_made_ahead_is_the_same_store(shape, daemon):
    store = STORES[shape](daemon)
    connect_ahead(store, 1)
    store.prepare()
    store.put("packs", NAME, DATA)
    copy = copy_ahead(store)
    assert (copy is not None) == shape.startswith(("network", "ssh"))
    if copy is not None:
        assert type(copy) is type(store)
        assert copy.get("packs", NAME) == DATA
        copy.close()
    store.close()


def test_a_store_that_knows_owners_says_who_stored_what(store):
    store.put("packs", NAME, DATA)
    knowing = store.capability(KnowsOwners)
    if knowing is not None:
        assert knowing.owners("packs") == {NAME: {""}}


def test_what_was_stored_by_the_appliance_is_never_judged_false(store):
    """What an agent stored is hidden then: tests of the storage daemon."""
    store.put("packs", NAME, DATA)
    judge = store.capability(KeepsJudgements)
    if judge is not None:
        judge.vouch("packs", [NAME], sound=False)
        assert [info.name for info in store.list("packs")] == [NAME]
        assert store.get("packs", NAME) == DATA


def test_the_bytes_of_a_copy_made_ahead_are_limited_and_its_faults_shared(tmp_path):
    taken = []

    class Counting:
        def take(self, size_bytes):
            taken.append(size_bytes)

    daemon = Daemon(tmp_path)
    maker = daemon.peer(MAINTENANCE)
    maker.prepare()
    maker.close()
    faults = FaultStore(daemon.peer(MAINTENANCE, is_far=True), [Fault("put", "packs", 2, "error")])
    store = LimitedStore(faults, Counting())
    try:
        connect_ahead(store, 1)
        store.put("packs", NAME, DATA)
        copy = copy_ahead(store)
        with pytest.raises(StoreError):
            copy.put("packs", NAME, DATA)
        assert taken == [10, 10]
        assert faults.unexercised() == []
        copy.close()
    finally:
        store.close()
        daemon.stop()
