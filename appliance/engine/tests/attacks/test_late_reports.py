"""A compromised agent reports more snapshots than it was told to make, so that good ones go."""

import asyncio
import threading

import pytest

from kit.director_in_process import OPERATOR, TestDirector, client, in_loop, job
from kit.director_with_repositories import rebuild_catalog
from kit.tiny_backup import PASSPHRASE
from kit.virtual_time import ShiftedTime
from strongroom.director.results.snapshots import SnapshotFilter
from strongroom.director.snapshots.reconciliation import reconcile
from strongroom.engine.repository.snapshots import Snapshot, Totals, write_snapshot

JOBS = client("web1") + job("nightly") + job("other")
WEEK_SECONDS = 7 * 86400


@pytest.fixture
def director(tmp_path, monkeypatch, daemon):
    (tmp_path / "passphrase").write_bytes(PASSPHRASE + b"\n")
    (tmp_path / "passphrase").chmod(0o600)
    made = TestDirector(tmp_path, ShiftedTime(monkeypatch))
    made.configure(
        JOBS,
        pool="KeepLast = 2",
        storage=reached(tmp_path, daemon.socket_path),
    )
    return made


def reached(folder, socket_path):
    return f'Repository = "unix:{socket_path}"; PassphraseFile = "{folder}/passphrase"'


@pytest.fixture
def store(daemon, open_as):
    """Stores a snapshot as the agent of web1; its id."""
    repository = open_as(daemon.agent("web1"))

    def store(run_id, **fields):
        tags = (f"run={run_id}", "pool=Default") if run_id else ()
        whole = {"host": "web1", "job": "nightly", "tags": tags, "paths": (b"/home",)} | fields
        with repository.lease("web1", 1, "backup") as lease:
            whole = {"server_ns": lease.store_time_ns, "start_ns": lease.store_time_ns} | whole
            snapshot = Snapshot(**whole)
            return write_snapshot(repository.store, repository.key, snapshot, repository.cipher).id

    return store


async def entered(director):
    return {one.id for one in await director.service.snapshots.find(SnapshotFilter())}


async def backed_up(director, agent, store):
    run = await director.start("nightly")
    await agent.start(run.id)
    made = store(run.id)
    await director.end(agent, run.id, snapshot=made)
    assert await director.state(run.id) == "done"
    return run.id, made


async def compared(director):
    context = director.service.context
    return await context.with_repository(reconcile, context, "main")


@in_loop
async def test_a_run_that_is_done_gets_no_further_snapshots(director, store, daemon):
    agent = await director.with_agent()
    run_id, good = await backed_up(director, agent, store)
    for number in range(3):
        await director.end(agent, run_id, snapshot=store(run_id, start_ns=number + 1))
    assert not agent.unacknowledged
    assert await entered(director) == {good}
    # Nor do they come in by the comparison with the repository.
    assert not (await compared(director)).entered
    # So the next backup pushes out none that is good.
    _, newer = await backed_up(director, agent, store)
    assert await entered(director) == {good, newer}


@pytest.mark.parametrize("status", ["failed", "cancelled"])
@in_loop
async def test_a_run_that_its_agent_called_failed_gets_none_later(director, store, status):
    agent = await director.with_agent()
    run = await director.start("nightly")
    await agent.start(run.id)
    await director.end(agent, run.id, status)
    await director.end(agent, run.id, snapshot=store(run.id))
    result = await compared(director)
    assert (result.entered, len(result.refused)) == ((), 1)
    assert await entered(director) == set()


@pytest.mark.parametrize("comes_back", [True, False])
@in_loop
async def test_a_run_that_was_given_up_gets_one_snapshot_and_no_second(director, store, comes_back):
    agent = await director.with_agent()
    run = await director.start("nightly")
    await agent.start(run.id)
    await agent.disconnect()
    await director.go(WEEK_SECONDS)
    assert await director.state(run.id) == "failed"
    made = [store(run.id, start_ns=number + 1) for number in range(3)]
    if comes_back:
        await agent.connect()
        for one in made:
            await director.end(agent, run.id, snapshot=one)
        assert await entered(director) == {made[0]}
        assert not (await compared(director)).entered
    else:
        result = await compared(director)
        assert (len(result.entered), len(result.refused)) == (1, 2)
        assert not (await compared(director)).entered
    assert len(await entered(director)) == 1
    assert (await director.run(run.id)).snapshot in await entered(director)
    assert "entered after it had ended" in await director.texts(run.id)


@in_loop
async def test_a_cancelled_run_that_its_agent_never_confirmed_gets_its_snapshot(director, store):
    agent = await director.with_agent()
    run = await director.start("nightly")
    await agent.start(run.id)
    await director.service.commands.cancel(run.id, OPERATOR)
    await director.go(60)
    assert await director.state(run.id) == "cancelled"
    made = store(run.id)
    await director.end(agent, run.id, snapshot=made)
    assert await entered(director) == {made}


@pytest.mark.parametrize("given_up", [True, False])
@pytest.mark.parametrize(
    "forged",
    [
        {"tags": ()},
        {"tags": ("run=" + "0" * 32,)},
        {"tags": ("OTHER",)},
        {"tags": ("OTHER", "RUN")},
        {"tags": ("RUN", "OTHER")},
        {"job": "other"},
        {"original": "0" * 32 + ":" + "1" * 64},
        {"totals": Totals(files=(1 << 63) - 1)},
        {"totals": Totals(content_bytes=-1)},
        {"totals": Totals(stored_bytes=1 << 62)},
    ],
)
def test_a_snapshot_is_not_entered_for_another_run_or_with_impossible_totals(
    tmp_path, director, store, given_up, forged
):
    @in_loop
    async def whole(director):
        agent = await director.with_agent()
        other, good = await backed_up(director, agent, store)
        run = await director.start("nightly")
        await agent.start(run.id)
        fields = dict(forged)
        if "tags" in fields:
            named = {"OTHER": f"run={other}", "RUN": f"run={run.id}"}
            fields["tags"] = tuple(named.get(one, one) for one in fields["tags"])
        made = store(run.id, **fields)
        if given_up:
            await agent.disconnect()
            await director.go(WEEK_SECONDS)
            await agent.connect()
        await director.end(agent, run.id, snapshot=made)
        ended = await director.run(run.id)
        assert (ended.state, ended.snapshot) == ("failed", "")
        assert made in (await compared(director)).refused
        assert await entered(director) == {good}

    whole(director=director)


@in_loop
async def test_nothing_is_entered_while_nobody_can_look(director, store, daemon, tmp_path):
    agent = await director.with_agent()
    _, good = await backed_up(director, agent, store)
    director.configure(JOBS, storage=reached(tmp_path, tmp_path / "away"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    run = await director.start("nightly")
    await agent.start(run.id)
    made = store(run.id)
    await director.end(agent, run.id, snapshot=made, summary={"files": 3})
    lost = await director.start("nightly")
    await agent.start(lost.id)
    await director.end(agent, lost.id, snapshot="f" * 64, summary={"files": 3})
    assert "entered when catalog and repository are compared" in await director.texts(run.id)
    assert await entered(director) == {good}
    director.configure(JOBS, storage=reached(tmp_path, daemon.socket_path))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    assert (await compared(director)).entered == (made,)
    assert await entered(director) == {good, made}


@in_loop
async def test_figures_that_cannot_be_true_are_named_and_not_replaced(director, store):
    agent = await director.with_agent()
    run = await director.start("nightly")
    await agent.start(run.id)
    summary = {"files": -3, "size_bytes": 1 << 63, "stored_bytes": {"a": 1 << 62}, "problems": 2}
    await director.end(agent, run.id, snapshot=store(run.id), summary=summary)
    texts = await director.texts(run.id)
    for name in ("files", "size_bytes", "stored_bytes"):
        assert f"the agent's summary is false: {name}" in texts
    assert "problems" not in texts
    assert (await director.run(run.id)).errors == 2


@in_loop
async def test_a_rebuild_refuses_impossible_totals_too(director, store, appliance):
    await director.open()
    false = store("", totals=Totals(files=(1 << 63) - 1))
    late = store("", start_ns=-5)
    good = store("")
    context = director.service.context
    assert await context.with_repository(rebuild_catalog, context, "main") == 1
    assert await entered(director) == {good} - {false, late}


@in_loop
async def test_snapshots_of_one_client_occupy_one_walk_however_many_it_reports(director):
    """Walks are few and may take long; an agent that connects again may report another."""
    await director.open()
    context = director.service.context
    begun: list[str] = []
    end = threading.Event()

    def walk(name: str) -> None:
        begun.append(name)
        if name.startswith("web1"):
            end.wait(60)

    mine = [
        asyncio.create_task(context.in_walk("web1", walk, f"web1 {number}")) for number in range(9)
    ]
    try:
        while not begun:  # noqa: ASYNC110 - a thread begins it
            await asyncio.sleep(0.01)
        await context.in_walk("web2", walk, "web2")
        assert sorted(begun) == ["web1 0", "web2"]
    finally:
        end.set()
    await asyncio.gather(*mine)
    assert len(begun) == 10
