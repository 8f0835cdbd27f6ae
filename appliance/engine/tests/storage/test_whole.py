"""The real daemon, the real command, real certificates: agents and maintenance end to end."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from kit.ports import free_port
from kit.snapshot_contents import contents
from kit.storage_daemon import Relay
from kit.storage_site import PATIENCE_SECONDS, StorageSite
from strongroom.base.errors import (
    ConnectionLostError,
    OperatingSystemError,
    PeerRefusedError,
    RightError,
)
from strongroom.engine.repository.keys.files import import_key
from strongroom.engine.repository.repository import Repository
from strongroom.net.identities.statements import sign_statement
from strongroom.net.storage.place import open_network, parse_place
from strongroom.storage.server import StorageServer
from strongroom.storage.settings import StorageDaemonSettings

MODES = ("tls", "off")


@pytest.fixture
def tree(folder: Path) -> Path:
    made = folder / "tree"
    grow(made, 1, 60)
    return made


def grow(place: Path, seed: int, count: int) -> None:
    chance = random.Random(seed)
    for number in range(count):
        path = place / f"{number % 5}" / f"{seed}-{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(chance.randrange(30_000)))


def files_of(place: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


def assert_restores(site: StorageSite, snapshot: str, tree: Path) -> None:
    target = site.folder / f"restored-{snapshot[:8]}-{random.randrange(1 << 40)}"
    site.local("restore", snapshot, "--target", str(target))
    assert files_of(target / str(tree).lstrip("/")) == files_of(tree)


def pack_bytes(site: StorageSite) -> int:
    return sum(path.stat().st_size for path in (site.repository / "packs").rglob("?" * 64))


@pytest.mark.parametrize("mode", MODES)
def test_backup_vouch_prune_check_and_restore(folder, tree, mode):
    site = StorageSite(folder, "Tls Require = no" if mode == "off" else "")
    try:
        site.identity("web1", "agent")
        site.identity("web2", "agent")
        first = site.back_up("web1", str(tree), tls=mode)
        grow(tree, 2, 5)
        second = site.back_up("web1", str(tree), tls=mode)
        assert (second["files_read"], second["parent"]) == (5, first["snapshot"])
        # Another agent stores all of it again, until the appliance has checked it.
        assert site.back_up("web2", str(tree), tls=mode)["new_bytes"] == second["size_bytes"]
        site.local("vouch")
        grow(tree, 3, 1)
        third = site.back_up("web2", str(tree), "--level", "full", tls=mode)
        assert 0 < third["new_bytes"] < 30_001
        assert_restores(site, third["snapshot"], tree)
        site.local("forget", "--keep-last", "1", "--prune", "--max-unused", "0")
        site.local("check", "--read-data")
        assert_restores(site, third["snapshot"], tree)
        assert "strongroom_storage_stored_bytes" in site.local(
            "storage", "--metrics", "--config", str(site.configuration), key=None
        )
    finally:
        assert site.stop() == 0, site.log()


def test_an_address_that_somebody_has_already_is_told(daemon, tmp_path):
    port = daemon.server.ports[0]
    settings = StorageDaemonSettings(
        "other", (("disk", bytes(tmp_path / "other")),), addresses=(("127.0.0.1", port),)
    )
    server = StorageServer(settings, lambda _: pytest.fail("no one comes"))
    with pytest.raises(OperatingSystemError, match=f"127.0.0.1 port {port}: "):
        server.start()
    server.stop()


def test_a_second_daemon_does_not_take_the_socket_of_one_that_runs(daemon, tmp_path):
    settings = replace(daemon.settings, repositories=(("disk", bytes(tmp_path / "other")),))
    server = StorageServer(settings, lambda _: pytest.fail("no one comes"))
    with pytest.raises(OperatingSystemError, match="another process does"):
        server.start()
    server.stop()
    daemon.local().close()
    # What a killed one left is in no one's way.
    daemon.server.stop()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(daemon.socket_path))
    daemon.start()
    daemon.local().close()


def test_who_may_not_connect_is_told_why(site, tree):
    site.identity("web1", "agent")
    site.identity("other", "director")
    refused = site.agent("web1", "backup", str(tree), tls="off", exit_code=33)
    assert "may not connect with TLS mode 'off'" in refused
    assert "refuses" in site.agent("other", "snapshots", exit_code=33)
    site.configure('Plain Clients = "web1"')
    site.signal(signal.SIGHUP)
    until = time.monotonic() + PATIENCE_SECONDS
    while "read again" not in site.log():
        assert time.monotonic() < until
        time.sleep(0.05)
    site.back_up("web1", str(tree), tls="off")


def test_a_socket_in_a_folder_that_is_not_there_is_named(tmp_path):
    text = f"""Storage {{ Name = vault; Address = 127.0.0.1; Port = {free_port()}
      Maintenance Socket = "{tmp_path}/run/storage.sock" }}
    Director {{ Name = boss; Password = unused }}
    Device {{ Name = disk; Media Type = File; Archive Device = "{tmp_path}/repository" }}
    """
    (tmp_path / "storage.conf").write_text(text)
    words = ["storage", "--config", str(tmp_path / "storage.conf")]
    done = subprocess.run(
        [sys.executable, "-m", "strongroom", *words],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == OperatingSystemError.exit_code, done.stderr
    assert f"{tmp_path}/run/storage.sock" in done.stderr


def test_what_takes_a_restart_is_named_when_the_configuration_is_read_again(site):
    before = site.configuration.read_text()
    elsewhere = f"Archive Device = {site.folder}/elsewhere"
    changed = before.replace(f"Archive Device = {site.repository}", elsewhere)
    changed = changed.replace(f"Port = {site.port}", f"Port = {site.port}; Maximum Connections = 9")
    site.configuration.write_text(changed)
    for count in (1, 2):
        site.signal(signal.SIGHUP)
        until = time.monotonic() + PATIENCE_SECONDS
        # A signal in the middle of the reading before would be no further one.
        while site.log().count("the configuration was read again") < count:
            assert time.monotonic() < until, site.log()
            time.sleep(0.05)
    assert site.log().count("Device: changed, but in force only after a restart") == 2
    assert "Port" not in site.log()
    site.configuration.write_text(before)
    site.signal(signal.SIGHUP)
    until = time.monotonic() + PATIENCE_SECONDS
    while site.log().count("the configuration was read again") < 3:
        assert time.monotonic() < until, site.log()
        time.sleep(0.05)
    assert site.log().count("after a restart") == 2


def test_a_job_whose_connection_breaks_fails_and_the_next_sends_nothing_twice(site, tree):
    # Slow enough that it is cut in the middle, on whatever machine.
    site.configure("Maximum Bandwidth Per Job = 40 MB/s")
    assert site.stop() == 0
    site.start()
    (tree / "large").write_bytes(random.Random(5).randbytes(120_000_000))
    site.identity("web1", "agent")
    relay = Relay(site.port)
    words = site.agent_words("web1", "backup", str(tree), "--shards", "2")
    words = [word.replace(f":{site.port}", f":{relay.port}") for word in words]
    job = subprocess.Popen(words, env=site.environment, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + PATIENCE_SECONDS
    while pack_bytes(site) < 15_000_000 and job.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.005)
    relay.close()
    _, said = job.communicate(timeout=PATIENCE_SECONDS)
    assert job.returncode == 32, said
    assert "[connection-lost]" in said
    stored = pack_bytes(site)
    assert stored > 15_000_000
    summary = site.back_up("web1", str(tree))
    # What had its name when the connection broke is not sent again: random bytes don't shrink.
    assert summary["new_bytes"] < summary["size_bytes"] - stored + 1_000_000
    assert_restores(site, summary["snapshot"], tree)
    site.local("check", "--read-data")


def kill_at_random(site: StorageSite, tree: Path, rounds: int) -> None:
    """Kill the daemon again and again while two agents back up; nothing acknowledged is lost."""
    chance = random.Random(7)
    for name in ("web1", "web2"):
        site.identity(name, "agent")
    committed: dict[str, dict[str, bytes]] = {}
    for number in range(rounds):
        grow(tree, 100 + number, 6)
        (tree / "large").write_bytes(chance.randbytes(3_000_000))
        jobs = [
            subprocess.Popen(
                site.agent_words(name, "backup", str(tree), "--json"),
                env=site.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in ("web1", "web2")
        ]
        time.sleep(chance.random() * 1.5)
        site.kill()
        for job in jobs:
            out, said = job.communicate(timeout=PATIENCE_SECONDS)
            assert job.returncode in (0, 30, 31, 32), (job.returncode, said)
            if job.returncode == 0:
                committed[out.rpartition('"snapshot":"')[2][:64]] = files_of(tree)
        site.start()
    for name in ("web1", "web2"):
        committed[site.back_up(name, str(tree))["snapshot"]] = files_of(tree)
    site.local("vouch")
    site.local("prune", "--max-unused", "0")
    site.local("check", "--read-data")
    assert list(site.repository.rglob("tmp.*")) == []
    listed = site.local("snapshots", "--json")
    for snapshot, expected in committed.items():
        assert snapshot in listed
        target = site.folder / f"restored-{snapshot[:8]}"
        site.local("restore", snapshot, "--target", str(target))
        assert files_of(target / str(tree).lstrip("/")) == expected


@pytest.mark.parametrize(
    "rounds", [2, pytest.param(25, marks=pytest.mark.slow)], ids=["quick", "long"]
)
def test_a_daemon_killed_under_load_loses_nothing(site, tree, rounds):
    kill_at_random(site, tree, rounds)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")
def test_a_full_disk_fails_the_job_and_harms_nothing(folder, tree):
    (folder / "repository").mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder / "repository")],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    site = None
    try:
        site = StorageSite(folder)
        site.identity("web1", "agent")
        kept = site.back_up("web1", str(tree))["snapshot"]
        large = folder / "large"
        large.mkdir()
        (large / "file").write_bytes(random.Random(3).randbytes(30_000_000))
        said = site.agent("web1", "backup", str(large), exit_code=30)
        assert "[store]" in said
        assert "failed" in site.log()
        assert list(site.repository.rglob("tmp.*")) == []
        site.local("check", "--read-data")
        assert_restores(site, kept, tree)
    finally:
        if site is not None:
            site.stop()
        subprocess.run(["umount", "-l", str(folder / "repository")], check=True)


def test_a_grant_of_the_director_opens_one_snapshot_of_another(site, tree):
    web1 = site.identity("web1", "agent")
    web2 = site.identity("web2", "agent")
    boss = site.identity("boss", "director")
    snapshot = site.back_up("web1", str(tree))["snapshot"]
    key = import_key(site.restore_key.read_text())
    owner = key.client_id("web1").hex()
    payload = {"agent": "web2", "client": owner, "snapshot": snapshot}
    place = parse_place(f"strongroom://127.0.0.1:{site.port}")
    for signer, reader, is_good in ((boss, web2, True), (boss, web1, False), (web2, web2, False)):
        grant = sign_statement(signer, "restore", payload, 600)
        store = open_network(place, lambda who=reader: who, grant=grant)
        if is_good:
            assert [info.name for info in store.list("snapshots")] == [snapshot]
            with closing(Repository.open(store, key)) as repository:
                assert len(contents(repository, snapshot)) > 60
        else:
            with pytest.raises((RightError, PeerRefusedError)):
                store.list("snapshots")


def test_a_revoked_agent_is_thrown_out_within_seconds(site):
    web1 = site.identity("web1", "agent")
    store = open_network(parse_place(f"strongroom://127.0.0.1:{site.port}"), lambda: web1)
    assert list(store.list("packs")) == []
    site.authority.revoke("web1")
    (site.folder / "vault" / "revoked.pem").write_bytes(site.authority.revoked_pem())
    end = time.monotonic() + PATIENCE_SECONDS

    def list_until_it_is_refused():
        while time.monotonic() < end:
            list(store.list("packs"))
            time.sleep(0.05)

    with pytest.raises(ConnectionLostError):
        list_until_it_is_refused()
    with pytest.raises(PeerRefusedError):
        open_network(parse_place(f"strongroom://127.0.0.1:{site.port}"), lambda: web1).list("packs")
