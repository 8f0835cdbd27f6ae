"""A repository whose objects are locked, and what somebody with every key can do to it."""

import itertools
import json
import os
import subprocess
import time

import pytest

from kit.memory_store import MemoryStore
from kit.prepared_commands import run_for_text
from kit.tiny_backup import CHEAP, HOST, PASSPHRASE, back_up, read_back
from kit.virtual_time import ShiftedTime
from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import (
    CheckFailedError,
    DamageError,
    StoreError,
    StrongroomError,
    UsageError,
)
from strongroom.base.progress import NullProgress
from strongroom.engine.content.digests import object_name
from strongroom.engine.lock import protection as protection_module
from strongroom.engine.lock.extension import extend_locks
from strongroom.engine.lock.objects import extend_all, locked_objects
from strongroom.engine.lock.protection import protection
from strongroom.engine.prune.forget import ForgetOptions, forget
from strongroom.engine.prune.prune import prune
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.configuration import Config, decode_config, encode_config
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import write_tombstone
from strongroom.engine.stores import s3_client
from strongroom.engine.stores.object_lock import LOCKED_KINDS, LockRule
from strongroom.engine.stores.s3_client import RefusedError, Request, Retention
from strongroom.engine.stores.s3_store import S3Store

FILES = {b"a": b"first" * 100, b"b": b"second" * 5000}
LATER = {b"a": b"changed" * 80, b"b": b"second" * 5000}
BUCKET = "locked-repositories"
_numbers = itertools.count()


@pytest.fixture
def make(object_store, monkeypatch):
    """Make a repository that is locked for seconds."""
    monkeypatch.setattr(s3_client, "PATIENCE_SECONDS", 20.0)
    made = []

    def new(seconds, mode="compliance"):
        store = S3Store(object_store.place(f"r{next(_numbers)}", BUCKET))
        rule = LockRule(seconds, mode)
        repository = Repository.create(store, PASSPHRASE, cost=CHEAP, lock=rule).for_client(HOST)
        made.append(repository)
        return repository

    yield new
    for repository in made:
        repository.close()


def again(repository, at_ns=None, secret=PASSPHRASE):
    """The repository opened anew, perhaps as it was."""
    store = repository.store.reopen()
    if at_ns is not None:
        store = store.as_of(at_ns)
    return Repository.open(store, secret)


def store_now_ns(repository):
    """The latest time that the store has given to anything."""
    return max(one.stored_ns for kind in LOCKED_KINDS for one in repository.store.versions(kind))


def forget_all(repository, *snapshots):
    ids = tuple(one.id for one in snapshots)
    options = ForgetOptions(snapshot_ids=ids)
    return forget(repository, repository.snapshots(), options, NullProgress())


def pruned(repository):
    return prune(repository, PruneOptions(spare_seconds=0, max_unused=0), NullProgress())


def test_everything_that_a_snapshot_needs_is_locked(make):
    repository = make(86400)
    back_up(repository, FILES)
    objects = locked_objects(repository.store)
    assert {kind for kind, _ in objects} == set(LOCKED_KINDS)
    until_ns = clock.now_ns() + 86300 * SECOND_NS
    assert all(repository.store.locked_until(one.first) > until_ns for one in objects.values())
    assert list(repository.store.versions("leases")) == []
    report = protection(again(repository), NullProgress())
    (one,) = report.snapshots
    assert one.locked_until_ns > until_ns
    assert (one.problem, report.overlaid, report.hidden, report.unprotected) == ("", (), (), 0)


def test_the_rule_is_in_the_signed_configuration(make):
    repository = make(86400, "governance")
    opened = again(repository)
    assert opened.config.lock_rule == LockRule(86400, "governance")
    assert opened.store.lock_rule == LockRule(86400, "governance")
    assert (
        json.loads(repository.store.get("config", "config").partition(b"\n")[0])["strongroom"] == 2
    )
    # Without a lock the configuration is as it always was.
    plain = Repository.create(MemoryStore(), PASSPHRASE, cost=CHEAP)
    line = json.loads(plain.store.get("config", "config").partition(b"\n")[0])
    assert line["strongroom"] == 1
    assert not {"lock_seconds", "lock_mode"} & set(line)
    with pytest.raises(UsageError, match="not locked"):
        extend_locks(plain, NullProgress())


def test_lock_extends_what_is_near_its_end_and_asks_for_nothing_else(make, monkeypatch):
    repository = make(20)
    snapshot = back_up(repository, FILES)
    report = extend_locks(again(repository), NullProgress())
    assert (report.asked, report.extended) == (0, 0)
    ShiftedTime(monkeypatch).pass_by(12)
    before_ns = protection(again(repository), NullProgress()).snapshots[0].locked_until_ns
    dry = extend_locks(again(repository), NullProgress(), dry_run=True)
    report = extend_locks(again(repository), NullProgress())
    assert (
        report.objects == report.extended == dry.extended == len(locked_objects(repository.store))
    )
    (one,) = protection(again(repository), NullProgress()).snapshots
    assert one.locked_until_ns >= before_ns + 8 * SECOND_NS
    requests = dict(repository.store.counts.requests)
    opened = again(repository)
    report = extend_locks(opened, NullProgress())
    # Those that were extended are asked for, and no more.
    assert (report.asked, report.extended) == (report.objects, 0)
    assert "put_object_retention" not in opened.store.counts.requests
    assert requests == repository.store.counts.requests
    assert read_back(again(repository), snapshot.id) == FILES


def test_an_object_in_the_stricter_mode_keeps_no_other_from_being_extended(make, monkeypatch):
    repository = make(20, "governance")
    back_up(repository, FILES)
    store = repository.store
    forged = object_name(b"forged")
    until_ns = clock.now_ns() + 18 * SECOND_NS
    store._client.put(  # noqa: SLF001
        store._key("packs", forged),  # noqa: SLF001
        b"forged",
        retention=Retention("COMPLIANCE", until_ns),
    )
    ShiftedTime(monkeypatch).pass_by(12)
    report = extend_locks(again(repository), NullProgress())
    assert report.extended == report.objects
    ends = [store.locked_until(one.first) for one in locked_objects(store).values()]
    assert min(ends) > clock.now_ns() + 10 * SECOND_NS


def test_an_object_that_cannot_be_extended_keeps_no_other_from_it(make):
    repository = make(20, "governance")
    back_up(repository, FILES)
    store = repository.store
    every = [one.first for one in locked_objects(store).values()]
    until_ns = clock.now_ns() + 60 * SECOND_NS
    # Later than the time to come, so the store refuses to extend it to that.
    store.extend(every[0], until_ns + 60 * SECOND_NS)
    gone = every[0]._replace(version="f" * 32)
    with pytest.raises(StoreError):
        extend_all(store, (every[0], gone, *every[1:] * 20), until_ns)
    ends = [store.locked_until(one) for one in every]
    assert min(ends) >= until_ns - SECOND_NS
    extend_all(store, (gone, *every), until_ns + 120 * SECOND_NS)


def test_prune_says_what_stays_and_frees_it_when_its_lock_has_ended(make):
    repository = make(12)
    old = back_up(repository, FILES)
    new = back_up(repository, LATER)
    forget_all(again(repository), old)
    report = pruned(again(repository))
    assert report.removed_packs > 0
    assert report.freed_bytes <= 0
    assert report.hidden.locked > report.removed_packs
    assert report.hidden.locked_bytes > 0
    until_ns = report.hidden.until_ns
    assert 0 < until_ns - clock.now_ns() <= 13 * SECOND_NS
    assert read_back(again(repository), new.id) == LATER
    time.sleep(max(0, until_ns - clock.now_ns()) / SECOND_NS + 2)
    extend_locks(again(repository), NullProgress())
    report = pruned(again(repository))
    assert (report.hidden.locked, report.removed_packs) == (0, 0)
    assert report.hidden.removed > 0
    assert report.freed_bytes == report.hidden.removed_bytes > 0
    assert all(not one.is_hidden for one in locked_objects(repository.store).values())
    assert not [one for one in repository.store.versions("packs") if one.is_marker]
    assert read_back(again(repository), new.id) == LATER


def test_a_forgotten_snapshot_is_read_as_of_a_time_before(make):
    repository = make(86400)
    old = back_up(repository, FILES)
    then_ns = store_now_ns(repository)
    time.sleep(1.1)
    new = back_up(repository, LATER)
    forget_all(again(repository), old)
    pruned(again(repository))
    assert [one.id for one in again(repository).snapshots()] == [new.id]
    past = again(repository, then_ns)
    assert [one.id for one in past.snapshots()] == [old.id]
    assert read_back(past, old.id) == FILES
    assert protection(again(repository), NullProgress()).deleted_snapshots == 1


class Attacker:
    """Has the access key of the bucket, the passphrase, and every key of the appliance."""

    def __init__(self, repository):
        self.repository = again(repository)
        self.store = self.repository.store
        self.client = self.store._client  # noqa: SLF001
        self.objects = [
            (kind, name, one) for (kind, name), one in locked_objects(self.store).items()
        ]

    def key_of(self, kind, name):
        return self.store._key(kind, name)  # noqa: SLF001

    def removes_versions(self):
        for kind, name, one in self.objects:
            assert self.store.remove_versions([one.first]) == [one.first]
            with pytest.raises(StoreError):
                self.client.delete_version(self.key_of(kind, name), one.first.version)

    def bypasses(self):
        for kind, name, one in self.objects:
            query = {"versionId": one.first.version}
            bypass = {"x-amz-bypass-governance-retention": "true"}
            with pytest.raises(RefusedError):
                self.client.ask(
                    Request("delete_object", "DELETE", self.key_of(kind, name), query, bypass), len
                )

    def shortens(self):
        for _, _, one in self.objects:
            until_ns = self.store.locked_until(one.first)
            with pytest.raises(StoreError):
                self.store.extend(one.first, clock.now_ns() + 60 * SECOND_NS)
            assert self.store.locked_until(one.first) == until_ns

    def weakens(self):
        self.store.lock_by(LockRule(86400, "governance"))
        for _, _, one in self.objects:
            until_ns = self.store.locked_until(one.first)
            with pytest.raises(StoreError):
                self.store.extend(one.first, until_ns - SECOND_NS)

    def suspends_versions(self):
        content = b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"
        request = Request("suspend", "PUT", "", {"versioning": ""}, {}, content)
        access = self.client._access_now()  # noqa: SLF001
        answer = self.client._send(request, access, access.region)  # noqa: SLF001
        assert answer.status == 409

    def deletes(self):
        for kind, name, _ in self.objects:
            self.store.delete(kind, name)

    def overwrites(self):
        for kind, name, _ in self.objects:
            self.client.put(self.key_of(kind, name), b"nonsense")

    def overwrites_and_deletes(self):
        self.overwrites()
        self.deletes()
        self.overwrites()

    def forges_an_index(self):
        """One that supersedes all others, and says that all is in a pack that is not there."""
        names = [info.name for info in self.store.list("index")]
        writer = self.repository.for_client(HOST)
        pack = writer.new_pack(0)
        pack.add(b"\1" * 24, b"\2" * 24, [5], 0, b"wrong", 5)
        footer = pack.finish()
        writer.write_index([footer], names)
        self.store.delete("packs", footer.pack_id.hex())
        for name in names:
            self.store.delete("index", name)

    def forges_tombstones(self):
        key, cipher = self.repository.key, self.repository.cipher
        owner = self.repository.for_client(HOST).writer.client_id
        packs = [bytes.fromhex(name) for kind, name, _ in self.objects if kind == "packs"]
        write_tombstone(self.store, key, owner, packs, cipher)
        forget_all(self.repository, *self.repository.snapshots())
        pruned(self.repository)

    def forges_a_configuration(self):
        """Signed, but without a lock."""
        stored = decode_config(self.store.get("config", "config")).config
        config = Config(
            version=1,
            id=stored.id,
            restore_public=stored.restore_public,
            encryption=stored.encryption,
            created_ns=stored.created_ns,
            secrets=stored.secrets,
        )
        data = encode_config(config, self.repository.restore_key)
        self.client.put(self.key_of("config", "config"), data)

    def prunes_everything(self):
        forget_all(self.repository, *self.repository.snapshots())
        for _ in range(2):
            pruned(self.repository)

    def removes_passphrases(self):
        for info in list(self.store.list("keys")):
            self.store.delete("keys", info.name)

    def extends_and_hides(self):
        """Some stores change the time of what is extended."""
        for _, _, one in self.objects:
            self.store.extend(one.first, self.store.locked_until(one.first) + SECOND_NS)
        self.deletes()


ATTACKS = sorted(name for name in vars(Attacker) if not name.startswith("_") and name != "key_of")


@pytest.mark.parametrize("attack", ATTACKS)
def test_whoever_has_every_key_makes_no_locked_snapshot_unreadable(make, attack):
    repository = make(86400)
    snapshots = {back_up(repository, files).id: files for files in (FILES, LATER)}
    then_ns = store_now_ns(repository)
    time.sleep(1.1)
    attacker = Attacker(repository)
    try:
        getattr(attacker, attack)()
    except (DamageError, UsageError) as error:
        pytest.fail(f"the attack itself failed: {error}")
    past = again(repository, then_ns)
    assert {one.id for one in past.snapshots()} == set(snapshots)
    for name, files in snapshots.items():
        assert read_back(past, name) == files
    until_ns = clock.now_ns() + 86000 * SECOND_NS
    assert all(
        repository.store.locked_until(one.first) > until_ns
        for one in locked_objects(repository.store).values()
        if one.first.stored_ns <= then_ns
    )


def test_check_and_lock_tell_what_was_laid_over_objects(make):
    repository = make(86400)
    snapshot = back_up(repository, FILES)
    attacker = Attacker(repository)
    packs = [name for kind, name, _ in attacker.objects if kind == "packs"]
    attacker.client.put(attacker.key_of("packs", packs[0]), b"nonsense")
    report = protection(again(repository), NullProgress())
    assert report.overlaid == (("packs", packs[0]),)
    # It is read as it was stored first, so the snapshot is as protected as before.
    assert report.unprotected == 0
    assert extend_locks(again(repository), NullProgress()).overlaid == (("packs", packs[0]),)
    for name in packs:
        attacker.store.delete("packs", name)
    report = protection(again(repository), NullProgress())
    assert report.hidden == tuple(sorted(("packs", name) for name in packs))
    assert report.unprotected == 0
    # Also as of a time when they were marked already: it is the index of then that counts.
    assert read_back(again(repository, clock.now_ns()), snapshot.id) == FILES


def test_a_forged_configuration_is_reported_as_what_it_is(make):
    repository = make(86400)
    back_up(repository, FILES)
    Attacker(repository).forges_a_configuration()
    forged = again(repository)
    assert forged.config.lock_rule is None
    with pytest.raises(CheckFailedError):
        protection(forged, NullProgress())
    with pytest.raises(CheckFailedError):
        extend_locks(forged, NullProgress())


def test_a_forged_tombstone_takes_no_pack_out_of_the_lock_and_is_reported(make, monkeypatch):
    repository = make(10)
    back_up(repository, FILES)
    attacker = Attacker(repository)
    packs = sorted(name for kind, name, _ in attacker.objects if kind == "packs")
    owner = repository.for_client(HOST).writer.client_id
    marked = [bytes.fromhex(name) for name in packs]
    time.sleep(6.1)
    write_tombstone(repository.store, repository.key, owner, marked, repository.cipher)
    until_ns = clock.now_ns() + 8 * SECOND_NS
    extend_locks(again(repository), NullProgress())
    for kind, _, one in attacker.objects:
        assert kind != "packs" or repository.store.locked_until(one.first) > until_ns
    # A backup of then may have come to its end since a prune marked them.
    assert protection(again(repository), NullProgress()).marked == ()
    monkeypatch.setattr(protection_module, "_LONGEST_MARKING_NS", 0)
    found = protection(again(repository), NullProgress())
    assert found.marked == tuple(("packs", name) for name in packs)


def test_a_prune_removes_nothing_for_good_that_somebody_else_deleted(make):
    repository = make(10)
    snapshot = back_up(repository, FILES)
    then_ns = store_now_ns(repository)
    time.sleep(1.1)
    Attacker(repository).deletes()
    time.sleep(11)
    # The locks have ended, and the repository shows no snapshot any more.
    with pytest.raises(StrongroomError):
        pruned(again(repository))
    past = again(repository, then_ns)
    report = prune(
        Repository(repository.store.reopen(), past.config, past.key),
        PruneOptions(spare_seconds=0),
        NullProgress(),
    )
    assert report.hidden.removed == 0
    assert read_back(again(repository, then_ns), snapshot.id) == FILES


def test_the_commands_from_init_to_a_restore_as_of_a_time(object_store, tmp_path):
    place = object_store.text(f"r{next(_numbers)}", BUCKET)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(b"content" * 1000)

    def run(*words, code=0):
        environment = {
            **os.environ,
            "HOME": str(tmp_path),
            "TZ": "UTC",
            "STRONGROOM_REPOSITORY": place,
            "STRONGROOM_PASSWORD": "a passphrase of tests",
        }
        found = run_for_text(words, environment)
        assert found.returncode == code, found.stderr
        return found

    said = run("init", "--lock-for", "2d", "--lock-mode", "compliance").stdout
    assert "object lock: compliance, 2 days" in said
    run("backup", str(tree))
    first = json.loads(run("snapshots", "--json").stdout)[0]["id"]
    (tree / "later").write_bytes(b"later")
    run("backup", str(tree))
    listed = run("check", "--locks").stdout
    assert "LOCKED UNTIL" in listed
    run("check")
    assert "locks of 0 objects" in run("lock").stdout
    time.sleep(2)
    moment = f"@{int(time.time()) - 1}"
    *_, snapshot = json.loads(run("snapshots", "--json").stdout)
    run("forget", first, snapshot["id"])
    said = run("prune").stdout
    assert "locked, " in said
    assert json.loads(run("snapshots", "--json").stdout) == []
    found = json.loads(run("snapshots", "--at", moment, "--json").stdout)
    assert [one["id"] for one in found] == [first, snapshot["id"]]
    assert "file" in run("ls", "latest", str(tree), "--at", moment).stdout
    run("restore", "latest", "--at", moment, "--target", str(tmp_path / "back"))
    assert str(tree / "later") in run("find", "later", "--at", moment).stdout
    assert "later" in run("diff", first, "latest", "--at", moment).stdout
    assert run("dump", "latest", str(tree / "later"), "--at", moment).stdout == "later"
    if os.access("/dev/fuse", os.W_OK):
        mounted = tmp_path / "mounted"
        mounted.mkdir()
        run("mount", str(mounted), "--at", moment)
        try:
            (seen,) = mounted.rglob(f"{snapshot['id'][:8]}*/**/later")
            assert seen.read_bytes() == b"later"
        finally:
            subprocess.run(("fusermount3", "-u", str(mounted)), check=True)
    back = tmp_path / "back" / str(tree).lstrip("/") / "file"
    assert back.read_bytes() == (tree / "file").read_bytes()
    assert "there was no repository" in run("ls", "latest", "/", "--at", "@1", code=10).stderr
    folder = str(tmp_path / "copy")
    run("init", "--repo", folder)
    run("copy", "--repo", folder, "--from-repo", place, "--from-at", moment)
    assert len(json.loads(run("snapshots", "--repo", folder, "--json").stdout)) == 2
    assert "not locked" in run("lock", "--repo", folder, code=2).stderr
    run("lock", "--if-locked", "--repo", folder)
    assert "--at" in run("ls", "--repo", folder, "--at", moment, code=2).stderr
    assert "--lock-mode" in run("init", "--lock-mode", "governance", code=2).stderr
    assert object_name(b"") not in said
