"""Payloads that go from the connection straight to where the disk takes them from."""

import errno
import os
import socket
import threading
import time
from contextlib import closing

import pytest
from blake3 import blake3

from kit.size_limit import largest_file
from kit.tiny_backup import new_repository
from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError, DamageError, StoreError
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.local_root import TEMPORARY_PREFIX
from strongroom.net.channels.local_channel import local_channel
from strongroom.net.identities.peer import Peer
from strongroom.storage.accounts import Quotas
from strongroom.storage.incoming_payload import PIECE_BYTES, Incoming
from strongroom.storage.response_writer import ResponseWriter
from strongroom.storage.rights import rights_of
from strongroom.storage.settings import StorageLimits
from strongroom.storage.uploads import Upload

APPLIANCE = rights_of(Peer("root", "local", ""), frozenset(), "", None)


@pytest.fixture
def ends():
    near, far = socket.socketpair(socket.AF_UNIX)
    channel = local_channel(near)
    yield channel, far
    far.close()
    channel.close()


def incoming(channel, size: int, **limits: object) -> tuple[Incoming, ResponseWriter]:
    answers = ResponseWriter(channel, StorageLimits(**limits))
    answers.allow_bytes(size)
    return Incoming(channel, answers, size), answers


def no_claim() -> None:
    """Of a store without a list of owners."""


def sent_by(far: socket.socket, data: bytes) -> threading.Thread:
    sender = threading.Thread(target=far.sendall, args=(data,))
    sender.start()
    return sender


@pytest.fixture
def store(folder):
    opened = LocalStore(str(folder / "repository").encode())
    opened.prepare()
    yield opened
    opened.close()


@pytest.mark.parametrize("size", [1, PIECE_BYTES, (2 << 20) + 1, (5 << 20) + 4095])
def test_what_came_is_stored_and_digested(ends, store, size):
    channel, far = ends
    data = blake3(b"%d" % size).digest(size)
    upload = Upload(store, "packs", APPLIANCE, Quotas(StorageLimits(), {}), 1 << 30)
    cut = size // 3
    sender = sent_by(far, data)
    for length in (cut, size - cut):
        payload, _ = incoming(channel, length)
        upload.receive(payload)
        assert payload.left_bytes == 0
    sender.join()
    name = blake3(data).hexdigest()
    assert upload.commit(store, name, "publish", no_claim, is_digest=True)
    assert store.get("packs", name) == data


def test_what_came_as_a_whole_and_in_place_is_one_object(ends, store):
    channel, far = ends
    data = blake3(b"mixed").digest(3 << 20)
    upload = Upload(store, "packs", APPLIANCE, Quotas(StorageLimits(), {}), 1 << 30)
    upload.write(memoryview(data)[:1000])
    sender = sent_by(far, data[1000:-1000])
    payload, _ = incoming(channel, len(data) - 2000)
    upload.receive(payload)
    sender.join()
    upload.write(memoryview(data)[-1000:])
    name = blake3(data).hexdigest()
    assert upload.commit(store, name, "publish", no_claim, is_digest=True)
    assert store.get("packs", name) == data


def test_a_false_name_stores_nothing(ends, store):
    channel, far = ends
    upload = Upload(store, "packs", APPLIANCE, Quotas(StorageLimits(), {}), 1 << 30)
    sender = sent_by(far, bytes(3 << 20))
    payload, _ = incoming(channel, 3 << 20)
    upload.receive(payload)
    sender.join()
    with pytest.raises(DamageError, match="its name"):
        upload.commit(store, "ab" * 32, "publish", no_claim, is_digest=True)
    assert list(store.list("packs")) == []


class SlowPeer:
    """What comes from it takes a second a byte, of a clock that nothing else moves."""

    def __init__(self, monkeypatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(clock, "elapsed_seconds", lambda: self.now)

    def receive_into(self, view: memoryview) -> None:
        self.now += len(view)


def test_the_time_of_a_peer_runs_only_while_we_wait_for_it(monkeypatch):
    peer = SlowPeer(monkeypatch)
    payload, answers = incoming(peer, 20, stall_seconds=60.0, slowest_bytes_per_second=20)
    assert answers.deadline is None, "nothing is asked of the peer before we look for its bytes"
    peer.now += 500
    payload.fill(memoryview(bytearray(12)))
    assert answers.deadline is None, "it is our turn"
    peer.now += 500
    payload.skip()
    assert payload.left_bytes == 0
    answers.resume()
    assert answers.deadline == peer.now + 61 - 20


def test_a_disk_that_fails_in_the_middle_leaves_the_connection_whole(ends, store):
    channel, far = ends
    upload = Upload(store, "packs", APPLIANCE, Quotas(StorageLimits(), {}), 1 << 30)
    size = 9 << 20
    sender = sent_by(far, bytes(size) + b"next")
    payload, _ = incoming(channel, size)
    with largest_file(PIECE_BYTES):
        upload.receive(payload)
    assert payload.left_bytes, "the failure comes with a later piece"
    payload.skip()
    sender.join()
    assert channel.receive_exactly(4) == b"next"
    with pytest.raises(StoreError):
        upload.commit(store, blake3(bytes(size)).hexdigest(), "publish", no_claim, is_digest=True)
    assert list(store.list("packs")) == []


def test_an_end_in_the_middle_is_the_end_of_the_connection(ends, store):
    channel, far = ends
    upload = Upload(store, "packs", APPLIANCE, Quotas(StorageLimits(), {}), 1 << 30)
    far.sendall(bytes(1000))
    far.shutdown(socket.SHUT_WR)
    payload, _ = incoming(channel, 5000)
    with pytest.raises(ConnectionLostError):
        upload.receive(payload)
    upload.abort()
    assert list(store.list("packs")) == []


def users_of(daemon, peer_name: str, job: str) -> int:
    """How many connections of a job there are."""
    bandwidths = daemon.server.serving.bandwidths
    users = bandwidths.enter(peer_name, job).users - 1
    bandwidths.leave(peer_name, job)
    return users


def test_a_disk_that_lets_nothing_be_removed_keeps_no_end_from_giving_back(daemon, monkeypatch):
    with closing(new_repository(daemon.local())):
        agent = daemon.agent("web1", job="nightly")
        uploads = [agent.writer("packs") for _ in range(2)]
        for upload in uploads:
            upload.write(bytes(600_000))
        list(agent.list("packs"))
        quotas = daemon.server.serving.repository("").quotas
        web1 = daemon.client_id("web1")
        assert quotas.used()[web1] == 1_200_000
        unlink = os.unlink

        def read_only(path, *words, **options):
            if TEMPORARY_PREFIX in os.fsencode(path):
                raise OSError(errno.EROFS, "Read-only file system")
            return unlink(path, *words, **options)

        monkeypatch.setattr(os, "unlink", read_only)
        daemon.channels[-1].shutdown()
        end = clock.elapsed_seconds() + 30
        while quotas.used().get(web1) or users_of(daemon, "web1", "nightly"):
            assert clock.elapsed_seconds() < end, "what the connection held is held forever"
            time.sleep(0.01)
        monkeypatch.undo()
