"""Figures of the director that alerts and dashboards hang on."""

from __future__ import annotations

import re

import pytest

from kit.director_in_process import client, in_loop, job
from kit.director_with_repositories import Place
from kit.project import DOCUMENTS
from kit.virtual_time import ShiftedTime
from strongroom.daemons.director.snapshots.reconciliation import Reconciler

DOCUMENTATION = DOCUMENTS / "reference" / "metrics.md"


async def figures(director) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        one.name.removeprefix("strongroom_"): {
            tuple(labels.values()): value for labels, value in one.samples
        }
        for one in await director.service.queries.metrics()
    }


@in_loop
async def test_errors_of_backups_are_counted_from_zero_on(director):
    director.configure(client("web1") + job("nightly") + job("other"))
    await director.open()
    agent = await director.agent("web1")
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
    kinds = {one.name: one.kind for one in await director.service.queries.metrics()}
    assert kinds["strongroom_backup_errors_total"] == "counter"


@in_loop
async def test_every_figure_is_documented(director):
    director.configure(client("web1") + job("nightly"))
    await director.open()
    text = DOCUMENTATION.read_text(encoding="utf-8")
    section = text.partition("## Director")[2].partition("## Storage daemon")[0]
    documented = set(re.findall(r"`([a-z_{},]+)`", section))
    names = {
        one.name.removeprefix("strongroom_") for one in await director.service.queries.metrics()
    }
    assert names - documented == set()


@pytest.fixture
def place(tmp_path, monkeypatch):
    return Place(tmp_path, ShiftedTime(monkeypatch))


def test_deduplication_is_told_once_the_repository_was_looked_at(place):
    @in_loop
    async def whole(director):
        director.configure(client("web1") + job("nightly"))
        await director.open()
        agent = await director.agent("web1")
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
