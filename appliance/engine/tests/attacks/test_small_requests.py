"""A compromised agent asks for little, very often, or takes nothing of the answer."""

import logging
import tracemalloc

import pytest

from kit.daemon_process import wait_for
from kit.tiny_backup import new_repository
from strongroom.base.errors import QuotaError
from strongroom.engine.content.digests import object_name
from strongroom.net.identities.peer import Peer
from strongroom.net.storage.frames import START_SIZE, decode_start, encode_start
from strongroom.net.storage.protocol import (
    LARGEST_PART_BYTES,
    PROTOCOL_VERSION,
    FrameType,
    Probe,
    StorageHello,
    encode,
)
from strongroom.service.log_lines import MOST_A_MINUTE
from strongroom.storage.settings import StorageLimits

LEASE = "1" * 32
CONNECTIONS = 24
QUOTA_BYTES = 32 << 20


def ask(channel, kind, header):
    channel.send(encode_start(kind, 0, 1, encode(header), 0))


def begin_of_answer(channel):
    start = decode_start(channel.receive_exactly(START_SIZE))
    channel.receive_exactly(start.header_size)
    return start


def test_what_one_client_asks_for_and_does_not_take_is_no_memory_of_the_daemon(daemon, appliance):
    channels = []
    tracemalloc.start()
    try:
        for _ in range(CONNECTIONS):
            channel = daemon.connect(Peer("web1", "agent", "1"))
            channels.append(channel)
            ask(channel, FrameType.HELLO, StorageHello(PROTOCOL_VERSION))
            assert begin_of_answer(channel).type == FrameType.OK
            ask(channel, FrameType.PROBE, Probe(LARGEST_PART_BYTES - 1))
        for channel in channels:
            assert begin_of_answer(channel).type == FrameType.PART
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        for channel in channels:
            channel.close()
    assert taken < 4 * LARGEST_PART_BYTES


def test_a_quota_of_bytes_is_one_of_objects_too(make_daemon):
    daemon = make_daemon(limits=StorageLimits(quota_bytes=QUOTA_BYTES))
    new_repository(daemon.local()).close()
    agent = daemon.agent("web1")
    fits = QUOTA_BYTES // (16 << 10)

    def put(number):
        data = daemon.object_of("web1", b"%d" % number)
        agent.put("packs", object_name(data), data)
        return object_name(data)

    names = [put(number) for number in range(fits - 1)]
    agent.put_new("leases", LEASE, daemon.object_of("web1", b"a lease"))
    with pytest.raises(QuotaError, match=f"{fits} objects"):
        put(fits)
    # Anyone who stores something continues as far as its lease goes, and others are not concerned.
    agent.replace("leases", LEASE, daemon.object_of("web1", b"the same lease"))
    other = daemon.object_of("web2", b"of another")
    daemon.agent("web2").put("packs", object_name(other), other)
    daemon.restart()
    agent = daemon.agent("web1")
    with pytest.raises(QuotaError):
        put(fits)
    daemon.local().delete("packs", names[0])
    put(fits)
    with pytest.raises(QuotaError):
        put(fits + 1)


def test_snapshots_that_are_stored_and_taken_back_for_ever_fill_no_log(daemon, appliance, caplog):
    agent = daemon.agent("web1")
    agent.put_new("leases", LEASE, daemon.object_of("web1", b"a lease"))
    caplog.set_level(logging.INFO)
    for number in range(10 * MOST_A_MINUTE):
        data = daemon.object_of("web1", b"%d" % number)
        agent.put("snapshots", object_name(data), data)
        agent.delete("snapshots", object_name(data))
    said = [record.getMessage() for record in caplog.records]
    assert sum("deleted snapshots" in one for one in said) == MOST_A_MINUTE
    # What maintenance removes is reported with a line for each connection, and one for each
    # snapshot.
    before = len(said)
    local = daemon.local()
    for number in range(2 * MOST_A_MINUTE):
        data = daemon.object_of("web1", b"%d" % number)
        for kind in ("packs", "snapshots"):
            local.put(kind, object_name(data), data)
            local.delete(kind, object_name(data))
    local.close()
    wait_for(lambda: any("deleted packs" in one for one in caplog.messages), lambda: caplog.text)
    said = caplog.messages[before:]
    assert [one.rpartition(": deleted ")[2] for one in said if "deleted packs" in one] == [
        f"packs: {2 * MOST_A_MINUTE}"
    ]
    assert sum("deleted snapshots" in one for one in said) == 2 * MOST_A_MINUTE
