"""What follows the end of a run is done, and another attempt is made once, whatever happens."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import contextmanager, suppress

import pytest

from kit.director_in_process import OPERATOR, client, in_loop, job
from strongroom.base.errors import CatalogUnavailableError
from strongroom.director.catalog import database
from strongroom.director.runs.lifecycle import Runs

AGAIN = "RescheduleOnError = yes; RescheduleInterval = 600; RescheduleTimes = 5"


class DyingCatalog:
    """Lets a director write so many times more, and tells when it could write no more."""

    def __init__(self, director, most_writes: int) -> None:
        self.died = asyncio.Event()
        self._left = most_writes
        catalog = director.service.context.catalog
        self._writing = catalog.writing
        self._loop = asyncio.get_running_loop()
        catalog.writing = self.writing

    @contextmanager
    def writing(self):
        self._left -= 1
        if self._left < 0:
            self._loop.call_soon_threadsafe(self.died.set)
            raise CatalogUnavailableError("the director dies here")
        with self._writing() as connection:
            yield connection


async def settled_or_dead(director, catalog: DyingCatalog) -> bool:
    """Whether the director has done all there is to do."""
    done = asyncio.create_task(director.settle())
    died = asyncio.create_task(catalog.died.wait())
    await asyncio.wait((done, died), return_when=asyncio.FIRST_COMPLETED)
    for task in (done, died):
        task.cancel()
    return not catalog.died.is_set()


@in_loop
async def test_a_director_killed_after_a_failed_run_tries_it_again_once(director):
    agent, run = await director.running(AGAIN)
    # Nothing that follows has begun when this returns.
    await agent.end(run.id, "failed", error_id="store", error="no space")
    for _ in range(2):
        await director.restart()
        waiting = await director.runs(states=("waiting", "queued", "running"))
        assert [(one.attempt, one.rescheduled_from) for one in waiting] == [(2, run.id)]
    assert run.id in (director.folder / "reports.log").read_text()


@in_loop
async def test_wherever_a_director_dies_all_that_follows_a_run_is_done(director):
    note = director.folder / "note"
    script = f"""RunScript {{ RunsWhen = After; RunsOnClient = no; RunsOnSuccess = yes
      RunsOnFailure = yes; Command = "sh -c 'echo %i >> {note}'" }}"""
    director.configure(client("web1") + job("nightly", more=AGAIN + "\n" + script))
    most_writes, is_whole = 0, False
    while not is_whole:
        agent = await director.with_agent()
        run = await director.start("nightly")
        catalog = DyingCatalog(director, most_writes)
        with suppress(CatalogUnavailableError):
            await agent.end(run.id, "failed", error_id="store", error="no space")
        is_whole = await settled_or_dead(director, catalog)
        await director.restart()
        await agent.connect(director.service)
        await director.settle()
        assert await director.state(run.id) == "failed"
        again = [one for one in await director.runs() if one.rescheduled_from == run.id]
        assert [one.attempt for one in again] == [2], most_writes
        assert run.id in note.read_text()
        assert run.id in (director.folder / "reports.log").read_text()
        await director.service.commands.cancel(again[0].id, OPERATOR)
        await director.settle()
        await agent.disconnect()
        await director.close()
        most_writes += 1
    # The end, the script's note, the attempt, its line, and the note that all is done.
    assert most_writes > 5
    await director.open()


@in_loop
async def test_a_catalog_that_is_away_for_a_while_loses_no_attempt(director, monkeypatch):
    monkeypatch.setattr("strongroom.director.context.RETRY_SECONDS", 0.0)
    agent, run = await director.running(AGAIN)
    catalog = director.service.context.catalog
    writing, failures = catalog.writing, iter(range(4))

    @contextmanager
    def sometimes():
        # The run's end is written, then nothing for a while.
        if next(failures, 0) in (1, 2, 3):
            raise CatalogUnavailableError("it starts")
        with writing() as connection:
            yield connection

    catalog.writing = sometimes
    await director.end(agent, run.id, "failed", error_id="store", error="no space")
    assert next(failures, None) is None
    waiting = await director.runs(states=("waiting",))
    assert [(one.attempt, one.rescheduled_from) for one in waiting] == [(2, run.id)]


@in_loop
async def test_work_of_the_director_ends_once_the_catalog_takes_its_end(director, monkeypatch):
    monkeypatch.setattr(database, "BUSY_SECONDS", 1)
    monkeypatch.setattr("strongroom.director.context.RETRY_SECONDS", 0.0)
    tidy = 'RunScript { RunsWhen = Before; RunsOnClient = no; Console = "expire runs 400" }'
    await director.open(client("web1") + job("tidy", kind="Admin", more=tidy))
    carry_out, locked = director.service.runs.carry_out, []
    start_run, is_asked = director.service.commands.start_run, asyncio.Event()

    async def asked(*arguments, **named):
        record = await start_run(*arguments, **named)
        is_asked.set()
        return record

    director.service.commands.start_run = asked

    async def carried_out(active, runs):
        outcome = await carry_out(active, runs)
        # Else the audit line of the request could be what the catalog does not take.
        await is_asked.wait()
        other = sqlite3.connect(director.folder / "work" / "catalog.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        locked.append(other)
        return outcome

    director.service.runs.carry_out = carried_out
    tries = []
    end = director.service.runs.end

    async def ended(*arguments, **named):
        try:
            await end(*arguments, **named)
        except CatalogUnavailableError as error:
            tries.append(error)
            locked[0].execute("ROLLBACK")
            raise

    director.service.runs.end = ended
    run = await director.start("tidy")
    locked[0].close()
    assert len(tries) == 1
    assert (run.state, run.error) == ("done", "")


@in_loop
async def test_a_fault_in_what_follows_stops_nothing_else(director, monkeypatch):
    aftermath = director_aftermath_fault(monkeypatch)
    agent, run = await director.running(AGAIN)
    await director.end(agent, run.id, "failed", error_id="store", error="no space")
    assert aftermath == [run.id]
    assert "after its end: by naught" in await director.texts(run.id)
    assert run.id in (director.folder / "reports.log").read_text()
    await director.restart()
    assert aftermath == [run.id]


def director_aftermath_fault(monkeypatch) -> list[str]:
    """Trying again fails; which runs it was tried for."""
    seen: list[str] = []

    submit = Runs.submit

    async def failing(runs, record, *more):
        if not record.rescheduled_from:
            return await submit(runs, record, *more)
        seen.append(record.rescheduled_from)
        raise ZeroDivisionError("by naught")

    monkeypatch.setattr(Runs, "submit", failing)
    return seen


@pytest.mark.parametrize("times", [1, 2])
def test_jobs_that_go_along_are_started_once_though_the_order_is_made_again(director, times):
    @in_loop
    async def whole(director):
        agent = await director.with_agent(
            client("web1", "MaximumConcurrentJobs = 9")
            + job("nightly", more='Run = "other"')
            + job("other")
        )
        run = await director.start("nightly")
        for _ in range(times):
            # The order never arrived, and a new director makes it again.
            agent.lose_journal()
            await director.restart()
            await agent.connect(director.service)
            await director.settle()
        assert run.id in agent.orders
        assert len(await director.runs(job="other")) == 1

    whole(director=director)
