"""Reports of agents that cannot be dealt with: now, or never."""

from __future__ import annotations

import errno
import json
import sqlite3

import pytest

from kit.director_in_process import client, in_loop, job
from strongroom.base.errors import (
    CatalogError,
    CatalogUnavailableError,
    OperatingSystemError,
    ProtocolError,
    StrongroomError,
)
from strongroom.director.catalog import database
from strongroom.director.runs import run_ends
from strongroom.director.runs.agent_limits import Undeliverable, read_undeliverable
from strongroom.net.control.messages import Acknowledge, RunLog
from strongroom.service.log_lines import MOST_A_MINUTE

TWO_JOBS = client("web1", "MaximumConcurrentJobs = 2") + job("first") + job("second")


async def two_runs(director):
    agent = await director.with_agent(TWO_JOBS)
    return agent, [(await director.start(name)).id for name in ("first", "second")]


def spoil_confirmation(monkeypatch, run_id, error):
    """Looking up the snapshot of one run fails."""
    look_up = run_ends.confirm_snapshot

    def spoilt(context, run, message):
        if run.id == run_id:
            raise error
        return look_up(context, run, message)

    monkeypatch.setattr(run_ends, "confirm_snapshot", spoilt)


@in_loop
async def test_an_end_that_is_never_understood_fails_its_run_and_holds_up_no_other(
    director, monkeypatch, caplog
):
    agent, (first, second) = await two_runs(director)
    spoil_confirmation(monkeypatch, first, ZeroDivisionError("by naught"))
    await director.backed_up(agent, first, 1)
    ended = await director.run(first)
    assert (ended.state, ended.error_id) == ("failed", "bug")
    assert "report 2 of the agent (run-ended, done)" in ended.error
    assert "by naught" in ended.error
    assert any(
        all(word in line for word in ("web1", first, "report 2", "run-ended", "by naught"))
        for line in caplog.messages
    )
    assert agent.unacknowledged == []
    await director.backed_up(agent, second, 2)
    assert await director.state(second) == "done"
    await director.restart()
    assert await director.state(first) == "failed"


@in_loop
async def test_a_report_that_is_never_understood_ends_its_run_on_the_agent_too(director):
    agent, (first, second) = await two_runs(director)
    wrong = RunLog(run_id=first, sequence=1, time_ns=(1 << 64) - 1, level="info", text="x")
    await agent.report(wrong)
    await director.settle()
    ended = await director.run(first)
    assert (ended.state, ended.error_id) == ("failed", "protocol")
    assert (agent.cancelled, agent.unacknowledged, agent.refusals) == ([first], [], [])
    # The agent was done before it heard; what it made is not lost.
    snapshot = await director.backed_up(agent, first, 1)
    assert agent.unacknowledged == []
    assert (await director.service.snapshots.get(snapshot)).run == first
    await director.backed_up(agent, second, 2)
    assert await director.state(second) == "done"


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), OperatingSystemError),
        (MemoryError(), OperatingSystemError),
        (CatalogUnavailableError("it starts"), StrongroomError),
    ],
)
def test_what_hinders_for_a_while_keeps_a_report_with_its_agent(director, fault, raised):
    @in_loop
    async def whole(director):
        agent, (first, _) = await two_runs(director)
        await agent.start(first)
        keep = director.service.runs.end

        async def end(*arguments, **named):
            raise fault

        director.service.runs.end = end
        with pytest.raises(raised):
            await director.backed_up(agent, first, 1)
        assert await director.state(first) == "running"
        assert [one.sequence for one in agent.unacknowledged] == [3]
        director.service.runs.end = keep
        await agent.connect()
        await director.settle()
        assert await director.state(first) == "done"
        assert agent.unacknowledged == []

    whole(director=director)


@in_loop
async def test_a_locked_catalog_makes_an_agent_wait(director, monkeypatch):
    monkeypatch.setattr(database, "BUSY_SECONDS", 1)
    agent, (first, _) = await two_runs(director)
    await agent.start(first)
    other = sqlite3.connect(director.folder / "work" / "catalog.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CatalogUnavailableError):
        await agent.end(first, "failed", error="no such device", error_id="source")
    assert len(agent.unacknowledged) == 1
    other.execute("ROLLBACK")
    other.close()
    await agent.connect()
    await director.settle()
    ended = await director.run(first)
    assert (ended.state, ended.error_id) == ("failed", "source")
    assert agent.unacknowledged == []


@in_loop
async def test_a_fault_of_the_catalog_with_one_report_fails_its_run(director):
    agent, (first, _) = await two_runs(director)
    await agent.start(first)
    change = director.service.runs.change

    async def changed(active, changes, lines=()):
        if any("poison" in line.text for line in lines):
            raise CatalogError("the catalog failed: value out of range")
        await change(active, changes, lines)

    director.service.runs.change = changed
    await agent.log(first, "poison")
    await director.settle()
    ended = await director.run(first)
    assert (ended.state, ended.error_id) == ("failed", "catalog")
    assert "value out of range" in ended.error
    assert agent.unacknowledged == []


@in_loop
async def test_a_fault_with_one_run_keeps_no_agent_away(director, monkeypatch, caplog):
    agent, (first, second) = await two_runs(director)
    await agent.disconnect()
    send = director.link.send

    async def sent(client_name, message):
        if isinstance(message, Acknowledge) and message.run_id == first:
            raise ZeroDivisionError("by naught")
        return await send(client_name, message)

    monkeypatch.setattr(director.link, "send", sent)
    await agent.connect()
    assert any(first in line and "web1" in line for line in caplog.messages)
    await director.backed_up(agent, second, 2)
    assert await director.state(second) == "done"


@in_loop
async def test_a_director_that_stops_acknowledges_nothing(director):
    agent, (first, _) = await two_runs(director)
    await agent.start(first)
    await director.service.stop()
    with pytest.raises(CatalogUnavailableError):
        await agent.end(first)
    assert len(agent.unacknowledged) == 1
    director.link.agents.clear()
    await director.open()
    await agent.connect(director.service)
    await director.settle()
    assert await director.state(first) == "done"


@in_loop
async def test_a_report_that_cannot_be_decoded_fails_its_run_and_is_acknowledged(director, caplog):
    agent, (first, second) = await two_runs(director)
    later = {"type": "run-ended", "run_id": first, "sequence": 7, "status": "splendid", "new": []}
    report = read_undeliverable(json.dumps(later))
    assert report is not None
    await director.service.agents.on_undeliverable(
        "web1", report, ProtocolError("status: 'splendid'")
    )
    ended = await director.run(first)
    assert (ended.state, ended.error_id) == ("failed", "protocol")
    assert "report 7 of the agent (run-ended, splendid) cannot be processed" in ended.error
    assert any(first in line and "splendid" in line for line in caplog.messages)
    await director.backed_up(agent, second, 2)
    assert await director.state(second) == "done"


@in_loop
async def test_an_agent_gives_up_no_run_of_another(director):
    await director.with_agent(TWO_JOBS + client("web2"))
    await director.agent("web2")
    run = await director.start("first")
    report = Undeliverable(run.id, 1, "run-ended", "done")
    await director.service.agents.on_undeliverable("web2", report, ProtocolError("no sense"))
    assert await director.state(run.id) == "running"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '{"type":"no-such-message","run_id":"r","sequence":1}',
        '{"type":"run-log","run_id":"r"}',
        '{"type":"run-log","run_id":"","sequence":1}',
        '{"type":"run-log","run_id":"r","sequence":0}',
        '{"type":"run-log","run_id":"r","sequence":9223372036854775807}',
        '{"type":"run-log","run_id":"%s","sequence":1}' % ("r" * 65),
        '{"type":"hello","run_id":"r","sequence":1}',
        b'{"type":"run-log","run_id":"\xff","sequence":1}',
        '{"type":"run-log","run_id":"r","sequence":1,"new":%s}' % ("[" * 50_000 + "]" * 50_000),
    ],
)
def test_what_is_no_report_ends_no_run(text):
    assert read_undeliverable(text) is None


@in_loop
async def test_reports_about_what_is_not_its_own_fill_no_log(director, caplog):
    await director.with_agent(TWO_JOBS)
    log = RunLog(run_id="a" * 32, sequence=1, time_ns=0, level="info", text="x")
    undeliverable = Undeliverable("b" * 32, 1, "run-ended", "done")
    for _ in range(2 * MOST_A_MINUTE):
        await director.service.agents.on_message("web1", log)
        await director.service.agents.on_undeliverable(
            "web1", undeliverable, ProtocolError("no sense")
        )
    lines = [line for line in caplog.messages if "not its own" in line or "no sense" in line]
    assert len(lines) == MOST_A_MINUTE
