"""Schedules start jobs on time, once, whatever became of the director and its clock meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from kit.director_in_process import (
    OPERATOR,
    SECOND_NS,
    START_NS,
    TestDirector,
    client,
    in_loop,
    job,
)
from kit.virtual_time import ShiftedTime
from strongroom.director.clock_guard import HOLD_SECONDS, ClockGuard
from strongroom.director.runs import lifecycle as life_of_runs
from strongroom.director.schedule import due_times, scheduler

HOUR = 3600
DAY = 24 * HOUR
SECOND = """Pool { Name = Second; Storage = second }
Storage { Name = second; Address = 192.0.2.4; Password = "x"; Device = d; MediaType = File }
"""
NIGHTLY = "Schedule { Name = Nightly; Run = Incremental daily at 2:00; }\n"


def due_hours(runs) -> list[float]:
    return sorted((run.scheduled_ns - START_NS) / SECOND_NS / HOUR for run in runs)


@in_loop
async def test_a_job_is_started_when_it_is_due(director):
    await director.open(NIGHTLY + client("web1") + job("nightly", more="Schedule = Nightly"))
    await director.go(14 * HOUR - 60)
    assert await director.runs() == []
    status = await director.service.queries.status()
    assert [one.due_ns for one in status.due] == [START_NS + 14 * HOUR * SECOND_NS]
    assert status.due[0].job == "nightly"
    await director.go(60)
    runs = await director.runs()
    assert due_hours(runs) == [14]
    assert runs[0].requested_by == "schedule Nightly"
    await director.go(60)
    assert len(await director.runs()) == 1


@in_loop
async def test_the_scheduler_runs_by_itself(director):
    await director.open(NIGHTLY + client("web1") + job("nightly", more="Schedule = Nightly"))
    await director.service.start()
    director.time.pass_by(14 * HOUR)
    director.service.scheduler.wake()
    for _ in range(3000):
        if await director.runs():
            break
    assert due_hours(await director.runs()) == [14]


@pytest.fixture
def sleepy_director(tmp_path, monkeypatch):
    """One with the real clocks, whose scheduler checks them only when there is a reason."""
    monkeypatch.setattr(scheduler, "LONGEST_SLEEP_SECONDS", 3600.0)
    return TestDirector(tmp_path, ShiftedTime(monkeypatch))


async def until_state(director, run_id: str, state: str) -> None:
    async for event in director.service.queries.watch(run_id):
        if event.run is not None and event.run.state == state:
            return
    raise AssertionError(f"it ended, and was never {state}")


@in_loop
async def test_another_attempt_begins_when_its_time_has_come(sleepy_director):
    director = sleepy_director
    again = "RescheduleOnError = yes; RescheduleInterval = 1; RescheduleTimes = 2"
    director.configure(client("web1") + job("nightly", more=again))
    try:
        await director.open()
        await director.service.start()
        await asyncio.sleep(0)
        agent = await director.agent("web1")
        run = await director.start("nightly")
        for attempt in (2, 3):
            await director.end(agent, run.id, "failed", exit_code=30, error_id="store")
            (run,) = await director.runs(states=("waiting", "running"))
            assert run.attempt == attempt
            await until_state(director, run.id, "running")
    finally:
        await director.close()


@in_loop
async def test_an_agent_that_hears_no_cancel_is_given_up_in_time(sleepy_director, monkeypatch):
    monkeypatch.setattr(life_of_runs, "STOP_SECONDS", 0.5)
    director = sleepy_director
    director.configure(client("web1") + job("nightly"))
    try:
        await director.open()
        await director.service.start()
        await director.agent("web1")
        run = await director.start("nightly")
        await director.service.commands.cancel(run.id, OPERATOR)
        await until_state(director, run.id, "cancelled")
    finally:
        await director.close()


@in_loop
async def test_what_was_missed_is_started_once(director):
    await director.open(NIGHTLY + client("web1") + job("nightly", more="Schedule = Nightly"))
    director.time.pass_by(3 * DAY)
    await director.restart()
    await director.go()
    runs = await director.runs()
    assert due_hours(runs) == [14 + 48]
    assert "while the director did not run" in await director.texts(runs[0].id)
    await director.restart()
    await director.go()
    assert len(await director.runs()) == 1


@in_loop
async def test_a_crash_before_the_due_time_is_noted_starts_nothing_twice(director, monkeypatch):

    await director.open(NIGHTLY + client("web1") + job("nightly", more="Schedule = Nightly"))
    noting = scheduler.note_due

    def crash(*_) -> None:
        raise RuntimeError("the power failed")

    monkeypatch.setattr(scheduler, "note_due", crash)
    with pytest.raises(RuntimeError):
        await director.go(15 * HOUR)
    monkeypatch.setattr(scheduler, "note_due", noting)
    await director.restart()
    await director.go()
    assert due_hours(await director.runs()) == [14]


@in_loop
async def test_of_several_that_are_due_the_highest_level_is_started(director):
    text = """Schedule { Name = Mixed
      Run = Incremental mon-sat at 2:00
      Run = Full sun at 2:00
      Run = Differential sun at 3:00; }
    """
    await director.open(text + client("web1") + job("nightly", more="Schedule = Mixed"))
    director.time.pass_by(2 * DAY)
    await director.go()
    runs = await director.runs()
    assert [run.level for run in runs] == ["full"]
    assert "3 entries" in await director.texts(runs[0].id)


@in_loop
async def test_overrides_of_a_run_hold(director):
    text = """Schedule { Name = S
      Run = Level=Full Pool=Monthly Priority=7 MaxRunSchedTime="1 hour" daily at 2:00; }
    Pool { Name = Monthly }
    """
    await director.open(text + client("web1") + job("nightly", more="Schedule = S"))
    await director.go(14 * HOUR)
    run = (await director.runs())[0]
    assert (run.level, run.pool, run.priority, run.state) == ("full", "Monthly", 7, "waiting")
    await director.go(HOUR + 1)
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("cancelled", "time-limit")


@in_loop
async def test_max_run_sched_time_counts_from_the_schedule_and_ends_what_runs(director):
    more = "Schedule = Nightly; MaxRunSchedTime = 2 hours"
    await director.open(NIGHTLY + client("web1") + job("nightly", more=more))
    await director.go(14 * HOUR)
    await director.go(HOUR)
    agent = await director.agent("web1")
    run = (await director.runs())[0]
    assert run.state == "running"
    await director.go(HOUR - 10)
    assert agent.cancelled == []
    await director.go(20)
    assert agent.cancelled == [run.id]
    await director.end(agent, run.id, "cancelled", exit_code=130)
    assert (await director.run(run.id)).error_id == "time-limit"


@in_loop
async def test_max_start_delay_cancels_what_is_late_but_not_what_runs(director):
    more = "Schedule = Nightly; MaxStartDelay = 1 hour"
    agent = await director.with_agent(NIGHTLY + client("web1") + job("nightly", more=more))
    await director.go(14 * HOUR)
    first = (await director.runs())[0]
    assert first.state == "running"
    await director.go(5 * HOUR)
    assert await director.state(first.id) == "running"
    await director.backed_up(agent, first.id, 1)
    # Down over the next due time, and back too late for it.
    director.time.pass_by(DAY)
    await director.restart()
    await director.go()
    late = (await director.runs(limit=1))[0]
    assert (late.state, late.error_id) == ("cancelled", "time-limit")


@in_loop
async def test_a_new_schedule_does_not_make_up_for_what_was_before_it(director):
    await director.open(client("web1") + job("nightly"))
    await director.go(30 * DAY)
    director.configure(NIGHTLY + client("web1") + job("nightly", more="Schedule = Nightly"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    await director.go()
    assert await director.runs() == []
    await director.go(DAY)
    assert len(await director.runs()) == 1


@in_loop
async def test_disabled_jobs_schedules_and_clients_start_nothing(director):
    text = NIGHTLY + "Schedule { Name = Off; Enabled = no; Run = daily at 2:00; }\n"
    text += client("web1") + client("web2", "Enabled = no")
    text += job("a", more="Schedule = Nightly; Enabled = no") + job("b", more="Schedule = Off")
    text += job("c", "web2", more="Schedule = Nightly")
    await director.open(text)
    await director.go(2 * DAY)
    assert await director.runs() == []


@pytest.mark.parametrize("off", ["job", "client", "schedule", "missing"])
@in_loop
async def test_what_is_enabled_again_counts_from_then(director, off):
    schedule = "Schedule {{ Name = Nightly; {} Run = Incremental daily at 2:00; }}\n"

    def configure(disabled: str) -> None:
        no = {disabled: "Enabled = no;"}
        text = schedule.format(no.get("schedule", "")) + client("web1", no.get("client", ""))
        text += job("other")
        if disabled != "missing":
            text += job("nightly", more=f"Schedule = Nightly; {no.get('job', '')}")
        director.configure(text)

    configure("")
    await director.open()
    await director.go(15 * HOUR)
    assert due_hours(await director.runs()) == [14]
    configure(off)
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    await director.go(45 * DAY)
    await director.restart()
    await director.go(45 * DAY)
    configure("")
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    await director.go(60)
    assert due_hours(await director.runs()) == [14]
    await director.go(DAY)
    assert due_hours(await director.runs()) == [14, 91 * 24 + 14]


@in_loop
async def test_a_client_that_was_offline_for_long_makes_one_backup(director):
    text = """Schedule { Name = Mixed
      Run = Full 1st sun at 2:00
      Run = Incremental mon-sat at 2:00; }
    """
    text += client("web1") + client("web2")
    text += job("nightly", more="Schedule = Mixed") + job("other", "web2", "Schedule = Mixed")
    text += job("manual")
    await director.open(text)
    by_hand = await director.start("nightly")
    for _ in range(30):
        await director.go(DAY)
    waiting = [run for run in await director.runs(states=("waiting",)) if run.job == "nightly"]
    assert len(waiting) == 2
    assert by_hand.id in {run.id for run in waiting}
    (newest,) = (run for run in waiting if run.id != by_hand.id)
    # The monthly full backup was among those that it replaces.
    assert newest.level == "full"
    assert newest.scheduled_ns == START_NS + (29 * 24 + 14) * HOUR * SECOND_NS
    cancelled = await director.runs(states=("cancelled",), limit=100)
    assert {run.error_id for run in cancelled} == {"replaced"}
    assert all("not connected" in run.reason for run in cancelled)
    # No one gets a mail for each of them.
    assert not (director.folder / "reports.log").exists()
    agent = await director.agent("web1")
    running = await director.runs(states=("running",))
    assert {run.job for run in running} == {"nightly"}
    assert agent.order().level == "full"


@pytest.mark.parametrize("kind", ["Admin", "Verify", "Copy"])
@in_loop
async def test_jobs_of_the_director_that_wait_are_not_heaped_up(director, kind):
    more = "Schedule = Nightly; Priority = 20"
    more += "; VerifyJob = long; Level = Data" * (kind == "Verify")
    more += "; SelectionType = PoolUncopiedJobs; NextPool = Second" * (kind == "Copy")
    more += "; RunBeforeJob = /bin/true" * (kind == "Admin")
    text = NIGHTLY + SECOND + client("web1") + job("long", more="MaxRunTime = 30 days")
    text = text.replace("Run = Incremental", "Run =") if kind == "Verify" else text
    agent = await director.with_agent(text + job("own", "web1", more, kind), concurrent=1)
    long_run = await director.start("long")
    await agent.start(long_run.id)
    for _ in range(4):
        await director.go(DAY)
    runs = [run for run in await director.runs() if run.job == "own"]
    assert sorted(run.state for run in runs) == ["cancelled"] * 3 + ["queued"]


@in_loop
async def test_jobs_that_others_start_are_not_heaped_up(director):
    text = NIGHTLY + client("web1") + client("laptop") + job("second", "laptop")
    agent = await director.with_agent(
        text + job("first", more='Schedule = Nightly; Run = "second"')
    )
    for number in range(1, 5):
        await director.go(DAY)
        (run,) = await director.runs(states=("running",))
        await director.backed_up(agent, run.id, number)
    assert [run.job for run in await director.runs(states=("waiting",))] == ["second"]


@in_loop
async def test_a_new_time_zone_of_the_system_is_in_force_at_once(director, tmp_path, monkeypatch):
    zone = tmp_path / "localtime"
    monkeypatch.setattr(due_times, "_LOCAL_ZONE_FILE", str(zone))
    zone.symlink_to("/usr/share/zoneinfo/Etc/UTC")
    await director.open(NIGHTLY + client("web1") + job("a", more="Schedule = Nightly"), zone="")
    status = await director.service.queries.status()
    assert [one.due_ns for one in status.due] == [START_NS + 14 * HOUR * SECOND_NS]
    await director.go(15 * HOUR)
    zone.unlink()
    # It is 22:00 there, so that 2:00 of that day is past already, and was backed up.
    zone.symlink_to("/usr/share/zoneinfo/America/New_York")
    await director.go(30)
    status = await director.service.queries.status()
    assert status.time_zone == "America/New_York"
    assert [one.due_ns for one in status.due] == [START_NS + 19 * HOUR * SECOND_NS]
    assert due_hours(await director.runs()) == [14]
    await director.go(5 * HOUR)
    assert due_hours(await director.runs()) == [14, 19]


@in_loop
async def test_schedules_are_in_the_time_zone_that_is_set(director):
    text = 'Schedule { Name = Tokyo; TimeZone = "Asia/Tokyo"; Run = daily at 2:00; }\n' + NIGHTLY
    text += client("web1") + job("a", more="Schedule = Nightly") + job("b", more="Schedule = Tokyo")
    await director.open(text, zone="Europe/Vienna")
    due = {
        one.job: (one.due_ns - START_NS) / SECOND_NS / HOUR
        for one in (await director.service.queries.status()).due
    }
    assert due == {"a": 13, "b": 5}


@in_loop
async def test_a_jump_ahead_of_a_week_starts_each_job_once_and_holds_retention(director):
    await director.open(NIGHTLY + client("web1") + job("nightly", more="Schedule = Nightly"))
    await director.go(60)
    director.time.jump(7 * DAY)
    await director.go(30)
    assert len(await director.runs()) == 1
    status = await director.service.queries.status()
    assert any("jumped" in text for text in status.warnings)
    assert director.service.scheduler.guard.obstacle
    # Set right again: it is known at once, and the schedule continues as if nothing had been.
    director.time.jump(-7 * DAY)
    await director.go(30)
    assert director.service.scheduler.guard.obstacle == ""
    await director.go(14 * HOUR)
    assert len(await director.runs()) == 2


@in_loop
async def test_a_small_correction_of_the_clock_repeats_nothing(director):
    await director.open(NIGHTLY + client("web1") + job("nightly", more="Schedule = Nightly"))
    await director.go(14 * HOUR)
    director.time.jump(-120)
    await director.go(60)
    await director.go(120)
    assert len(await director.runs()) == 1
    assert director.service.scheduler.guard.obstacle == ""


@in_loop
async def test_a_clock_that_went_back_while_the_director_was_down_is_noticed(director):
    await director.open(NIGHTLY + client("web1") + job("nightly", more="Schedule = Nightly"))
    await director.go(60)
    director.time.jump(-7 * DAY)
    await director.restart()
    assert director.service.scheduler.guard.obstacle
    await director.go()
    await director.go(14 * HOUR)
    assert len(await director.runs()) == 1
    await director.go(HOLD_SECONDS)
    assert director.service.scheduler.guard.obstacle == ""


@in_loop
async def test_a_hold_of_retention_outlives_a_restart(director):
    await director.open(client("web1") + job("nightly"))
    await director.go(60)
    director.time.jump(7 * DAY)
    await director.go(60)
    await director.restart()
    assert director.service.scheduler.guard.obstacle


def test_a_hold_of_a_checkout_before_the_first_release_keeps_its_length():
    guard = ClockGuard()
    saved = guard.saved() | {"held_seconds": 60.0, "doubted_seconds": HOLD_SECONDS + 1}
    del saved["untrusted_seconds"]
    guard.load(saved)
    assert guard.is_unsteady


@in_loop
async def test_a_clock_that_jumps_every_day_is_an_error_and_lateness_is_judged(director):
    await director.open(NIGHTLY + client("web1") + job("nightly", more="Schedule = Nightly"))
    await director.go(60)
    notices = director.service.notices

    async def events() -> set[str]:
        await notices.look()
        return {one.event for one in (await notices.overview()).incidents}

    for _ in range(4):
        director.time.jump(3600)
        await director.go(DAY / 2)
    assert director.service.scheduler.guard.obstacle
    assert await events() == {"clock-unsteady", "job-missing"}
    await director.go(HOLD_SECONDS)
    assert "clock-unsteady" not in await events()


@in_loop
async def test_a_job_runs_when_its_client_connects_after_long_enough(director):
    more = "RunOnIncomingConnectInterval = 1 day"
    agent = await director.with_agent(client("web1") + job("laptop", more=more))
    run = (await director.runs())[0]
    assert run.state == "running"
    await director.backed_up(agent, run.id, 1)
    await agent.disconnect()
    await director.go(HOUR)
    await agent.connect()
    await director.settle()
    assert len(await director.runs()) == 1
    await agent.disconnect()
    await director.go(DAY)
    await agent.connect()
    await director.settle()
    assert len(await director.runs()) == 2


@in_loop
async def test_fifty_jobs_at_once_are_all_run_within_the_limit(director):
    text = NIGHTLY + "".join(
        client(f"c{n}") + job(f"j{n}", f"c{n}", more="Schedule = Nightly") for n in range(50)
    )
    await director.open(text, concurrent=10)
    agents = {f"c{n}": await director.agent(f"c{n}") for n in range(50)}
    await director.go(14 * HOUR)
    done = 0
    while running := await director.runs(states=("running",), limit=100):
        assert len(running) <= 10
        for run in running:
            done += 1
            await director.backed_up(agents[run.client], run.id, done)
    assert done == 50
    assert len(await director.runs(states=("done",), limit=100)) == 50
