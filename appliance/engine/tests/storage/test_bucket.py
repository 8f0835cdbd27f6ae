"""A storage daemon whose repository is in an object store."""

from __future__ import annotations

import os
import resource
import shutil
from contextlib import closing

import pytest

from kit import object_server
from kit.house_of_daemons import HouseOfDaemons
from kit.memory_folder import memory_folder
from kit.planted_pack import plant
from kit.tiny_backup import CHEAP, THOROUGH, back_up, new_repository, read_back
from strongroom.base.errors import RepositoryNotFoundError, StoreError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.check import CheckOptions, DataSubset, check
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.content.digests import object_name
from strongroom.engine.lock.protection import protection
from strongroom.engine.prune.prune import prune
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.object_lock import LockRule
from strongroom.engine.stores.s3_client import S3Client
from strongroom.engine.stores.s3_store import S3Store
from strongroom.storage.bucket import Bucket

FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}


@pytest.fixture
def daemon(make_daemon, object_store, request):
    return make_daemon(bucket=object_store.text(f"daemon/{request.node.name}"))


def test_agents_back_up_and_the_appliance_verifies_prunes_and_restores(daemon, appliance, open_as):
    agent = open_as(daemon.agent("web1"))
    goes = back_up(agent, {b"three": os.urandom(30_000)})
    snapshot = back_up(agent, FILES)
    judge = required_judge(appliance.store)
    assert vouch(appliance, judge, NullProgress()).packs == 4
    appliance.store.delete("snapshots", goes.id)
    assert prune(appliance, THOROUGH, NullProgress()).removed_packs == 2
    report = check(appliance, CheckOptions(read_data=DataSubset(), processes=1), NullProgress())
    assert (report.findings, report.snapshots) == ((), 1)
    assert read_back(appliance, snapshot.id) == FILES


def test_it_promises_what_it_does_before_a_folder(daemon, appliance, open_as):
    true = back_up(open_as(daemon.agent("honest")), FILES)
    liar = open_as(daemon.agent("liar"))
    claimed = list(FILES.values())
    false = plant(liar, claimed, os.urandom(sum(map(len, claimed))))
    liar.write_index([false])
    assert false.pack_id.hex() not in {one.name for one in daemon.agent("honest").list("packs")}
    report = vouch(appliance, required_judge(appliance.store), NullProgress())
    assert [name for kind, name, _ in report.false_objects if kind == "packs"] == [
        false.pack_id.hex()
    ]
    prune(appliance, THOROUGH, NullProgress())
    assert read_back(appliance, true.id) == FILES
    with closing(S3Client(daemon.server.serving.repository("").bucket.place)) as client:
        keys = [key for key, _ in client.part_of_list("", "")[0]]
    assert not any("provenance" in key for key in keys), "what the daemon knows is its own"


def test_it_is_there_after_a_restart_and_after_the_owner_list_was_lost(daemon, appliance, open_as):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES)
    vouch(appliance, required_judge(appliance.store), NullProgress())
    appliance.close()
    daemon.restart()
    store = daemon.local()
    assert store.unverified("packs") == frozenset()
    store.close()
    daemon.server.stop()
    shutil.rmtree(daemon.repository)
    daemon.start()
    store = daemon.local()
    assert len(store.unverified("packs")) == 2
    usage = daemon.server.serving.repository("").owner_list.usage()
    assert daemon.client_id("web1") in usage
    store.close()
    with closing(Repository.open(daemon.local(), b"passphrase")) as again:
        vouch(again, required_judge(again.store), NullProgress())
        assert read_back(again, snapshot.id) == FILES


def test_large_objects_go_through_a_file_and_parts(daemon, appliance):
    data = os.urandom(40 << 20)
    writer = appliance.store.writer("packs")
    for start in range(0, len(data), 300_001):
        writer.write(data[start : start + 300_001])
    writer.commit(object_name(data))
    assert appliance.store.get("packs", object_name(data)) == data
    assert (
        appliance.store.get("packs", object_name(data), 17 << 20, 99)
        == (data[17 << 20 : (17 << 20) + 99])
    )
    assert os.listdir(daemon.repository) == ["provenance"]
    assert b"free_bytes" not in daemon.server.serving.metrics_text()


def test_without_a_repository_nothing_is_served_until_init(daemon):
    with pytest.raises(RepositoryNotFoundError, match=r"s3://.*init"):
        next(daemon.local().list("packs"), None)
    new_repository(daemon.local()).close()
    assert next(daemon.local().list("config")).name == "config"


def test_a_store_that_breaks_promises_is_refused(make_daemon, tmp_path, monkeypatch):
    for name, value in object_server.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for server in object_server.rclone(tmp_path):
        with closing(S3Client(server.place())) as client:
            client.make_bucket()
            client.put("repository/config", b"a repository that was made there by hand")
        with pytest.raises(StoreError, match="overwrites"):
            make_daemon(bucket=server.text())


def test_what_agents_store_in_a_locked_repository_is_locked(make_daemon, object_store):
    place = object_store.place("daemon", "locked-behind-daemon")
    rule = LockRule(86400, "compliance")
    with closing(S3Store(place)) as store:
        Repository.create(store, b"passphrase", cost=CHEAP, lock=rule).close()
    daemon = make_daemon(bucket=object_store.text("daemon", "locked-behind-daemon"))
    with closing(Repository.open(daemon.local(), b"passphrase")) as appliance:
        snapshot = back_up(appliance.for_client("web1"), FILES)
    with closing(Repository.open(S3Store(place), b"passphrase")) as direct:
        (one,) = protection(direct, NullProgress()).snapshots
        assert (one.snapshot.id, one.problem) == (snapshot.id, "")
        assert list(direct.store.versions("leases")) == []


def test_a_fleet_needs_no_change(object_store):
    # Every job as the director gives it: backup, verification, prune, restore.
    with memory_folder() as folder:
        further = f'Working Directory = "{folder}/state"'
        device = object_store.text("fleet")
        with HouseOfDaemons(folder, device=device, storage_further=further) as house:
            house.write_files("web1", {"file": b"content" * 9999})
            run = house.run("nightly-web1")
            assert run["state"] == "done", house.log(run["id"])
            kept = house.run("housekeeping-web1")
            assert kept["state"] == "done", house.log(kept["id"])
            checked = house.maintain("check", "--read-data", "all")
            assert "no damage found" in checked
            target = folder / "back"
            restored = house.restore(run["snapshot"], target, "web1")
            assert restored["state"] == "done", house.log(restored["id"])
            assert (house.restored(target, "web1") / "file").read_bytes() == b"content" * 9999
            assert not house.repository.exists()
            for daemon in house.daemons:
                assert object_server.SECRET not in daemon.log


def test_an_upload_ends_quietly_where_there_is_no_room_to_gather_it(object_store, tmp_path):
    store = Bucket(object_store.text("daemon/no-room"), os.fsencode(tmp_path)).open()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    upload = store.incoming("packs")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(StoreError, match="free space"):
            write_many(upload)
        upload.abort()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def write_many(upload):
    for _ in range(30):
        upload.write(b"x" * 50_001)
