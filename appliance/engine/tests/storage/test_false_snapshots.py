"""A snapshot that was found false counts for nothing, is shown, and goes when somebody says so."""

import os
import shutil

import msgspec
import pytest

from kit.forged_snapshot import NO_BLOCK, file_row, forge
from kit.storage_daemon import DIRECTOR
from kit.tiny_backup import PASSPHRASE, TinyBackup, back_up, new_repository, read_back
from strongroom.base.errors import ObjectMissingError, RightError
from strongroom.base.progress import NullProgress
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.index.objects import read_index_object
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Totals
from strongroom.engine.stores.capabilities import found_false
from strongroom.engine.stores.local import LocalStore
from strongroom.net.identities.peer import Peer
from strongroom.storage.settings import StorageLimits

FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}
YEAR = 365 * 86400


@pytest.fixture
def daemon(make_daemon):
    return make_daemon(limits=StorageLimits(minimum_retention_seconds=YEAR))


@pytest.fixture
def agent(daemon, open_as):
    return open_as(daemon.agent("web1"), "web1")


def vouched(appliance):
    return vouch(appliance, required_judge(appliance.store), NullProgress())


def names(store):
    return {info.name for info in store.list("snapshots")}


def unreadable(agent):
    garbage = b"SRSN\1\0\0\0" + agent.writer.client_id + os.urandom(1000)
    with agent.lease("web1", 1, "backup"):
        agent.store.put_durable("snapshots", object_name(garbage), garbage)
    return object_name(garbage)


LIES = {
    "no block": lambda agent: forge(agent, file_row(b"f", NO_BLOCK)).id,
    "totals": lambda agent: forge(agent, totals=Totals(files=3, content_bytes=123456789)).id,
    "protected": lambda agent: forge(agent, file_row(b"f", NO_BLOCK), protected=True).id,
    "unreadable": unreadable,
}


@pytest.mark.parametrize("lie", LIES)
def test_it_is_hidden_from_agents_and_seen_and_removed_by_the_appliance(
    daemon, appliance, agent, lie
):
    good = back_up(agent, FILES)
    false = LIES[lie](agent)
    with pytest.raises(RightError, match="Minimum Retention"):
        appliance.store.delete("snapshots", false)
    report = vouched(appliance)
    assert [(kind, name) for kind, name, _ in report.false_objects] == [("snapshots", false)]
    assert (report.snapshots, report.waiting_snapshots) == (1, 0)
    assert found_false(appliance.store) == {false}
    assert found_false(agent.store) == found_false(daemon.peer(Peer("o", "operator", "2"))) == set()
    for sees, peer in (
        (False, daemon.agent("web1")),
        (False, daemon.peer(Peer("o", "operator", "2"))),
        (False, daemon.local(view_as=agent.writer.client_id.hex())),
        (True, daemon.local()),
        (True, daemon.peer(DIRECTOR)),
    ):
        assert names(peer) == ({good.id, false} if sees else {good.id})
        if not sees:
            with pytest.raises(ObjectMissingError):
                peer.get("snapshots", false)
    # Nothing protects it, but what is sound stays protected, no matter who asks.
    with pytest.raises(RightError, match="delete"):
        daemon.peer(DIRECTOR).delete("snapshots", false)
    daemon.local().delete("snapshots", false)
    required_judge(appliance.store).vouch("snapshots", [good.id], sound=False)
    with pytest.raises(RightError, match="Minimum Retention"):
        daemon.local().delete("snapshots", good.id)
    assert names(daemon.local()) == {good.id}
    assert found_false(appliance.store) == set()


def test_what_its_own_lying_index_says_is_not_believed(appliance, agent):
    """It says that a pack that was verified holds a block that it does not hold."""
    back_up(agent, FILES)
    name = next(info.name for info in agent.store.list("index"))
    (true, *_) = read_index_object(agent.store, agent.key, name, chunks=True).footers
    vouched(appliance)
    for info in list(appliance.store.list("index")):
        appliance.store.delete("index", info.name)
    columns = true.columns
    lying = type(columns)(
        **{
            **{field: getattr(columns, field) for field in columns.__struct_fields__},
            "block_ids": NO_BLOCK * columns.block_count,
        }
    )
    agent.write_index([msgspec.structs.replace(true, columns=lying)])
    false = forge(agent, file_row(b"f", NO_BLOCK))
    vouched(appliance)
    assert found_false(appliance.store) == {false.id}


def test_what_the_disk_lost_is_told_but_not_removed_and_comes_back(daemon, appliance, agent):
    made = back_up(agent, FILES)
    index = appliance.for_all_clients().load_index()
    blocks = index.of_client(made.owner)
    pages = appliance.snapshot(made.id).pages
    lost = blocks.locate(pages[0].block_id).pack_id.hex()
    (path,) = (daemon.repository / "packs").rglob(lost)
    shutil.move(path, daemon.folder / "lost")
    for _ in range(2):
        report = vouched(appliance)
        assert [name for _, name, _ in report.false_objects] == [made.id]
        assert names(appliance.store) == {made.id}
    shutil.move(daemon.folder / "lost", path)
    assert vouched(appliance).false_objects == []
    assert found_false(appliance.store) == set()
    assert read_back(appliance, made.id) == FILES
    with pytest.raises(RightError, match="Minimum Retention"):
        appliance.store.delete("snapshots", made.id)


def test_what_waits_to_be_verified_is_not_called_false(appliance, agent):
    backup = TinyBackup(agent)
    backup.store(FILES)
    made = backup.commit()
    judge = required_judge(appliance.store)

    class Late:
        """Verifies no pack yet, as if they had come meanwhile."""

        def vouch(self, kind, chosen, *, sound):
            if kind == "snapshots":
                judge.vouch(kind, chosen, sound=sound)

        def false(self, kind):
            return judge.false(kind)

    report = vouch(appliance, Late(), NullProgress())
    assert (report.waiting_snapshots, report.false_objects) == (1, [])
    assert made.id in appliance.store.unverified("snapshots")
    assert vouched(appliance).snapshots == 1
    assert made.id not in appliance.store.unverified("snapshots")


@pytest.fixture
def operator(daemon, appliance, tmp_path):
    return daemon.operator(tmp_path)


def test_commands_do_not_take_it_unless_its_whole_id_is_given(appliance, agent, operator):
    good = back_up(agent, FILES)
    false = forge(agent, file_row(b"f", NO_BLOCK), start_ns=good.start_ns + 10**9)
    garbage = unreadable(agent)
    vouched(appliance)
    outcome = operator.run("snapshots")
    assert {one["id"]: one["false"] for one in outcome.of_type("snapshot")} == {
        good.id: False,
        false.id: True,
    }
    assert [one["id"] for one in outcome.of_type("false_snapshot")] == [garbage]
    listed = operator.run("ls", "latest", "/", "-R").of_type("entry")
    assert {one["path"] for one in listed} == {"/data/one", "/data/two"}
    for words in (("ls", false.id, "/"), ("ls", false.id[:8], "/", "--false")):
        outcome = operator.run(*words)
        assert (outcome.code, outcome.error) == (23, "false-snapshot")
    assert operator.run("ls", false.id, "/", "-R", "--false").code == 0
    assert operator.run("check").code == 0


def test_no_rule_counts_it_or_removes_it_and_forget_does_at_any_age(appliance, agent, operator):
    good = [back_up(agent, FILES) for _ in range(2)]
    false = [
        forge(agent, file_row(b"f", NO_BLOCK), protected=True, start_ns=10**18 * (2 + number)).id
        for number in range(3)
    ]
    garbage = unreadable(agent)
    vouched(appliance)
    outcome = operator.run("forget", "--keep-last", "2", "--dry-run")
    assert {one["id"] for one in outcome.of_type("forget")} == {one.id for one in good}
    assert not any(one["forgotten"] for one in outcome.of_type("forget"))
    assert operator.run("forget", "--keep-last", "2").code == 0
    assert names(appliance.store) == {*(one.id for one in good), *false, garbage}
    assert operator.run("forget", *false, garbage, "--minimum-retention", "300d").code == 0
    assert names(appliance.store) == {one.id for one in good}
    assert operator.run("forget", good[0].id).error == "right"


def test_repair_makes_no_sound_one_of_it(appliance, agent, operator):
    false = forge(agent, file_row(b"f", NO_BLOCK))
    vouched(appliance)
    assert operator.run("repair").code == 0
    assert names(appliance.store) == {false.id}
    assert found_false(appliance.store) == {false.id}


def test_a_folder_has_nothing_false(tmp_path):
    repository = new_repository(LocalStore(str(tmp_path)))
    assert found_false(repository.store) == frozenset()
    assert Repository.open(repository.store, PASSPHRASE).snapshots() == []
