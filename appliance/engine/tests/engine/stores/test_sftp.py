"""Servers for SFTP that lack what OpenSSH has, and connections that break."""

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit.faulty_link import FaultyLink
from kit.ssh_server import ssh_server
from strongroom.base.errors import (
    ConnectionLostError,
    ProtocolError,
    RepositoryNotFoundError,
    StoreError,
)
from strongroom.engine.content.digests import object_name
from strongroom.engine.stores import sftp_client, sftp_store, ssh_command
from strongroom.engine.stores.place import SshLocation, place_of
from strongroom.engine.stores.sftp_store import SftpStore

DATA = b"content"
NAME = object_name(DATA)


@pytest.fixture(scope="module")
def ssh(tmp_path_factory):
    yield from ssh_server(tmp_path_factory.mktemp("ssh"), {"key": ""})


@pytest.fixture
def store(ssh, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{ssh.programs('key')}:{os.environ['PATH']}")
    made = SftpStore(place_of(f"sftp://there{tmp_path}/repository"))
    yield made
    made.close()


def forget_extension(monkeypatch, *names):
    greet = sftp_client.SftpClient._greet  # noqa: SLF001

    def lacking(client):
        return greet(client) - set(names)

    monkeypatch.setattr(sftp_client.SftpClient, "_greet", lacking)


def test_without_hard_links_a_rename_that_refuses_will_do(store, monkeypatch):
    forget_extension(monkeypatch, sftp_client.HARD_LINK)
    store.prepare()
    assert store.put_new("leases", "ab" * 16, b"first")
    assert not store.put_new("leases", "ab" * 16, b"second")
    assert store.get("leases", "ab" * 16) == b"first"


def test_a_server_that_renames_over_what_is_there_is_refused(store, monkeypatch):
    forget_extension(monkeypatch, sftp_client.HARD_LINK)
    # What it would have been: the request that replaces.
    monkeypatch.setattr(SftpStore, "_publish", renaming_over)
    with pytest.raises(StoreError, match="overwrites"):
        store.prepare()


def renaming_over(store, temporary, path):
    words = sftp_client.text(sftp_client.REPLACING_RENAME, temporary, path)
    (answer,) = store._ask(  # noqa: SLF001
        sftp_client.Request(sftp_client.EXTENDED, words)
    )
    return not answer.status


def test_a_server_that_cannot_replace_is_refused(store, monkeypatch):
    forget_extension(monkeypatch, sftp_client.REPLACING_RENAME)
    with pytest.raises(StoreError, match="posix-rename"):
        store.prepare()


def test_nothing_temporary_is_left(store, tmp_path):
    store.prepare()
    store.put("packs", NAME, DATA)
    store.put("packs", NAME, DATA)
    store.replace("leases", "ab" * 16, b"renewed")
    left = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(left) == sorted([NAME, "ab" * 16])


def test_what_a_file_server_leaves_in_a_folder_is_no_object(store, tmp_path):
    store.prepare()
    for folder in ("tombstones", "packs/ab"):
        place = tmp_path / "repository" / folder
        place.mkdir(exist_ok=True)
        (place / ".nfs0001").write_bytes(b"removed while open")
        assert list(store.list(folder.partition("/")[0])) == []


def test_what_was_left_behind_goes_after_a_day(store, tmp_path):
    store.prepare()
    old, young = (tmp_path / "repository" / "packs" / f"tmp.{name}" for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, old.stat().st_mtime - 100_000))
    assert store.remove_abandoned() == 1
    assert not old.exists()
    assert young.exists()


@pytest.fixture
def link(ssh):
    with FaultyLink(ssh.port) as made:
        known = ssh.folder / "known_hosts"
        host = (ssh.folder / "host_key.pub").read_text()
        known.write_text(f"{known.read_text()}[127.0.0.1]:{made.port} {host}")
        yield made


@pytest.fixture
def far(store, link, tmp_path):
    made = SftpStore(place_of(f"sftp://there:{link.port}{tmp_path}/repository"))
    made.prepare()
    yield made
    made.close()


def test_a_connection_that_breaks_is_made_again(far, link):
    for size in (10, 5 << 20):
        data = os.urandom(size)
        name = object_name(data)
        link.cut_after(size // 2)
        writer = far.writer("packs")
        writer.write(data)
        writer.commit(name)
        link.cut_after(size // 2)
        assert far.get("packs", name) == data
        link.drop()
        assert name in {info.name for info in far.list("packs")}
        link.drop()
        far.delete("packs", name)
    assert list(far.list("packs")) == []


def test_a_server_that_is_away_for_a_while_costs_time_only(far, link):
    link.go_down()
    later = threading.Timer(4.0, link.come_up)
    later.start()
    far.put("packs", NAME, DATA)
    assert far.reopen().get("packs", NAME) == DATA
    later.join()


def test_a_server_that_stays_away_ends_it_with_what_to_do(far, link, monkeypatch):
    monkeypatch.setattr(sftp_store, "PATIENCE_SECONDS", 1.0)
    link.go_down()
    with pytest.raises(StoreError, match="not sent again"):
        far.put("packs", NAME, DATA)


def test_a_host_that_never_answered_is_not_waited_for(store, link, tmp_path):
    link.go_down()
    with pytest.raises(ConnectionLostError, match="answer"):
        SftpStore(place_of(f"sftp://there:{link.port}{tmp_path}/r")).prepare()


def test_a_lease_whose_answer_was_lost_is_ours(store, monkeypatch):
    store.prepare()
    publish, lost = SftpStore._publish, []  # noqa: SLF001

    def publish_and_lose_the_answer(self, temporary, path):
        is_new = publish(self, temporary, path)
        if not lost:
            lost.append(path)
            raise ConnectionLostError("lost")
        return is_new

    monkeypatch.setattr(SftpStore, "_publish", publish_and_lose_the_answer)
    assert store.put_new("leases", "ab" * 16, b"mine")
    assert lost
    lost.clear()
    assert not store.put_new("leases", "ab" * 16, b"another's")


def test_threads_whose_connection_breaks_keep_their_objects_apart(far, link):
    contents = [os.urandom(300_000) for _ in range(24)]
    with ThreadPoolExecutor(6) as pool:
        work = [pool.submit(far.put, "packs", object_name(data), data) for data in contents]
        for _ in range(4):
            time.sleep(0.2)
            link.drop()
        for one in work:
            one.result()
    for data in contents:
        assert far.get("packs", object_name(data)) == data


def test_a_connection_that_was_left_in_the_middle_is_not_waited_for(store, monkeypatch):
    store.prepare()
    client = store._client()  # noqa: SLF001
    send = client._socket.sendall  # noqa: SLF001

    class Interrupted:
        """Ctrl-C comes when half of a packet was sent."""

        def sendall(self, data):
            send(memoryview(data)[: len(data) // 2])
            raise KeyboardInterrupt

        def settimeout(self, seconds):
            raise NotImplementedError

    with monkeypatch.context() as patched:
        patched.setattr(client, "_socket", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            store.put("packs", NAME, DATA)
    client._socket.settimeout(5)  # noqa: SLF001
    with pytest.raises(ConnectionLostError, match="broke before"):
        client.ask([])
    store.put("packs", NAME, DATA)
    assert store.get("packs", NAME) == DATA


@pytest.mark.parametrize("kind", ["packs", "index", "snapshots", "leases"])
def test_a_server_that_came_back_without_its_disk_is_not_empty(store, tmp_path, kind):
    store.prepare()
    store.put("snapshots", NAME, DATA)
    assert list(store.list("index")) == []
    # A prune that continued with no snapshots would remove what they need.
    os.rename(tmp_path / "repository", tmp_path / "disk")
    os.mkdir(tmp_path / "repository")
    with pytest.raises(RepositoryNotFoundError):
        store.list(kind)


def test_what_is_tried_is_no_lease_and_stands_in_nobodys_way(store, tmp_path):
    store.prepare()
    (tmp_path / "repository" / "leases" / "probe").write_bytes(b"of another that tries it")
    tried = set()
    publish = SftpStore._publish  # noqa: SLF001

    def publishing(self, temporary, path):
        tried.add(path)
        return publish(self, temporary, path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SftpStore, "_publish", publishing)
        store.prove()
    assert {os.path.basename(path)[:4] for path in tried} == {b"tmp."}


def test_a_server_that_does_not_list_files_is_refused(store, monkeypatch):
    entries = SftpStore._entries  # noqa: SLF001

    def without_kinds(self, folders):
        return tuple(
            [(name, found._replace(mode=0)) for name, found in one]
            for one in entries(self, folders)
        )

    monkeypatch.setattr(SftpStore, "_entries", without_kinds)
    with pytest.raises(StoreError, match="not list"):
        store.prepare()


def test_a_list_without_end_ends(store, monkeypatch):
    store.prepare()
    ask = store._client().ask  # noqa: SLF001

    def asked(requests):
        if requests and requests[0].type == sftp_client.READDIR:
            return [sftp_client.Answer() for _ in requests]
        return ask(requests)

    monkeypatch.setattr(store._client(), "ask", asked)  # noqa: SLF001
    with pytest.raises(ProtocolError, match="their end"):
        store.list("leases")


def test_the_name_of_a_new_folder_of_packs_is_put_on_the_disk(store, monkeypatch):
    store.prepare()
    synced = []
    monkeypatch.setattr(store, "_sync_folder", synced.append)
    store.put("packs", NAME, DATA)
    assert [os.path.basename(path) for path in synced] == [b"packs", NAME[:2].encode()]


def test_a_server_without_our_ciphers_gets_those_of_ssh():
    place = SshLocation("", "", "nas", 0, "")
    words = ssh_command._options(place, is_subsystem=False)  # noqa: SLF001
    shown = subprocess.run(
        [*words[:-2], "-G", "-F", "/dev/null", "nas"], capture_output=True, text=True, check=True
    )
    (ciphers,) = (line for line in shown.stdout.splitlines() if line.startswith("ciphers "))
    assert "aes128-gcm" in ciphers.partition(",")[0]
    assert "aes256-ctr" in ciphers


def test_a_host_that_is_not_there_is_told_with_what_ssh_said(ssh, monkeypatch):
    monkeypatch.setenv("PATH", f"{ssh.programs('key')}:{os.environ['PATH']}")
    with pytest.raises(ConnectionLostError, match="ssh printed"):
        SftpStore(place_of("sftp://127.0.0.1:1/x")).get("config", "config")


@pytest.mark.parametrize(
    ("text", "user", "host", "port", "path"),
    [
        ("sftp://u1@box.example:23/./backup", "u1", "box.example", 23, "/./backup"),
        ("sftp:u1@box.example:/srv/a b%20c", "u1", "box.example", 0, "/srv/a b%20c"),
        ("sftp:box:backup/web1", "", "box", 0, "backup/web1"),
        ("sftp://box/~/backup/", "", "box", 0, "backup"),
        ("sftp:box:~/backup", "", "box", 0, "backup"),
        ("sftp://box/srv/%FF", "", "box", 0, "/srv/\udcff"),
        ("sftp:box:/srv/\udcff", "", "box", 0, "/srv/\udcff"),
    ],
)
def test_places(text, user, host, port, path):
    found = place_of(text)
    assert found.path == path
    assert found.host == SshLocation(text, user, host, port, path)


def test_a_part_is_read_in_two_round_trips_and_whole_though_the_server_gives_less(
    store, monkeypatch
):
    store.prepare()
    data = os.urandom(3 << 20)
    name = object_name(data)
    store.put("packs", name, data)
    batches = []
    ask = sftp_client.SftpClient.ask

    def counted(client, requests):
        batches.append([one.type for one in requests])
        return ask(client, requests)

    def short(client, requests):
        answers = counted(client, requests)
        return [
            one._replace(data=one.data[:9000]) if len(one.data) > 9000 else one for one in answers
        ]

    monkeypatch.setattr(sftp_client.SftpClient, "ask", counted)
    assert store.get("packs", name, 5, 2 << 20) == data[5 : 5 + (2 << 20)]
    assert [batch[-1] for batch in batches] == [sftp_client.OPEN, sftp_client.CLOSE]
    monkeypatch.setattr(sftp_client.SftpClient, "ask", short)
    assert store.get("packs", name, 7, 50_000) == data[7:50_007]
    batches.clear()
    assert store.get("packs", name) == data
    # No more than a few parts are read again.
    assert sum(batch.count(sftp_client.READ) for batch in batches) < 1.5 * len(data) / 9000
    opened = sum(batch.count(sftp_client.OPEN) for batch in batches)
    assert opened == sum(batch.count(sftp_client.CLOSE) for batch in batches)
