"""One agent sends lines of log without end, and asks for what it may not."""

from __future__ import annotations

from kit.director_in_process import client, in_loop, job
from strongroom.director.audit_log import ENTRIES_SECONDS
from strongroom.director.results.access import Actor
from strongroom.director.runs import agent_limits
from strongroom.net.control.messages import RunEnded, RunLog, RunStarted
from strongroom.service.log_lines import MOST_A_MINUTE


async def one_run(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    return agent, (await director.start("nightly")).id


async def log(director, run_id):
    """All lines of a run's log."""
    lines = []
    while page := await director.service.queries.log(run_id, len(lines), 1000):
        lines += [line.text for line in page]
    return lines


def line(run_id, sequence, text):
    return RunLog(run_id=run_id, sequence=sequence, time_ns=0, level="info", text=text)


async def send(director, messages):
    for message in messages:
        await director.service.agents.on_message("web1", message)


@in_loop
async def test_lines_that_come_too_fast_are_left_out_and_counted(director):
    agent, run_id = await one_run(director)
    before = len(await log(director, run_id))
    count = 3 * agent_limits.BURST_BYTES // 4096
    for _ in range(count):
        await agent.log(run_id, "x" * 9000)
    kept = await log(director, run_id)
    assert sum(map(len, kept)) < agent_limits.BURST_BYTES + 10_000
    assert max(map(len, kept)) == 4096
    # Every one of them is acknowledged, and the run is as good as any.
    assert agent.unacknowledged == []
    director.time.pass_by(10)
    await agent.log(run_id, "afterwards")
    *_, told, last = await log(director, run_id)
    assert last == "afterwards"
    left_out = count - (len(kept) - before)
    assert told == f"{left_out} more lines like these, which came too fast"
    await director.end(agent, run_id, "failed")
    assert await director.state(run_id) == "failed"


@in_loop
async def test_the_log_of_a_run_has_an_end_and_says_so_once(director, monkeypatch):
    monkeypatch.setattr(agent_limits, "MOST_LINES", 50)
    _, run_id = await one_run(director)
    for n in range(2, 300):
        # As an agent may: the same beginning, over and over, and numbers that are missing.
        await send(director, [RunStarted(run_id=run_id, sequence=2 * n, time_ns=0)])
    lines = await log(director, run_id)
    assert len(lines) <= 52
    assert lines[-1] == "the log of this run is full: further lines are left out"
    assert lines.count(lines[-1]) == 1
    end = {"run_id": run_id, "sequence": 1000, "time_ns": 0, "status": "failed", "exit_code": 1}
    await send(director, [RunEnded(**end)])
    assert (await director.run(run_id)).state == "failed"
    # What the director has to say itself is still said.
    assert len(await log(director, run_id)) > len(lines)


@in_loop
async def test_bytes_of_a_run_have_an_end(director):
    _, run_id = await one_run(director)
    n = 1
    for _ in range(20):
        director.time.pass_by(60)
        batch = range(n + 1, n + 300)
        await send(director, (line(run_id, k, "x" * 4096) for k in batch))
        n = batch[-1]
    lines = await log(director, run_id)
    assert sum(map(len, lines)) < agent_limits.MOST_BYTES + 10_000
    assert lines[-1] == "the log of this run is full: further lines are left out"


@in_loop
async def test_refused_attempts_do_not_fill_the_audit_log(director):
    await one_run(director)
    audit_log, queries = director.service.audit_log, director.service.queries
    attacker = Actor("web1", "agent", "192.0.2.1")
    before = len(await queries.audit_entries(1000, who="ann"))
    for n in range(500):
        await audit_log.record(attacker, "denied", f"GET /{n}", "not-permitted")
    await audit_log.record(Actor("ann", "operator"), "denied", "GET /runs", "not-permitted")
    for _ in range(20):
        await audit_log.record(Actor("ann", "operator"), "run", "nightly")

    async def entries(who):
        return [one.object for one in await queries.audit_entries(1000, who=who)]

    assert len(await entries("web1")) == MOST_A_MINUTE
    # What others did or tried is all there.
    assert len(await entries("ann")) == before + 21
    director.time.pass_by(ENTRIES_SECONDS + 1)
    await audit_log.record_left_out()
    said = await entries("web1")
    assert said[0] == f"{500 - MOST_A_MINUTE} more like these"
    await audit_log.record(attacker, "denied", "GET /again", "not-permitted")
    assert (await entries("web1"))[0] == "GET /again"
