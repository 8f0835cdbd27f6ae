"""The store that fails on purpose fails as declared, and says what it did not get to."""

import errno
import os
import signal

import pytest

from strongroom.base.errors import ObjectMissingError, StoreError, UsageError
from strongroom.engine.stores.faults import Fault, FaultStore, SimulatedCrash, parse_faults
from strongroom.engine.stores.local import LocalStore

NAME = "ab" * 32
OTHER = "cd" * 32


@pytest.fixture
def local(tmp_path):
    store = LocalStore(tmp_path / "r")
    store.prepare()
    return store


def test_only_the_nth_matching_operation_fails(local):
    store = FaultStore(local, [Fault("put", "index", 2, "error", errno.ENOSPC)])
    store.put("index", NAME, b"1")
    store.put("snapshots", NAME, b"1")
    assert len(store.unexercised()) == 1
    with pytest.raises(StoreError, match="No space left"):
        store.put("index", OTHER, b"2")
    assert store.unexercised() == []
    store.put("index", OTHER, b"2")
    assert store.get("index", OTHER) == b"2"


def test_a_lost_answer_is_an_error_although_the_object_is_there(local):
    store = FaultStore(local, [Fault("put_durable", None, 1, "lost")])
    with pytest.raises(StoreError):
        store.put_durable("snapshots", NAME, b"data")
    assert store.get("snapshots", NAME) == b"data"


def test_a_simulated_crash_passes_through_handlers_of_errors(local):
    store = FaultStore(local, [Fault("commit", "packs", 1, "raise")])
    writer = store.writer("packs")
    writer.write(b"data")
    with pytest.raises(SimulatedCrash):
        writer.commit(NAME)
    with pytest.raises(ObjectMissingError):
        store.get("packs", NAME)


def in_child(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize("limit", range(5))
def test_a_crash_limit_kills_after_that_many_changes(local, limit):
    def work():
        store = FaultStore(local.reopen(), crash_limit=limit)
        list(store.list("index"))
        store.put("index", NAME, b"1")
        writer = store.writer("packs")
        writer.write(b"2")
        writer.commit(NAME)
        store.sync()

    status = in_child(work)
    assert os.WIFSIGNALED(status) == (limit < 4)
    assert [bool(list(local.list(kind))) for kind in ("index", "packs")] == [limit > 0, limit > 2]


def test_a_torn_object_has_half_its_bytes_and_the_process_is_dead(local):
    def work():
        FaultStore(local.reopen(), [Fault("put", "index", 1, "torn")]).put(
            "index", NAME, b"12345678"
        )

    status = in_child(work)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert local.get("index", NAME) == b"1234"


def test_children_share_the_count_and_take_their_parent_with_them(local):
    def work():
        store = FaultStore(local.reopen(), crash_limit=1)
        store.put("index", NAME, b"1")
        in_child(lambda: store.reopen().put("index", OTHER, b"2"))
        os._exit(0)

    assert os.WTERMSIG(in_child(work)) == signal.SIGKILL
    assert [info.name for info in local.list("index")] == [NAME]


def test_faults_are_read_from_text(local):
    store = parse_faults(local, "put:index:1:ENOSPC,get:any:2:lost")
    with pytest.raises(StoreError, match="No space"):
        store.put("index", NAME, b"1")
    store.put("index", NAME, b"1")
    store.get("index", NAME)
    with pytest.raises(StoreError):
        store.get("index", NAME)
    assert store.unexercised() == []
    assert store.mutation_count == 2


@pytest.mark.parametrize(
    "text", ["", "put:index:1", "put:index:x:EIO", "put:nothing:1:EIO", "fly:index:1:EIO",
             "put:index:1:EWHAT", "crash-limit=x"],
)  # fmt: skip
def test_text_that_is_no_fault_is_refused(local, text):
    with pytest.raises(UsageError):
        parse_faults(local, text)
