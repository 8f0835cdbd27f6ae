"""What a malicious agent can try, and what a malicious daemon can answer: nothing comes of it."""

import socket
import struct
import threading
import time
from contextlib import suppress

import pytest

from kit.tiny_backup import back_up, read_back
from strongroom.base.errors import (
    ConnectionLostError,
    DamageError,
    ObjectMissingError,
    ProtocolError,
    QuotaError,
    RightError,
    StoreError,
)
from strongroom.engine.content.digests import object_name
from strongroom.net.channels.local_channel import LocalChannel
from strongroom.net.identities.peer import Peer
from strongroom.net.storage.frames import START_SIZE, encode_start
from strongroom.net.storage.protocol import (
    PROTOCOL_VERSION,
    FrameType,
    ObjectPart,
    StorageHello,
    StorageWelcome,
    UploadData,
    encode,
)
from strongroom.net.storage.store import RemoteStore
from strongroom.storage.settings import StorageLimits

WEB = Peer("web1", "agent", "1")
FILES = {b"one": b"first" * 1000}
PATIENCE_SECONDS = 30.0


def greeted(daemon):
    """A channel that has said hello."""
    channel = daemon.connect(WEB)
    channel.set_timeout(PATIENCE_SECONDS)
    hello = encode(StorageHello(PROTOCOL_VERSION))
    channel.send(encode_start(FrameType.HELLO, 0, 1, hello, 0))
    answer_type(channel)
    return channel


def answer_type(channel):
    start = struct.unpack("<IBBIH", channel.receive_exactly(START_SIZE))
    channel.receive_exactly(start[0] - 8)
    return start[1]


def assert_thrown_out(channel):
    with pytest.raises(ConnectionLostError):
        channel.receive_into(memoryview(bytearray(1 << 24)))
    channel.close()


def assert_serves(daemon, appliance, open_as):
    """Anyone who behaves is served as ever."""
    snapshot = back_up(open_as(daemon.agent("web2")), FILES)
    assert read_back(appliance, snapshot.id) == FILES


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff" * 12,
        struct.pack("<IBBIH", 0, 1, 0, 1, 0),
        struct.pack("<IBBIH", 10 << 20, FrameType.PUT, 0, 1, 0),
        struct.pack("<IBBIH", 8, FrameType.PUT, 0x80, 1, 0),
        encode_start(99, 0, 2, b"", 0),
        encode_start(FrameType.HELLO, 0, 2, encode(StorageHello(PROTOCOL_VERSION)), 0),
        encode_start(FrameType.OK, 0, 2, b"", 0),
        encode_start(FrameType.GET, 0, 2, b"\xc1", 0),
        encode_start(FrameType.GET, 0, 2, encode(["packs", "ab" * 32, "0", None]), 0),
        encode_start(FrameType.LIST, 0, 2, encode("../etc"), 0),
        encode_start(FrameType.COMMIT, 0, 2, encode([7, "ab" * 32, "publish"]), 0),
        encode_start(FrameType.ABORT, 0, 2, encode(["x"]), 0),
    ],
)
def test_what_is_no_request_ends_the_connection_and_harms_nobody(daemon, appliance, open_as, sent):
    channel = greeted(daemon)
    channel.send(sent)
    assert_thrown_out(channel)
    assert_serves(daemon, appliance, open_as)


@pytest.mark.parametrize(
    "sent",
    [
        encode_start(FrameType.LIST, 0, 1, encode("packs"), 0),
        encode_start(FrameType.HELLO, 0, 1, encode(StorageHello(PROTOCOL_VERSION + 1)), 0),
        encode_start(FrameType.HELLO, 0, 1, encode(StorageHello(PROTOCOL_VERSION, "other")), 0),
        encode_start(FrameType.HELLO, 0, 1, encode(["one"]), 0),
    ],
)
def test_nobody_is_served_without_a_good_greeting(daemon, appliance, sent):
    channel = daemon.connect(WEB)
    channel.send(sent)
    assert answer_type(channel) == FrameType.FAILED
    assert_thrown_out(channel)


def test_false_names_are_found_out(daemon, appliance):
    agent, data = daemon.agent("web1"), daemon.object_of("web1", b"data")
    for kind in ("packs", "index", "snapshots"):
        agent.put_new("leases", "1" * 32, data)
        for name in ("ab" * 32, object_name(b"other"), "../../config", "", "AB" * 32):
            with pytest.raises(DamageError):
                agent.put(kind, name, data)
            writer = agent.writer(kind)
            writer.write(data)
            with pytest.raises(DamageError):
                writer.commit(name)
        assert list(daemon.local().list(kind)) == []
    assert [path.name for path in daemon.repository.rglob("tmp.*")] == []


def test_requests_for_what_is_not_there_end(daemon, appliance, open_as):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    agent = daemon.agent("web1")
    with pytest.raises(ObjectMissingError):
        agent.get("packs", "ab" * 32)
    for offset, length in ((-1, 5), (0, -5), (1 << 62, None), (0, 1 << 40)):
        part = ObjectPart("snapshots", snapshot.id, offset, length)
        with pytest.raises(DamageError):
            agent.client().ask(FrameType.GET, part)
    assert_serves(daemon, appliance, open_as)


def test_whoever_sends_too_slowly_is_thrown_out(make_daemon):
    daemon = make_daemon(limits=StorageLimits(stall_seconds=0.5, slowest_bytes_per_second=1 << 20))
    channel = greeted(daemon)
    start = encode_start(FrameType.DATA, 0, 2, encode(UploadData(1, "packs")), 1 << 20)
    channel.send(start)

    def drip():
        try:
            while True:
                channel.send(b"x")
                time.sleep(0.05)
        except ConnectionLostError:
            return

    sender = threading.Thread(target=drip)
    sender.start()
    assert_thrown_out(channel)
    sender.join(PATIENCE_SECONDS)
    assert not sender.is_alive()


def test_whoever_does_not_read_its_answers_is_thrown_out(make_daemon):
    from kit.tiny_backup import new_repository

    daemon = make_daemon(limits=StorageLimits(stall_seconds=0.5, slowest_bytes_per_second=1 << 30))
    appliance = new_repository(daemon.local())
    data = bytes(32 << 20)
    appliance.store.put("packs", object_name(data), data)
    channel = greeted(daemon)
    get = encode(ObjectPart("packs", object_name(data), 0, None))
    for number in range(2, 6):
        channel.send(encode_start(FrameType.GET, 0, number, get, 0))
    until = time.monotonic() + PATIENCE_SECONDS
    while b'connections{role="agent"} 0' not in daemon.server.serving.metrics_text():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_whoever_says_nothing_is_thrown_out(make_daemon):
    daemon = make_daemon(limits=StorageLimits(greeting_seconds=0.3, idle_seconds=0.3))
    assert_thrown_out(daemon.connect(WEB))
    assert_thrown_out(greeted(daemon))


def test_uploads_and_leases_are_numbered(make_daemon):
    from kit.tiny_backup import new_repository

    daemon = make_daemon(limits=StorageLimits(uploads=3, leases_each=2, object_bytes=1000))
    new_repository(daemon.local())
    agent, mine = daemon.agent("web1"), daemon.object_of("web1", b"mine")
    for number in (1, 2):
        assert agent.put_new("leases", f"{number}" * 32, mine)
    with pytest.raises(QuotaError):
        agent.put_new("leases", "3" * 32, mine)
    # One that maintenance removed behind the daemon's back counts no more.
    (daemon.repository / "leases" / ("1" * 32)).unlink()
    assert agent.put_new("leases", "3" * 32, mine)
    writer = agent.writer("packs")
    writer.write(bytes(1001))
    with pytest.raises(QuotaError):
        writer.commit(object_name(bytes(1001)))
    channel = greeted(daemon)
    for number in range(4):
        channel.send(
            encode_start(FrameType.DATA, 0, 2, encode(UploadData(number, "packs")), 1), b"x"
        )
    assert_thrown_out(channel)


def test_whoever_is_refused_again_and_again_is_thrown_out(daemon, appliance):
    agent = daemon.agent("web1")
    for _ in range(100):
        with pytest.raises(RightError):
            agent.delete("packs", "ab" * 32)
    with pytest.raises((RightError, ConnectionLostError)):
        agent.delete("packs", "ab" * 32)
    with pytest.raises(ConnectionLostError):
        agent.delete("packs", "ab" * 32)
    # What is not there is no offence: a backup looks for many things.
    other = daemon.agent("web2")
    for _ in range(150):
        with pytest.raises(ObjectMissingError):
            other.get("packs", "ab" * 32)


def test_connections_are_counted(make_daemon):
    from kit.tiny_backup import new_repository

    daemon = make_daemon(limits=StorageLimits(connections_each=2, connections=4))
    new_repository(daemon.local()).close()
    kept = [daemon.agent("web1") for _ in range(2)]
    for store in kept:
        list(store.list("packs"))
    with pytest.raises(ConnectionLostError):
        list(daemon.agent("web1").list("packs"))
    list(daemon.agent("web2").list("packs"))
    kept[0].close()
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        try:
            list(daemon.agent("web1").list("packs"))
            return
        except ConnectionLostError:
            time.sleep(0.05)
    raise AssertionError("a connection that was given back still counts")


def test_an_unfinished_upload_leaves_nothing(daemon, appliance):
    agent = daemon.agent("web1")
    web1 = daemon.client_id("web1")
    writer = agent.writer("packs")
    writer.write(bytes(3 << 20))
    assert list(agent.list("packs")) == []
    assert daemon.server.serving.repository("").quotas.used()[web1] == 3 << 20
    agent.close()
    until = time.monotonic() + PATIENCE_SECONDS
    while daemon.server.serving.repository("").quotas.used().get(web1, 0) or list(
        daemon.repository.rglob("tmp.*")
    ):
        assert time.monotonic() < until
        time.sleep(0.05)


class FalseDaemon:
    """Lets everybody in and then answers each request with bytes of the test's choice."""

    def __init__(self, *answers):
        self._ours, theirs = socket.socketpair()
        self.channel = LocalChannel(theirs, Peer("vault", "storage", "1"))
        welcome = encode(StorageWelcome(PROTOCOL_VERSION, "local", 8))
        self._answers = [encode_start(FrameType.OK, 0, 0, welcome, 0), *answers]
        threading.Thread(target=self._answer, daemon=True).start()

    def store(self):
        return RemoteStore(
            "strongroom://false", lambda: self.channel, StorageHello(PROTOCOL_VERSION)
        )

    def _answer(self):
        channel = LocalChannel(self._ours, WEB)
        # The client leaves as soon as it has heard enough.
        with suppress(ConnectionLostError):
            for answer in self._answers:
                length = struct.unpack("<I", channel.receive_exactly(4))[0]
                channel.receive_exactly(length)
                channel.send(answer)
        channel.shutdown()


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff" * 12,
        encode_start(FrameType.OK, 0, 99, encode(None), 0),
        encode_start(FrameType.LIST, 0, 1, encode("packs"), 0),
        encode_start(FrameType.OK, 0, 1, b"\xc1", 0),
        encode_start(FrameType.OK, 0, 1, encode("nothing"), 0),
        encode_start(FrameType.FAILED, 0, 1, encode(5), 0),
    ],
)
def test_a_daemon_that_makes_no_sense_is_left(answer):
    store = FalseDaemon(answer).store()
    with pytest.raises(ProtocolError):
        store.info("packs", "ab" * 32)


def test_a_daemon_that_sends_more_than_was_asked_for_is_left():
    length = 8 << 20
    part = encode_start(FrameType.PART, 1, 1, b"", length) + bytes(length)
    store = FalseDaemon(part * 3).store()
    with pytest.raises(ProtocolError, match="more than"):
        store.get("packs", "ab" * 32, 0, length + 1)


def test_a_lost_connection_stays_lost_and_says_so():
    store = FalseDaemon().store()
    for _ in range(3):
        with pytest.raises(ConnectionLostError, match=r"strongroom://false: .* run the same"):
            store.info("packs", "ab" * 32)
    with pytest.raises(StoreError):
        store.writer("packs").commit("ab" * 32)
