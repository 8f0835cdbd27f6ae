"""The catalog follows a repository that others change too."""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest

from kit.director_in_process import OPERATOR, client, in_loop, job
from kit.director_with_repositories import ADMIN, Place, rebuild_catalog
from kit.virtual_time import ShiftedTime
from strongroom.base import clock
from strongroom.base.errors import CatalogUnavailableError, StoreError
from strongroom.director import director as director_module
from strongroom.director.catalog.access import list_audit
from strongroom.director.catalog.clients import generation_of
from strongroom.director.catalog.runs import add_run, change_run, new_run_id
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import SnapshotFilter
from strongroom.director.runs.retention import apply_retention
from strongroom.director.snapshots.reconciliation import Reconciler
from strongroom.engine.repository.snapshots import Snapshot

NIGHTLY = client("web1") + job("nightly")


@pytest.fixture
def director(tmp_path, monkeypatch):
    return Place(tmp_path, ShiftedTime(monkeypatch))


async def ids(director, **wanted) -> set[str]:
    return {one.id for one in await director.service.snapshots.find(SnapshotFilter(**wanted))}


def reconcile(director):
    context = director.service.context
    return context.with_repository(Reconciler(context).reconcile, "main")


def made_there(director, name: str = "main", **fields) -> str:
    """A snapshot made without the director, of nothing."""
    fields = {"host": "web1", "job": "nightly", "paths": (b"/home",)} | fields
    repository = director.repository(name)
    repository = repository.for_client(fields["host"], fields.get("generation", 0))
    lease = repository.lease("host", os.getpid(), "backup")
    try:
        return repository.commit(Snapshot(**fields), lease).id
    finally:
        lease.end()
        repository.close()


async def backed_up(director, agent) -> str:
    """A snapshot made by a run."""
    run = await director.start("nightly")
    await agent.start(run.id)
    made = made_there(director, tags=agent.order().tags)
    await director.end(agent, run.id, snapshot=made)
    assert await director.state(run.id) == "done"
    return made


def forget_there(director, snapshot: str) -> None:
    repository = director.repository()
    repository.store.delete("snapshots", snapshot)
    repository.close()


@in_loop
async def test_a_snapshot_that_others_forgot_is_marked_as_gone_at_the_next_prune(director, caplog):
    agent = await director.with_agent(NIGHTLY + ADMIN % 'Console = "prune"')
    gone, kept = [await backed_up(director, agent) for _ in range(2)]
    director.command("forget", gone)
    assert await ids(director) == {gone, kept}
    run = await director.start("admin")
    assert (run.state, run.error) == ("done", "")
    assert await ids(director) == {kept}
    found = await director.service.snapshots.get(gone)
    assert found.removed_ns
    assert gone[:8] in await director.texts(run.id)
    assert any(gone in line and "nightly" in line and "web1" in line for line in caplog.messages)
    entry = list_audit(director.service.context.catalog, limit=1)[0]
    assert (entry.action, entry.object, entry.result) == ("reconcile", "main", "1 gone")


@in_loop
async def test_a_catalog_that_agrees_says_nothing(director):
    agent = await director.with_agent(NIGHTLY)
    await backed_up(director, agent)
    result = await reconcile(director)
    assert not result
    assert result.lines() == []
    assert list_audit(director.service.context.catalog, limit=9) == [
        one for one in list_audit(director.service.context.catalog) if one.action == "run"
    ]


@in_loop
async def test_a_snapshot_that_comes_back_is_there_again(director):
    agent = await director.with_agent(NIGHTLY)
    away, forgotten, kept = [await backed_up(director, agent) for _ in range(3)]
    await director.service.commands.forget_snapshot(forgotten, OPERATOR)
    place = next(path for path in (director.folder / "main").rglob(away))
    place.rename(director.folder / "away")
    result = await reconcile(director)
    assert (result.gone, result.returned, result.entered) == ((away,), (), ())
    assert await ids(director) == {kept}
    (director.folder / "away").rename(place)
    result = await reconcile(director)
    assert (result.gone, result.returned, result.entered) == ((), (away,), ())
    assert await ids(director) == {away, kept}
    assert not (await director.service.snapshots.get(away)).removed_ns


@in_loop
async def test_a_snapshot_that_another_console_made_is_entered(director):
    await director.open(NIGHTLY)
    made = made_there(director)
    result = await reconcile(director)
    assert result.entered == (made,)
    found = await director.service.snapshots.get(made)
    assert (found.client, found.job, found.pool, found.files) == ("web1", "nightly", "Default", 0)
    assert "1 snapshot added" in " ".join(text for _, text in result.lines())


@in_loop
async def test_what_a_run_under_way_has_made_is_left_to_it(director):
    agent = await director.with_agent(NIGHTLY)
    run = await director.start("nightly")
    order = agent.order()
    made = made_there(director, tags=order.tags)
    assert not await reconcile(director)
    # The agent lost its journal, so the run fails; what it made is not lost.
    agent.lose_journal()
    await agent.start(run.id)
    await agent.disconnect()
    agent.lose_journal()
    await agent.connect()
    await director.settle()
    assert await director.state(run.id) == "failed"
    assert (await reconcile(director)).entered == (made,)
    found = await director.service.snapshots.get(made)
    assert (found.run, found.level) == (run.id, "full")
    # As if the run had ended well: the FileSet is known, so the next one is not full.
    await director.start("nightly")
    assert (agent.order().level, agent.order().parent) == ("incremental", made)


class StoredBy:
    """Who stored what, as a storage daemon tells; a plain folder does not know."""

    def __init__(self, director, monkeypatch, owners: dict[str, set[str]]) -> None:
        repositories = director.service.context.repositories
        opened = repositories.open

        def open_and_ask(storage):
            repository = opened(storage)
            repository.store.owners = {"snapshots": owners}.__getitem__
            return repository

        monkeypatch.setattr(repositories, "open", open_and_ask)


@in_loop
async def test_an_agent_enters_nothing_without_a_run_of_its_own(director, monkeypatch, caplog):
    agent = await director.with_agent(NIGHTLY)
    true = await backed_up(director, agent)
    first = (await director.runs())[0]
    loose, reused, other = (
        made_there(director),
        made_there(director, tags=(f"run={first.id}",)),
        made_there(director, host="web2", tags=(f"run={first.id}",)),
    )
    stored_by = {one: {"web1"} for one in (true, loose, reused)} | {other: {"web2"}}
    StoredBy(director, monkeypatch, stored_by)
    context = director.service.context
    reconciler = Reconciler(context)
    result = await context.with_repository(reconciler.reconcile, "main")
    assert set(result.refused) == {loose, reused, other}
    assert result.entered == ()
    assert await ids(director) == {true}
    assert all(
        any(one in line and name in line for line in caplog.messages)
        for one, name in ((loose, "web1"), (reused, "web1"), (other, "web2"))
    )
    # It is said once, and not checked each time.
    assert not await context.with_repository(reconciler.reconcile, "main")
    # A rebuild is requested by somebody who looks, and each is of whom it names.
    count = await context.with_repository(rebuild_catalog, context, "main")
    assert count == 3
    assert await ids(director, client="web1") == {true, loose, reused}
    assert await ids(director) == {true, loose, reused, other}


@in_loop
async def test_a_catalog_put_back_from_an_old_copy_says_what_it_lacks(director, monkeypatch):
    agent = await director.with_agent(NIGHTLY)
    old = await backed_up(director, agent)
    work = director.folder / "work"
    shutil.copytree(work, director.folder / "copy")
    new = [await backed_up(director, agent) for _ in range(2)]
    await director.close()
    shutil.rmtree(work)
    (director.folder / "copy").rename(work)
    await director.open()
    StoredBy(director, monkeypatch, {one: {"web1"} for one in (old, *new)})
    context, notices = director.service.context, director.service.notices
    reconciler = Reconciler(context)

    async def problems() -> list[tuple[str, str]]:
        await notices.reconciled(
            "main", await context.with_repository(reconciler.reconcile, "main")
        )
        await notices.look()
        found = (await director.service.queries.status()).problems
        return [(one.event, one.storage) for one in found]

    for _ in range(2):
        assert await problems() == [("snapshots-unknown", "main")]
    assert await context.with_repository(rebuild_catalog, context, "main") == 2
    assert await problems() == []
    assert await ids(director) == {old, *new}


@in_loop
async def test_a_rebuild_lets_empty_snapshots_displace_none_with_files(director):
    agent = await director.with_agent(NIGHTLY, pool="KeepLast = 1")
    whole = await director.back_up(agent)
    empty = []
    for number in range(2):
        director.time.pass_by(60)
        now_ns = clock.now_ns()
        empty.append(made_there(director, start_ns=now_ns, tags=(f"number={number}",)))
    await director.close()
    shutil.rmtree(director.folder / "work")
    await director.open()
    context = director.service.context
    assert await context.with_repository(rebuild_catalog, context, "main") == 3
    for line in await context.with_repository(
        apply_retention, context, "nightly", "web1", "Default", "main"
    ):
        assert line
    assert whole in await ids(director)


@in_loop
async def test_a_rebuild_knows_that_a_name_became_another_client(director):
    await director.open(NIGHTLY)
    context = director.service.context
    made_there(director)
    made_there(director, generation=3)
    made_there(director, generation=2)
    assert generation_of(context.catalog, "web1") == 0
    assert await context.with_repository(rebuild_catalog, context, "main") == 3
    assert generation_of(context.catalog, "web1") == 3


@pytest.mark.parametrize("table", ["snapshots", "runs"])
def test_one_snapshot_that_cannot_be_entered_keeps_no_other_out(director, caplog, table):
    @in_loop
    async def whole(director):
        await director.open(NIGHTLY)
        context = director.service.context
        made = [made_there(director, tags=(f"run={number:032x}",)) for number in range(3)]
        with context.catalog.writing() as connection:
            named = {"snapshots": made[1], "runs": f"{1:032x}"}[table]
            connection.exec_driver_sql(
                f"CREATE TRIGGER picky BEFORE INSERT ON {table} WHEN NEW.id = '{named}' "
                "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
            )
        call = context.with_repository
        count = await call(rebuild_catalog, context, "main")
        assert (count, await ids(director)) == (2, {made[0], made[2]})
        assert any(made[1] in line and "not this one" in line for line in caplog.messages)
        (entry,) = await context.in_thread(list_audit, context.catalog, 10)
        assert entry.result == "2 entered"

    whole(director=director)


@in_loop
async def test_what_hinders_the_catalog_for_a_while_keeps_no_snapshot_out_for_good(director):
    await director.open(NIGHTLY)
    context = director.service.context
    made = made_there(director)
    reconciler = Reconciler(context)
    with context.catalog.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE snapshots RENAME TO away")
        connection.exec_driver_sql(
            "CREATE VIEW snapshots AS SELECT * FROM away"  # read, and not written
        )
    with pytest.raises(CatalogUnavailableError):
        await context.with_repository(reconciler.reconcile, "main")
    with context.catalog.writing() as connection:
        connection.exec_driver_sql("DROP VIEW snapshots")
        connection.exec_driver_sql("ALTER TABLE away RENAME TO snapshots")
    result = await context.with_repository(reconciler.reconcile, "main")
    assert result.entered == (made,)


@in_loop
async def test_copies_under_way_are_left_to_their_run(director):
    await director.open(NIGHTLY)
    context = director.service.context
    copy = made_there(director, "offsite", original=f"{'0' * 32}:{1:064x}")
    copying = Run(id=new_run_id(), job="copying", kind="copy", state="running")
    add_run(context.catalog, copying)
    reconciler = Reconciler(context)
    assert not await context.with_repository(reconciler.reconcile, "offsite")
    change_run(context.catalog, copying.id, {"state": "failed"})
    result = await context.with_repository(reconciler.reconcile, "offsite")
    assert result.entered == (copy,)
    found = await director.service.snapshots.get(copy)
    assert (found.storage, found.pool) == ("offsite", "Default")


@in_loop
async def test_a_run_that_makes_no_copies_there_leaves_none_out(director):
    await director.open(NIGHTLY, pool="CopyTo = Offsite")
    context = director.service.context
    waiting = Run(id=new_run_id(), job="copying", kind="copy", state="waiting")
    elsewhere = Run(
        id=new_run_id(), job="copy-Default", kind="copy", state="running", pool="Default"
    )
    add_run(context.catalog, waiting)
    add_run(context.catalog, elsewhere)
    copies = {
        name: made_there(director, name, original=f"{'0' * 32}:{1:064x}")
        for name in ("main", "offsite")
    }
    reconciler = Reconciler(context)
    result = await context.with_repository(reconciler.reconcile, "main")
    assert result.entered == (copies["main"],)
    assert not await context.with_repository(reconciler.reconcile, "offsite")


@in_loop
async def test_the_director_looks_by_itself_and_outlives_a_store_that_is_away(
    director, monkeypatch, caplog
):
    monkeypatch.setattr(director_module, "FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(director_module, "RECONCILE_SECONDS", 0.0)
    agent = await director.with_agent(NIGHTLY)
    gone = await backed_up(director, agent)
    forget_there(director, gone)
    seen = asyncio.Event()
    tries = []
    reconcile_once = Reconciler.reconcile
    loop = asyncio.get_running_loop()

    def reconciled(self, storage):
        tries.append(storage)
        if len(tries) == 1:
            raise StoreError("it is unreachable")
        result = reconcile_once(self, storage)
        if storage == "main" and result:
            loop.call_soon_threadsafe(seen.set)
        return result

    monkeypatch.setattr(Reconciler, "reconcile", reconciled)
    await director.service.start()
    await seen.wait()
    assert gone not in await ids(director)
    assert any("it is unreachable" in line for line in caplog.messages)
