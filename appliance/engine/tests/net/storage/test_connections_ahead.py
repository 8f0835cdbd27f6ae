"""Connections made ahead fail as others do: its own job hears, and continues without copies."""

import ctypes
import os
import threading

import pytest

from kit.storage_daemon import Daemon
from strongroom.base.errors import ConnectionLostError, ObjectMissingError
from strongroom.engine.repository.repository import Repository
from strongroom.net.identities.peer import Peer
from strongroom.net.storage.protocol import PROTOCOL_VERSION, StorageHello
from strongroom.net.storage.store import RemoteStore

ABSENT = "00" * 16


@pytest.fixture
def make_store(daemon: Daemon, appliance: Repository):
    made = []

    def make(*failing: int, at_first=lambda: None) -> tuple[RemoteStore, list[int]]:
        """A store of which these connections, counted from 0, fail; and the numbers of all.

        Each of the threads that connect calls `at_first`.
        """
        dialled: list[int] = []

        def connect():
            at_first()
            dialled.append(len(dialled))
            if dialled[-1] in failing:
                raise ConnectionLostError("no one is there")
            return daemon.connect(Peer("web1", "agent", "ab"))

        store = RemoteStore(
            "strongroom://far", connect, StorageHello(PROTOCOL_VERSION), is_far=True
        )
        made.append(store)
        return store, dialled

    yield make
    for store in made:
        store.close()


def test_a_connection_that_fails_is_not_made_again_in_secret(make_store):
    store, dialled = make_store(0)
    store.connect_ahead(1)
    with pytest.raises(ConnectionLostError, match="no one"):
        store.get("config", "config")
    assert dialled == [0]


def test_a_copy_has_a_connection_of_its_own(make_store):
    store, dialled = make_store()
    store.connect_ahead(1)
    with pytest.raises(ObjectMissingError):
        store.get("packs", ABSENT)
    copy = store.copy_ahead()
    assert copy is not None
    assert copy.client() is not store.client()
    assert list(copy.list("packs")) == []
    assert store.copy_ahead() is None
    assert dialled == [0, 1]
    copy.close()


def test_a_copy_that_could_not_be_made_is_none(make_store):
    store, _ = make_store(1)
    store.connect_ahead(1)
    assert list(store.list("packs")) == []
    assert store.copy_ahead() is None
    again = store.reopen()
    assert list(again.list("packs")) == []
    again.close()


def test_no_thread_is_still_ending_when_connections_are_taken(make_store):
    """A fork would copy the locks that it holds, those of OpenSSL for instance, forever locked."""
    libc = ctypes.CDLL(None)
    key = ctypes.c_uint()
    # What a thread does at its very end, which takes long here: sleeping so many microseconds.
    assert libc.pthread_key_create(ctypes.byref(key), libc.usleep) == 0
    libc.pthread_setspecific.argtypes = (ctypes.c_uint, ctypes.c_void_p)
    threads: list[int] = []

    def be_long_in_ending():
        libc.pthread_setspecific(key, 200_000)
        threads.append(threading.get_native_id())

    store, _ = make_store(at_first=be_long_in_ending)
    store.connect_ahead(1)
    with pytest.raises(ObjectMissingError):
        store.get("packs", ABSENT)
    copy = store.copy_ahead()
    assert len(set(threads)) == 2
    assert not set(map(str, threads)) & set(os.listdir("/proc/self/task"))
    assert copy is not None
    copy.close()
