"""Old runs, entries of removed snapshots and tokens go; what rules and notices go by stays."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit import director_in_process as kit
from kit.director_in_process import OPERATOR, in_loop, job
from strongroom.director.catalog.access import create_token, list_tokens
from strongroom.director.catalog.database import Catalog, open_catalog
from strongroom.director.catalog.runs import NewLine, add_run, find_runs, log_lines, new_run_id
from strongroom.director.catalog.snapshots import (
    GONE,
    add_snapshots,
    known_snapshots,
    missed_snapshots,
    newest_snapshot,
    note_removed,
)
from strongroom.director.catalog.upkeep import (
    remove_old_runs,
    remove_old_snapshots,
    remove_old_tokens,
)
from strongroom.director.results.runs import Run, RunFilter
from strongroom.director.results.snapshots import Snapshot
from strongroom.service.log_lines import DailyLog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    made = open_catalog(f"sqlite:///{tmp_path}/c.sqlite")
    yield made
    made.close()


def make_run(number: int, **fields: Any) -> Run:
    times = {"scheduled_ns": number, "ended_ns": number}
    return Run(**{"id": new_run_id(), "job": "nightly", "kind": "backup", **times, **fields})


def make_snapshot(number: int, **fields: Any) -> Snapshot:
    names = {"client": "web1", "job": "nightly", "storage": "main", "level": "incremental"}
    times = {"server_ns": number, "start_ns": number}
    return Snapshot(**{"id": f"{number:064x}", **names, **times, **fields})


def numbers(catalog: Catalog) -> list[int]:
    return sorted(int(name, 16) for name in known_snapshots(catalog))


def test_old_runs_go_but_not_those_whose_snapshot_is_there(catalog):
    gone = add_run(catalog, make_run(4, state="failed"), [NewLine(1, "error", "no")])
    kept = [
        add_run(catalog, make_run(5, state="failed")),
        add_run(catalog, make_run(5, state="done", snapshot=f"{1:064x}")),
        add_run(catalog, make_run(50, state="done")),
        add_run(catalog, make_run(5, state="running", ended_ns=0)),
    ]
    add_snapshots(catalog, [make_snapshot(1, run=kept[1].id)])
    assert remove_old_runs(catalog, 10) == 1
    assert log_lines(catalog, gone.id) == []
    assert {one.id for one in find_runs(catalog, RunFilter())} == {one.id for one in kept}


def test_the_newest_run_of_each_state_stays_however_old_it_is(catalog):
    for client in ("web1", "web2"):
        for number in (1, 2, 3):
            for state in ("done", "failed"):
                add_run(catalog, make_run(number, client=client, state=state))
    assert remove_old_runs(catalog, 100) == 8
    left = {(one.client, one.state, one.scheduled_ns) for one in find_runs(catalog, RunFilter())}
    assert left == {(name, state, 3) for name in ("web1", "web2") for state in ("done", "failed")}


def test_entries_of_snapshots_go_once_they_were_removed_long_ago(catalog):
    add_snapshots(catalog, [make_snapshot(number) for number in range(1, 7)])
    note_removed(catalog, [f"{number:064x}" for number in (1, 2, 3)], 10, "retention")
    note_removed(catalog, [f"{4:064x}"], 30, "retention")
    assert remove_old_snapshots(catalog, 20) == 3
    assert numbers(catalog) == [4, 5, 6]


def test_the_last_full_snapshot_is_known_though_it_was_removed(catalog):
    full = [make_snapshot(number, level="full") for number in (1, 2)]
    add_snapshots(catalog, [*full, make_snapshot(3)])
    note_removed(catalog, [one.id for one in full], 10, "retention")
    assert remove_old_snapshots(catalog, 100) == 1
    found = newest_snapshot(catalog, job="nightly", client="web1", levels=["full"],
                            with_removed=True)  # fmt: skip
    assert found is not None
    assert found.id == full[1].id


def test_a_snapshot_that_is_missed_stays_known(catalog):
    add_snapshots(catalog, [make_snapshot(1), make_snapshot(2), make_snapshot(3)])
    note_removed(catalog, [f"{number:064x}" for number in (1, 2)], 10, GONE)
    note_removed(catalog, [f"{3:064x}"], 10, "retention")
    missed = missed_snapshots(catalog)
    assert remove_old_snapshots(catalog, 100) == 1
    assert missed_snapshots(catalog) == missed != []


def test_entries_of_copies_go_with_the_last_of_the_same_backup(catalog):
    copies = [make_snapshot(number, original=f"{1:064x}") for number in (10, 11)]
    add_snapshots(catalog, [make_snapshot(1), *copies, make_snapshot(2)])
    note_removed(catalog, [f"{10:064x}"], 10, "retention")
    # Without it, the backup would be copied again, only to be removed again.
    assert remove_old_snapshots(catalog, 100) == 0
    note_removed(catalog, [f"{1:064x}"], 10, "retention")
    assert remove_old_snapshots(catalog, 100) == 1
    assert numbers(catalog) == [2, 10, 11]
    note_removed(catalog, [f"{11:064x}"], 10, "retention")
    assert remove_old_snapshots(catalog, 100) == 2
    assert numbers(catalog) == [2]


def test_tokens_go_once_they_have_ended_but_for_the_last_of_each_name_and_profile(catalog):
    gone = [create_token(catalog, "ci", "", number)[0].id for number in (1, 2)]
    kept = [
        create_token(catalog, "ci", "", 3)[0].id,
        create_token(catalog, "ci", "operator", 1)[0].id,
        create_token(catalog, "ann", "", 15)[0].id,
        create_token(catalog, "ann", "", 0)[0].id,
    ]
    assert remove_old_tokens(catalog, 10) == len(gone)
    assert {one.id for one in list_tokens(catalog)} == set(kept)


@in_loop
async def test_tokens_that_a_program_makes_every_hour_do_not_heap_up(director):
    told = DailyLog(logging.getLogger(__name__))
    await director.with_agent(kit.client("web1") + job("nightly"))
    for _ in range(90 * 4):
        await director.service.commands.create_token("ci", "operator", 900, OPERATOR)
        director.time.pass_by(6 * 3600)
    await director.service.hourly(told)
    assert len(list_tokens(director.service.context.catalog)) == 30 * 4


@in_loop
async def test_old_runs_go_by_themselves_unless_a_job_says_when(director):
    told = DailyLog(logging.getLogger(__name__))
    agent = await director.with_agent(kit.client("web1") + job("nightly"))
    for number in range(3):
        run = await director.start("nightly")
        await agent.start(run.id)
        await director.end(agent, run.id, "failed", error_id="store", error=str(number))
        director.time.pass_by(86400)
    director.time.pass_by(400 * 86400)
    expiring = """Job { Name = tidy; Type = Admin; Client = web1; FileSet = Home; Storage = main
      Pool = Default; Messages = Standard
      RunScript { RunsWhen = Before; RunsOnClient = no; Console = "expire runs 900" } }"""
    director.configure(kit.client("web1") + job("nightly") + expiring)
    await director.service.commands.reload(OPERATOR)
    await director.service.hourly(told)
    assert len(await director.runs()) == 3
    director.configure(kit.client("web1") + job("nightly"))
    await director.service.commands.reload(OPERATOR)
    await director.service.hourly(told)
    # The newest says how the job is.
    assert len(await director.runs()) == 1
