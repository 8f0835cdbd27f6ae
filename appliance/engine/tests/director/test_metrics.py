"""Figures of the director that alerts and dashboards hang on."""

from __future__ import annotations

import pytest

from kit.director_in_process import OPERATOR, client, in_loop, job
from kit.director_with_repositories import Place
from kit.virtual_time import ShiftedTime
from strongroom.director.snapshots.reconciliation import Reconciler


async def figures(director) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        one.name.removeprefix("strongroom_"): {
            tuple(labels.values()): value for labels, value in one.samples
        }
        for one in await director.service.queries.metrics()
    }


@in_loop
async def test_errors_of_backups_are_counted_from_zero_on(director):
    agent = await director.with_agent(client("web1") + job("nightly") + job("other"))
    counted = (await figures(director))["backup_errors_total"]
    assert counted == {("nightly", "web1"): 0, ("other", "web1"): 0}
    for number, status in ((1, "incomplete"), (2, "failed"), (3, "done")):
        run = await director.start("nightly")
        problems = {"incomplete": 3, "failed": 2, "done": 0}[status]
        summary = {"files": 9, "size_bytes": 100, "stored_bytes": 10, "problems": problems}
        director.time.pass_by(60)
        await director.end(agent, run.id, status, snapshot=f"{number:064x}", summary=summary)
    found = await figures(director)
    assert found["backup_errors_total"] == {("nightly", "web1"): 5, ("other", "web1"): 0}
    assert found["backup_errors"] == {("nightly", "web1"): 0}


@in_loop
async def test_runs_of_one_job_at_once_are_one_series(director):
    agent = await director.with_agent(
        client("web1", "Maximum Concurrent Jobs = 5")
        + job("nightly", more="Maximum Concurrent Jobs = 5; Allow Duplicate Jobs = yes")
    )
    for number in (1, 2):
        run = await director.start("nightly")
        spent = {"read": 2.0, "store": number, "of an enemy": 1.0, "wait": -1.0}
        await agent.progress(run.id, bytes=100, stage_seconds=spent, queued_blocks=number)
    found = await figures(director)
    of = ("nightly", "web1", "backup")
    assert found["director_run_bytes"] == {of: 200}
    assert found["director_run_queued_blocks"] == {of: 3}
    assert found["director_run_stage_seconds_total"] == {(*of, "read"): 4, (*of, "store"): 3}


@in_loop
async def test_there_are_as_many_series_as_jobs_however_many_runs_there_were(director):
    names = [f"web{number}" for number in range(40)]
    await director.open("".join(client(name) + job(f"nightly-{name}", name) for name in names))
    counts = []
    for _ in range(2):
        for name in names:
            agent = await director.agent(name)
            run = await director.start(f"nightly-{name}")
            director.time.pass_by(60)
            await director.end(agent, run.id, "done", summary={"stage_seconds": {"read": 1.5}})
        found = await figures(director)
        counts.append(sum(map(len, found.values())))
    assert counts[0] == counts[1]
    assert counts[0] < 40 * 40
    # No one is notified forever of a job that is gone.
    director.configure(client("web0") + job("nightly-web0", "web0"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    assert set((await figures(director))["backup_last_run_status"]) == {("nightly-web0", "web0")}


@pytest.fixture
def place(tmp_path, monkeypatch):
    return Place(tmp_path, ShiftedTime(monkeypatch))


def test_deduplication_is_told_once_the_repository_was_looked_at(place):
    @in_loop
    async def whole(director):
        agent = await director.with_agent(client("web1") + job("nightly"))
        await director.back_up(agent)
        assert (await figures(director))["repository_dedup_ratio"] == {}
        context = director.service.context
        reconciler = Reconciler(context)
        await context.with_repository(reconciler.reconcile, "main")
        once = await figures(director)
        packs = sum(
            path.stat().st_size
            for path in (director.folder / "main" / "packs").rglob("*")
            if path.is_file()
        )
        assert once["repository_stored_bytes"] == {("main",): packs}
        size = once["repository_snapshot_bytes"]["main",]
        assert size == 20 * 2000 + 1
        assert once["repository_dedup_ratio"]["main",] == pytest.approx(size / packs)
        await director.back_up(agent)
        await context.with_repository(reconciler.reconcile, "main")
        twice = await figures(director)
        assert twice["repository_snapshot_bytes"]["main",] == 2 * size
        assert twice["repository_dedup_ratio"]["main",] > 1.5 * size / packs

    whole(director=place)
