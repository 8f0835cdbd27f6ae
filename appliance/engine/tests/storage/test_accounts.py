"""Quotas and bandwidths hold, and give back what is given back."""

import threading
import time

import pytest

from kit.tiny_backup import back_up, new_repository
from strongroom.base.errors import QuotaError
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.repository import Repository
from strongroom.storage.accounts import Bandwidths
from strongroom.storage.settings import StorageLimits

FILES = {b"one": bytes(range(256)) * 40}


def used(daemon, owner):
    quotas = daemon.server.serving.repository("").quotas
    return quotas.used().get(daemon.client_id(owner), 0)


def test_a_quota_ends_an_upload_and_gives_back_what_was_not_stored(make_daemon):
    daemon = make_daemon(limits=StorageLimits(quota_bytes=100_000, quotas={"web2": 3_000_000}))
    new_repository(daemon.local())
    for name, fits in (("web1", False), ("web2", True)):
        data = daemon.object_of(name, bytes(2_000_000))
        writer = daemon.agent(name).writer("packs")
        writer.write(data)
        if fits:
            writer.commit(object_name(data))
        else:
            with pytest.raises(QuotaError, match=r"web1 .*100000 bytes"):
                writer.commit(object_name(data))
    assert (used(daemon, "web1"), used(daemon, "web2")) == (0, len(data))
    daemon.local().delete("packs", object_name(data))
    assert used(daemon, "web2") == 0


def test_what_is_stored_twice_counts_once_and_survives_a_restart(make_daemon):
    daemon = make_daemon()
    appliance = new_repository(daemon.local())
    agent = daemon.agent("web1")
    data = daemon.object_of("web1", b"data")
    for _ in range(2):
        agent.put("packs", object_name(data), data)
    assert used(daemon, "web1") == len(data)
    agent.put_new("leases", "1" * 32, data)
    for _ in range(3):
        agent.replace("leases", "1" * 32, data)
    assert used(daemon, "web1") == 2 * len(data)
    agent.delete("leases", "1" * 32)
    back_up(Repository.open(daemon.agent("web1"), appliance.key.put_key("web1")), FILES)
    before = used(daemon, "web1")
    assert before > len(data) + 200
    daemon.restart()
    assert used(daemon, "web1") == before


def test_the_connections_of_a_job_share_its_bandwidth():
    stopped = threading.Event()
    buckets = Bandwidths(1_000_000, stopped)
    first, second = buckets.enter("web1", "job"), buckets.enter("web1", "job")
    assert first is second
    assert buckets.enter("web1", "other") is not first
    assert buckets.enter("web2", "job") is not first
    started = time.monotonic()
    for _ in range(5):
        first.take(100_000)
        second.take(50_000)
    assert time.monotonic() - started >= 0.75 - 0.25 - 0.01
    waiting = threading.Thread(target=lambda: first.take(1_000_000_000))
    waiting.start()
    stopped.set()
    waiting.join(30)
    assert not waiting.is_alive()


def test_an_agent_gets_no_more_than_the_bandwidth_of_its_job(make_daemon):
    daemon = make_daemon(limits=StorageLimits(bytes_per_second=400_000))
    new_repository(daemon.local())
    agent, sibling = daemon.agent("web1", job="run"), daemon.agent("web1", job="run")
    data = daemon.object_of("web1", bytes(300_000))
    sibling.put("packs", object_name(data), data)
    started = time.monotonic()
    agent.get("packs", object_name(data))
    assert time.monotonic() - started >= 0.4
