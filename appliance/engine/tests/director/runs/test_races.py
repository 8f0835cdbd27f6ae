"""Runs that end while others are being started, and faults that must not stop the director."""

import asyncio
import socket
import threading
from contextlib import suppress

import pytest

from kit.director_in_process import (
    OPERATOR,
    START_NS,
    TestDirector,
    client,
    in_loop,
    job,
)
from kit.virtual_time import VirtualTime
from strongroom.base.errors import CatalogError
from strongroom.director.catalog.snapshots import add_snapshots
from strongroom.director.context import THREADS
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.schedule import scheduler as scheduling

TWO_JOBS = client("web1") + client("web2") + job("first", "web1") + job("second", "web2")


@pytest.fixture
def director(tmp_path, monkeypatch):
    return TestDirector(tmp_path, VirtualTime(monkeypatch, START_NS))


def at_the_first_start(director, happens):
    """Have something happen just before the first run that is begun is written as running."""
    runs = director.service.runs
    change = runs.change

    async def changed(active, changes, lines=()):
        if changes.get("state") == "running":
            runs.change = change
            await happens(active)
        await change(active, changes, lines)

    runs.change = changed


async def two_runs(director):
    """Two runs that may start as soon as their agents are back."""
    await director.open(TWO_JOBS)
    agents = [await director.agent(name) for name in ("web1", "web2")]
    for agent in agents:
        await agent.disconnect()
    ids = [(await director.start(name)).id for name in ("first", "second")]
    for agent in agents:
        director.link.agents[agent.name] = agent
    return agents, ids


@in_loop
async def test_a_run_may_be_cancelled_while_another_is_started(director):
    _, ids = await two_runs(director)

    async def other_is_cancelled(active):
        (other,) = set(ids) - {active.record.id}
        await director.service.commands.cancel(other, OPERATOR)

    at_the_first_start(director, other_is_cancelled)
    await director.service.runs.dispatch()
    await director.settle()
    assert sorted([await director.state(one) for one in ids]) == ["cancelled", "running"]


@in_loop
async def test_a_run_that_is_cancelled_while_it_starts_keeps_no_other_from_starting(director):
    agents, ids = await two_runs(director)

    async def it_is_cancelled(active):
        await director.service.commands.cancel(active.record.id, OPERATOR)

    at_the_first_start(director, it_is_cancelled)
    await director.service.runs.dispatch()
    await director.settle()
    assert sorted([await director.state(one) for one in ids]) == ["cancelled", "running"]
    assert sum(len(agent.given) for agent in agents) == 1


@in_loop
async def test_the_scheduler_survives_a_fault(director, monkeypatch):
    await director.open(TWO_JOBS)
    scheduler = director.service.scheduler
    faults = 0
    tick = scheduler.tick
    done = asyncio.Event()

    async def faulty():
        nonlocal faults
        faults += 1
        if faults == 1:
            raise KeyError("a fault of ours")
        await tick()
        done.set()

    monkeypatch.setattr(scheduler, "tick", faulty)
    task = asyncio.create_task(scheduler.run())
    try:
        while not done.is_set():
            assert not task.done(), task.exception()
            scheduler.wake()
            await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.wait((task,))


@in_loop
async def test_what_the_catalog_does_not_answer_is_not_tried_without_a_pause(director, monkeypatch):
    schedule = "Schedule { Name = often; Run = Full daily at 12:05; }\n"
    await director.open(schedule + client("web1") + job("first", "web1", "Schedule = often"))
    director.time.pass_by(600)
    scheduler = director.service.scheduler
    tries = 0

    def failing(*_):
        nonlocal tries
        tries += 1
        raise CatalogError("the disk is full")

    # Nothing is seen as started then, so the run stays due.
    monkeypatch.setattr(scheduling, "find_runs", failing)
    task = asyncio.create_task(scheduler.run())
    await until(lambda: tries)
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.wait((task,))
    # Something else may ring for one more; without a pause there are dozens.
    assert tries < 5


async def until(settled):
    while not settled():  # noqa: ASYNC110 - a thread settles it
        await asyncio.sleep(0.01)


class SilentStorage:
    """A storage daemon's socket where no one ever answers."""

    def __init__(self, path):
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(256)
        self.connections = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                self.connections.append(self._listening.accept()[0])

    def close(self):
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self.connections:
            one.close()


@in_loop
async def test_a_storage_daemon_that_hangs_does_not_stop_the_director(director, tmp_path):
    place = tmp_path / "storage.sock"
    storage = SilentStorage(place)
    agent = await director.with_agent(TWO_JOBS, storage=f'Repository = "unix:{place}"')
    service = director.service
    records = [
        Snapshot(id=f"{number:064x}", client="web1", job="first", storage="main")
        for number in range(1, 2 * THREADS + 1)
    ]
    add_snapshots(service.context.catalog, records)
    looking = [asyncio.create_task(service.snapshots.list_files(record.id)) for record in records]
    try:
        await until(lambda: len(storage.connections) >= THREADS)
        run = await asyncio.wait_for(director.queue("first"), 10)
        await until(lambda: agent.given)
        assert agent.given == [run.id]
    finally:
        storage.close()
        await asyncio.gather(*looking, return_exceptions=True)
