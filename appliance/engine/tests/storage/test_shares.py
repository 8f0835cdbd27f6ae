"""What one client takes of the daemon has limits, and what is shared is shared fairly."""

import logging
import threading
import time

import pytest

from kit.tiny_backup import back_up, new_repository, read_back
from kit.virtual_time import VirtualTime
from strongroom.base.errors import ConnectionLostError, QuotaError, RightError
from strongroom.net.identities.peer import Peer
from strongroom.net.storage.protocol import PROTOCOL_VERSION, StorageHello
from strongroom.service.log_lines import MOST_A_MINUTE
from strongroom.storage.service import within_open_files
from strongroom.storage.settings import StorageLimits
from strongroom.storage.shares import LARGE_BUFFER_BYTES, SMALL_BUFFER_BYTES, Shares
from strongroom.storage.writer_pool import WriterPool

FILES = {b"one": b"first" * 1000}
WEB1, WEB2 = Peer("web1", "agent", "1"), Peer("web2", "agent", "2")
LOCAL = Peer("root", "local", "")
PATIENCE_SECONDS = 30.0


@pytest.fixture
def shares():
    return Shares(StorageLimits(), threading.Event())


def test_uploads_of_one_client_are_numbered_over_all_its_connections(make_daemon):
    daemon = make_daemon(limits=StorageLimits(uploads_each=3))
    new_repository(daemon.local()).close()
    stores = [daemon.agent("web1") for _ in range(4)]
    writers = []
    for store in stores:
        writers.append(store.writer("packs"))
        writers[-1].write(bytes(300 << 10))
        # Its answer tells that the data before it has arrived.
        list(store.list("config"))
    with pytest.raises(QuotaError, match="3 uploads"):
        writers[3].finish("ab" * 32, "publish")
    other = daemon.agent("web2").writer("packs")
    other.write(b"x")
    other.abort()
    writers[0].abort()
    list(stores[0].list("config"))
    again = stores[3].writer("packs")
    again.write(bytes(300 << 10))
    list(stores[3].list("config"))
    assert daemon.server.serving.shares.uploads == 3


def test_a_client_is_a_name_whatever_certificates_it_has(make_daemon):
    daemon = make_daemon(limits=StorageLimits(connections_each=2))
    new_repository(daemon.local()).close()
    stores = [daemon.peer(Peer("web1", "agent", serial)) for serial in ("1", "2", "3")]
    for store in stores[:2]:
        list(store.list("config"))
    with pytest.raises(ConnectionLostError):
        list(stores[2].list("config"))


def test_idle_connections_of_a_job_stay_while_the_job_works(make_daemon):
    daemon = make_daemon(limits=StorageLimits(idle_seconds=1.5))
    new_repository(daemon.local()).close()

    def of_job(name):
        return daemon.peer(WEB1, StorageHello(PROTOCOL_VERSION, "", name))

    busy, idle, forgotten = of_job("run1"), of_job("run1"), of_job("run2")
    for store in (busy, idle, forgotten):
        list(store.list("config"))
    until = time.monotonic() + 5
    while time.monotonic() < until:
        list(busy.list("config"))
        time.sleep(0.2)
    assert list(idle.list("config"))
    with pytest.raises(ConnectionLostError):
        list(forgotten.list("config"))
    # Those of maintenance stay for a day.
    assert list(daemon.local().list("config"))


def test_one_client_writes_only_so_much_log(make_daemon, caplog, monkeypatch):
    monkeypatch.setattr("strongroom.service.log_lines.MINUTE_SECONDS", 5.0)
    daemon = make_daemon()
    new_repository(daemon.local()).close()
    caplog.set_level(logging.INFO)

    def refused(name, count):
        store = daemon.agent(name)
        for number in range(count):
            with pytest.raises(RightError):
                store.delete("packs", f"{number:064x}")

    refused("web1", 90)
    refused("web2", 1)
    said = [record.getMessage() for record in caplog.records]
    assert sum("web1" in one and "refused" in one for one in said) == MOST_A_MINUTE
    assert sum("web2" in one and "refused" in one for one in said) == 1
    until = time.monotonic() + PATIENCE_SECONDS
    while f"agent 'web1': {90 - MOST_A_MINUTE} more lines like these" not in caplog.text:
        assert time.monotonic() < until, caplog.text
        time.sleep(0.1)


def test_buffers_of_one_client_and_of_all_are_bounded(shares):
    share, other = shares.enter(WEB1), shares.enter(WEB2)
    sizes = [shares.begin_upload(share) for _ in range(200)]
    assert sum(2 * size for size in sizes) < 100 << 20
    assert sizes[0] == LARGE_BUFFER_BYTES
    assert sizes[-1] == SMALL_BUFFER_BYTES
    assert shares.begin_upload(other) == LARGE_BUFFER_BYTES
    for size in sizes:
        shares.end_upload(share, size)
    assert shares.begin_upload(share) == LARGE_BUFFER_BYTES


def test_requests_of_one_client_hold_only_so_much_at_once(shares):
    share, other = shares.enter(WEB1), shares.enter(WEB2)
    inside, leave = [], threading.Event()

    def hold(whose):
        with shares.holding(whose, 30 << 20):
            inside.append(whose)
            leave.wait(PATIENCE_SECONDS)

    threads = [threading.Thread(target=hold, args=(one,)) for one in [share] * 6 + [other]]
    for thread in threads:
        thread.start()
    until = time.monotonic() + PATIENCE_SECONDS
    while len(inside) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.2)
    assert inside.count(share) == 2
    assert inside.count(other) == 1
    leave.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert inside.count(share) == 6


def test_a_client_waits_for_its_turn_only_while_others_work(shares):
    share, other, local = (shares.enter(peer) for peer in (WEB1, WEB2, LOCAL))

    def took(whose, seconds):
        begin = time.monotonic()
        for _ in range(4):
            shares.charge(whose, seconds)
        return time.monotonic() - begin

    assert took(share, 0.5) < 0.2
    shares.charge(other, 0.001)
    assert took(share, 0.1) > 0.5
    # Neither who works little nor who is local waits.
    assert took(other, 0.001) < 0.1
    assert took(local, 1.0) < 0.1


def test_a_request_of_minutes_is_paid_for_like_many_short_ones(monkeypatch):
    time_now = VirtualTime(monkeypatch, 0)

    class Waiting:
        """Time goes by, and another client works all the time."""

        waited = 0.0

        def wait(self, seconds):
            self.waited += seconds
            time_now.pass_by(seconds)
            shares.charge(other, 0.0)
            return False

    waiting = Waiting()
    shares = Shares(StorageLimits(), waiting)
    share, other = shares.enter(WEB1), shares.enter(WEB2)
    shares.charge(other, 0.0)
    shares.charge(share, 30.0)
    assert 90 < waiting.waited < 110


@pytest.mark.parametrize("open_files", [256, 1024, 4096, 65536, 1 << 20])
def test_descriptors_suffice_for_all_that_the_limits_allow(open_files):
    limits = within_open_files(StorageLimits(), open_files)
    used = limits.handshakes + 3 * limits.connections + limits.uploads_of_all
    assert used + 64 <= open_files
    assert 1 <= limits.connections_each <= limits.connections // 4
    assert 1 <= limits.uploads_each <= limits.uploads_of_all // 4
    if open_files >= 65536:
        assert limits == StorageLimits()


def test_writes_are_done_in_turns_between_clients():
    pool = WriterPool(threads=1)
    gate, done = threading.Event(), []
    first = pool.submit("many", lambda: gate.wait(PATIENCE_SECONDS) and None)
    futures = [pool.submit("many", lambda: done.append("many")) for _ in range(50)]
    futures.append(pool.submit("one", lambda: done.append("one")))
    futures.append(pool.submit("one", lambda: 1 // 0))
    gate.set()
    first.result(PATIENCE_SECONDS)
    with pytest.raises(ZeroDivisionError):
        futures[-1].result(PATIENCE_SECONDS)
    pool.stop()
    assert done.index("one") <= 2
    assert len(done) == 51


def test_a_backup_whose_daemon_has_few_places_ends(make_daemon):
    daemon = make_daemon(limits=within_open_files(StorageLimits(), 256))
    appliance = new_repository(daemon.local())
    from strongroom.engine.repository.repository import Repository

    agent = Repository.open(daemon.agent("web1"), appliance.key.put_key("web1"))
    snapshot = back_up(agent, FILES)
    assert read_back(appliance, snapshot.id) == FILES
    agent.close()
    appliance.close()
