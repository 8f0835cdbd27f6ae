"""What a snapshot says of itself is its writer's word: it makes no one else's snapshots go."""

import msgspec
import pytest

from kit.director_in_process import START_NS, TestDirector, client, in_loop, job
from kit.director_with_repositories import rebuild_catalog
from kit.tiny_backup import PASSPHRASE, TinyBackup, back_up
from kit.virtual_time import ShiftedTime
from strongroom.base import clock
from strongroom.base.errors import RightError
from strongroom.base.progress import NullProgress
from strongroom.director.catalog.runs import new_run_id
from strongroom.director.catalog.snapshots import add_snapshots
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import SnapshotFilter
from strongroom.director.snapshots.confirmation import confirm_snapshot
from strongroom.director.snapshots.reconciliation import reconcile
from strongroom.engine.prune.forget import ForgetOptions, forget
from strongroom.engine.prune.retention import RetentionRules
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot, write_snapshot
from strongroom.net.control.messages import RunEnded

FILES = {b"one": b"first" * 1000}
HOUR_NS = 3600 * 1_000_000_000


@pytest.fixture
def director(tmp_path, monkeypatch, daemon):
    (tmp_path / "passphrase").write_bytes(PASSPHRASE + b"\n")
    (tmp_path / "passphrase").chmod(0o600)
    made = TestDirector(tmp_path, ShiftedTime(monkeypatch))
    made.configure(
        client("web1") + client("web2") + job("nightly"),
        storage=f'Repository = "unix:{daemon.socket_path}"; '
        f'PassphraseFile = "{tmp_path}/passphrase"',
    )
    return made


def pretending(repository, name):
    """The repository for an attacker who writes another name into its own snapshots."""
    key = msgspec.structs.replace(repository.key, name=name)
    return Repository(repository.store, repository.config, key)


@in_loop
async def test_rebuilding_the_catalog_believes_no_agent_that_it_is_another(
    director, daemon, appliance, open_as
):
    honest = back_up(open_as(daemon.agent("web1")), FILES)
    back_up(pretending(open_as(daemon.agent("web2")), "web1"), FILES)
    own = back_up(appliance, FILES, host="web3")
    await director.open()
    context = director.service.context
    assert await context.with_repository(rebuild_catalog, context, "main") == 2
    found = await director.service.snapshots.find(SnapshotFilter())
    assert {(one.client, one.id) for one in found} == {("web1", honest.id), ("web3", own.id)}


@in_loop
async def test_what_is_forgotten_at_the_maintenance_socket_is_gone_from_the_catalog(
    director, daemon, appliance, open_as
):
    gone = back_up(open_as(daemon.agent("web1")), FILES, host="web1")
    kept = back_up(appliance, FILES, host="web3")
    await director.open()
    context = director.service.context
    await context.with_repository(rebuild_catalog, context, "main")
    forget(appliance, [gone], ForgetOptions(snapshot_ids=(gone.id,)), NullProgress())
    unordered = back_up(open_as(daemon.agent("web1")), FILES, host="web1")
    result = await context.with_repository(reconcile, context, "main")
    assert (result.gone, result.entered) == ((gone.id,), ())
    assert list(result.refused) == [unordered.id]
    found = await director.service.snapshots.find(SnapshotFilter())
    assert [one.id for one in found] == [kept.id]


def test_false_snapshots_push_no_true_one_out(daemon, appliance, open_as):
    honest = back_up(open_as(daemon.agent("web1")), FILES)
    liar = pretending(open_as(daemon.agent("web2")), "web1")
    for _ in range(2):
        back_up(liar, FILES)
    assert len(list(appliance.store.list("snapshots"))) == 3
    options = ForgetOptions(rules=RetentionRules(last=1), group_by=("host",))
    report = forget(appliance, appliance.snapshots(), options, NullProgress())
    assert report.removed_count == 0
    assert honest.id in {one.id for one in appliance.snapshots()}


def test_who_stored_what_is_told_to_the_appliance_only(daemon, appliance, open_as):
    snapshot = back_up(open_as(daemon.agent("web1")), FILES, host="web1")
    assert daemon.local().owners("snapshots") == {snapshot.id: {"web1"}}
    with pytest.raises(RightError):
        daemon.agent("web2").owners("snapshots")


@pytest.mark.parametrize("forged_ns", [1, START_NS * 2])
@in_loop
async def test_when_a_snapshot_came_is_not_for_its_agent_to_say(
    director, daemon, appliance, open_as, forged_ns
):
    agent = open_as(daemon.agent("web1"))
    backup = TinyBackup(agent)
    now_ns, run_id = clock.now_ns(), new_run_id()
    forged = write_snapshot(
        agent.store,
        agent.key,
        Snapshot(
            host="web1",
            job="nightly",
            start_ns=now_ns,
            server_ns=forged_ns,
            tags=(f"run={run_id}",),
        ),
        agent.cipher,
    )
    backup.abandon()
    await director.open()
    context = director.service.context
    run = Run(
        id=run_id,
        job="nightly",
        client="web1",
        storage="main",
        pool="Default",
        kind="backup",
        started_ns=now_ns - HOUR_NS,
    )
    ended = RunEnded(
        run_id=run.id, sequence=2, time_ns=now_ns, status="done", exit_code=0, snapshot=forged.id
    )
    confirmed = await context.with_repository(confirm_snapshot, context, run, ended)
    assert run.started_ns <= confirmed.record.server_ns <= clock.now_ns()
    assert add_snapshots(context.catalog, [confirmed.record]) == 1
