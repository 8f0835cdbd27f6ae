"""The life of runs: from queue to end, over lost connections and restarts."""

from __future__ import annotations

import asyncio

import pytest

from kit.director_in_process import OPERATOR, START_NS, client, in_loop, job
from strongroom.base.errors import (
    ConflictError,
    SnapshotNotFoundError,
    UnknownNameError,
    UsageError,
)
from strongroom.director.results.snapshots import RestoreRequest
from strongroom.net.control.messages import (
    RunLog,
    RunProgress,
    SetBandwidth,
    StartBackup,
    StartEstimate,
)

SECOND_NS = 1_000_000_000


@in_loop
async def test_a_backup_goes_from_its_order_to_its_snapshot(director):
    settings = "MaximumBandwidthPerJob = 5 mb/s; Share Below = /usr, /srv/www"
    agent = await director.with_agent(client("web1", settings) + job("nightly"))
    assert agent.welcomes[0].director == "dir"
    run = await director.start("nightly")
    assert run.state == "running"
    order = agent.order(StartBackup)
    assert (order.run_id, order.job, order.level, order.parent) == (run.id, "nightly", "full", "")
    assert order.fileset.includes[0].files == ("/home",)
    assert (order.storage.address, order.storage.server_name) == ("192.0.2.3", "main")
    assert (order.storage.tls_mode, order.storage.repository_id) == ("ktls", "disk")
    assert order.maximum_bytes_per_second == 5_000_000
    assert order.share_below == ("/usr", "/srv/www")
    await agent.start(run.id)
    await agent.progress(run.id, files=2, bytes=50, total_files=9)
    seen = await director.run(run.id)
    assert (seen.files, seen.bytes, seen.total_files) == (2, 50, 9)
    await agent.log(run.id, "/home/x: permission denied", "warning")
    director.time.pass_by(60)
    snapshot = await director.backed_up(agent, run.id, 1)
    ended = await director.run(run.id)
    assert (ended.state, ended.files, ended.bytes, ended.stored_bytes) == ("done", 3, 100, 10)
    assert ended.ended_ns - ended.started_ns == 60 * SECOND_NS
    found = await director.service.snapshots.get(snapshot)
    assert (found.client, found.job, found.level, found.pool) == (
        "web1",
        "nightly",
        "full",
        "Default",
    )
    assert "permission denied" in await director.texts(run.id)
    assert agent.unacknowledged == []


@in_loop
async def test_a_run_waits_for_its_agent(director):
    await director.open(client("web1") + job("nightly"))
    run = await director.start("nightly")
    assert (run.state, run.reason) == ("waiting", "agent web1 is not connected")
    agent = await director.agent("web1")
    assert await director.state(run.id) == "running"
    assert agent.order().run_id == run.id


@in_loop
async def test_an_agent_that_goes_before_its_order_gets_it_when_it_is_back(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    agent.goes_before_next_order = True
    run = await director.start("nightly")
    assert run.state == "waiting"
    await agent.connect()
    await director.settle()
    assert agent.given == [run.id]
    assert await director.state(run.id) == "running"


@in_loop
async def test_an_order_that_never_arrived_is_given_again(director):
    agent, run = await director.running()
    agent.lose_journal()
    await agent.disconnect()
    await agent.connect()
    await director.settle()
    assert agent.given == [run.id, run.id]
    await director.backed_up(agent, run.id, 1)
    assert await director.state(run.id) == "done"


@in_loop
async def test_a_run_that_its_agent_forgot_has_failed(director):
    agent, run = await director.running()
    await agent.start(run.id)
    agent.lose_journal()
    await agent.disconnect()
    await agent.connect()
    await director.settle()
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("failed", "agent-lost")


@in_loop
async def test_reports_made_while_the_connection_was_lost_are_kept_once(director):
    agent, run = await director.running()
    await agent.start(run.id)
    await agent.log(run.id, "one")
    await agent.disconnect()
    await agent.log(run.id, "two")
    await agent.end(run.id, snapshot=f"{7:064x}", summary={"files": 1})
    assert await director.state(run.id) == "running"
    await agent.connect()
    await director.settle()
    assert await director.state(run.id) == "done"
    texts = (await director.texts(run.id)).splitlines()
    assert [text for text in texts if text in ("one", "two")] == ["one", "two"]
    assert agent.unacknowledged == []


@in_loop
async def test_a_report_that_comes_twice_is_kept_once_and_acknowledged_again(director):
    agent, run = await director.running()
    await agent.log(run.id, "one")
    # The acknowledgement was lost: the agent tells it again.
    agent.number_anew(run.id)
    await agent.log(run.id, "one")
    assert (await director.texts(run.id)).count("one") == 1
    assert agent.unacknowledged == []


@in_loop
async def test_a_restart_of_the_director_loses_nothing(director):
    agent, run = await director.running("MaximumConcurrentJobs = 2")
    await agent.start(run.id)
    queued = await director.start("nightly")
    assert queued.state == "queued"
    await director.restart()
    await agent.end(run.id, snapshot=f"{7:064x}", summary={"files": 1})
    assert await director.state(run.id) == "running"
    await agent.connect(director.service)
    await director.settle()
    assert await director.state(run.id) == "done"
    assert await director.state(queued.id) == "running"
    assert agent.order().run_id == queued.id
    # The second is compared with the first.
    assert agent.order().parent == f"{7:064x}"


@in_loop
async def test_an_agent_speaks_for_its_own_runs_only(director):
    agent = await director.with_agent(client("web1") + client("web2") + job("nightly"))
    thief = await director.agent("web2")
    run = await director.start("nightly")
    await agent.start(run.id)
    await thief.progress(run.id, files=999)
    await thief.log(run.id, "forged")
    await thief.end(run.id, "done", snapshot=f"{9:064x}")
    await director.settle()
    assert await director.state(run.id) == "running"
    assert "forged" not in await director.texts(run.id)
    assert thief.cancelled == [run.id, run.id]
    # What it will not be believed it need not keep.
    assert thief.unacknowledged == []
    with pytest.raises(SnapshotNotFoundError):
        await director.service.snapshots.get(f"{9:064x}")
    await director.backed_up(agent, run.id, 1)


@in_loop
async def test_a_report_of_an_unknown_run_is_answered(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    for run_id in ("f" * 32, "", "no id at all", "\0" * 32, "\U0001f600" * 32):
        await agent.log(run_id, "what?")
        assert agent.cancelled[-1] == run_id
    await agent.end("f" * 32)
    assert agent.unacknowledged == []


@in_loop
async def test_an_unknown_or_disabled_client_is_not_welcome(director):
    await director.open(client("web1") + client("web2", "Enabled = no") + job("nightly"))
    assert director.service.agents.refusal("web1") == ""
    assert "no Client" in director.service.agents.refusal("stranger")
    assert "disabled" in director.service.agents.refusal("web2")


@in_loop
async def test_a_waiting_run_is_cancelled_at_once(director):
    await director.open(client("web1") + job("nightly"))
    run = await director.start("nightly")
    ended = await director.service.commands.cancel(run.id, OPERATOR)
    assert (ended.state, ended.reason) == ("cancelled", "cancelled by operator ann")
    with pytest.raises(ConflictError, match="has ended"):
        await director.service.commands.cancel(run.id, OPERATOR)
    with pytest.raises(UnknownNameError):
        await director.service.commands.cancel("ffff", OPERATOR)


@in_loop
async def test_a_running_run_ends_when_its_agent_says_so(director):
    agent, run = await director.running()
    await agent.start(run.id)
    assert (await director.service.commands.cancel(run.id, OPERATOR)).state == "running"
    assert agent.cancelled == [run.id]
    await director.end(agent, run.id, "cancelled", exit_code=130, error_id="interrupted")
    ended = await director.run(run.id)
    assert (ended.state, ended.reason) == ("cancelled", "cancelled by operator ann")


@in_loop
async def test_a_run_that_was_done_before_the_cancel_arrived_is_done(director):
    agent, run = await director.running()
    await director.service.commands.cancel(run.id, OPERATOR)
    await director.backed_up(agent, run.id, 1)
    assert await director.state(run.id) == "done"


@in_loop
async def test_an_agent_that_does_not_answer_a_cancel_is_not_waited_for(director):
    agent, run = await director.running()
    await agent.start(run.id)
    await director.service.commands.cancel(run.id, OPERATOR)
    await director.go(5)
    assert await director.state(run.id) == "running"
    await director.go(20)
    assert await director.state(run.id) == "cancelled"
    # It was working all along and comes with a snapshot: that is kept, the run stays as it was.
    snapshot = await director.backed_up(agent, run.id, 3)
    assert await director.state(run.id) == "cancelled"
    assert (await director.service.snapshots.get(snapshot)).run == run.id
    assert agent.unacknowledged == []


@in_loop
async def test_a_run_cancelled_while_its_agent_was_away_is_cancelled_there_later(director):
    agent, run = await director.running()
    await agent.start(run.id)
    await agent.disconnect()
    assert (await director.service.commands.cancel(run.id, OPERATOR)).state == "cancelled"
    await agent.connect()
    assert agent.cancelled == [run.id]


@in_loop
async def test_a_run_that_takes_too_long_is_ended(director):
    agent, run = await director.running("FullMaxRuntime = 100")
    assert agent.order().maximum_run_seconds == 100
    await director.go(99)
    assert agent.cancelled == []
    await director.go(2)
    assert agent.cancelled == [run.id]
    await director.end(agent, run.id, "cancelled", exit_code=130)
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("failed", "time-limit")


@in_loop
async def test_a_jump_of_the_clock_ends_no_run(director):
    agent, run = await director.running("MaxRunTime = 100")
    for days in (7, -14, 7):
        director.time.jump(days * 86400)
        await director.go(10)
    assert await director.state(run.id) == "running"
    await director.backed_up(agent, run.id, 1)
    assert await director.state(run.id) == "done"


@in_loop
async def test_a_run_whose_agent_stays_away_fails_in_the_end(director):
    agent, run = await director.running("MaxWaitTime = 1 hour")
    await agent.start(run.id)
    await agent.disconnect()
    await director.go(3500)
    assert await director.state(run.id) == "running"
    await director.go(200)
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("failed", "agent-lost")


@in_loop
@pytest.mark.parametrize(("limits", "seconds"), [("MaxWaitTime = 1 hour", 3600), ("", 86400)])
async def test_a_run_without_progress_fails_in_the_end(director, limits, seconds):
    agent, run = await director.running(limits)
    await agent.start(run.id)
    await director.go(seconds - 200)
    # The time without its agent is no time without progress.
    await agent.disconnect()
    await director.go(3500)
    await agent.connect()
    await director.go(100)
    assert run.id not in agent.cancelled
    await director.go(200)
    await director.end(agent, run.id, "cancelled")
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("failed", "time-limit")


@in_loop
async def test_a_failed_run_is_tried_again_as_often_as_it_says(director):
    again = "RescheduleOnError = yes; RescheduleInterval = 600; RescheduleTimes = 2"
    agent, run = await director.running(again)
    for attempt in (2, 3):
        failed = run.id
        await director.end(
            agent, failed, "failed", exit_code=30, error_id="store", error="no space"
        )
        run = (await director.runs(states=("waiting",)))[0]
        assert (run.attempt, run.rescheduled_from) == (attempt, failed)
        assert "to be tried again" in run.reason
        await director.go(300)
        assert await director.state(run.id) == "waiting"
        await director.go(301)
        assert await director.state(run.id) == "running"
    await director.end(agent, run.id, "failed", exit_code=30, error_id="store", error="no space")
    assert await director.runs(states=("waiting", "queued", "running")) == []
    assert "not tried again" in await director.texts(run.id)


@in_loop
async def test_attempts_without_an_interval_are_not_made_all_at_once(director):
    again = "RescheduleOnError = yes; RescheduleInterval = 0; RescheduleTimes = 50"
    agent, run = await director.running(again)
    begun_s = []
    for _ in range(9):
        await director.end(agent, run.id, "failed", exit_code=30, error_id="store", error="full")
        (run,) = await director.runs(states=("waiting", "queued", "running"))
        assert run.state == "waiting"
        begun_s.append(0)
        while await director.state(run.id) == "waiting":
            await director.go(30)
            begun_s[-1] += 30
    assert begun_s == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


@in_loop
async def test_runs_of_a_client_that_was_removed_end(director):
    await director.open(client("web1") + client("web2") + job("a") + job("b", "web2"))
    agent = await director.agent("web2")
    waiting = await director.start("a")
    running = await director.start("b")
    await agent.start(running.id)
    director.configure(client("web3") + job("c", "web3"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    await director.go()
    ended = await director.run(waiting.id)
    assert (ended.state, ended.reason) == ("cancelled", "client web1 was removed")
    await director.go(60)
    assert await director.state(running.id) == "cancelled"
    director.configure(client("web1") + client("web3") + job("c", "web3") + job("a"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    again = await director.start("a")
    director.configure(client("web3") + job("c", "web3"))
    await director.restart()
    await director.go()
    assert await director.state(again.id) == "cancelled"


@in_loop
async def test_waiting_runs_of_a_client_that_is_disabled_end(director):
    await director.open(client("web1") + job("a"))
    run = await director.start("a")
    director.configure(client("web1", "Enabled = no") + job("a"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    await director.go()
    ended = await director.run(run.id)
    assert (ended.state, ended.reason) == ("cancelled", "client web1 is disabled")


@in_loop
async def test_waiting_runs_of_a_job_that_was_removed_end(director):
    await director.open(client("web1") + job("a") + job("b"))
    run = await director.start("a")
    director.configure(client("web1") + job("b"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    await director.go()
    ended = await director.run(run.id)
    assert (ended.state, ended.reason) == ("cancelled", "job a was removed")


@in_loop
async def test_a_cancelled_run_is_not_tried_again(director):
    await director.open(client("web1") + job("nightly", more="RescheduleOnError = yes"))
    run = await director.start("nightly")
    await director.service.commands.cancel(run.id, OPERATOR)
    await director.settle()
    assert len(await director.runs()) == 1


@in_loop
async def test_limits_of_client_storage_and_director_hold(director):
    text = client("web1", "MaximumConcurrentJobs = 2") + client("web2")
    text += "".join(job(f"a{n}", "web1") for n in range(3)) + job("b", "web2")
    first = await director.with_agent(text, concurrent=3)
    await director.agent("web2")
    runs = [await director.start(name) for name in ("a0", "a1", "a2", "b")]
    assert [run.state for run in runs] == ["running", "running", "queued", "running"]
    waiting = await director.run(runs[2].id)
    assert "at most 2 runs" in waiting.reason
    await director.backed_up(first, runs[0].id, 1)
    assert await director.state(runs[2].id) == "running"


@in_loop
async def test_a_run_of_a_lower_number_goes_first_and_alone(director):
    text = client("web1", "MaximumConcurrentJobs = 9")
    text += job("usual") + job("urgent", more="Priority = 5") + job("late", more="Priority = 20")
    agent = await director.with_agent(text)
    usual = await director.start("usual")
    late = await director.start("late")
    urgent = await director.start("urgent")
    assert (late.state, urgent.state) == ("queued", "queued")
    await director.backed_up(agent, usual.id, 1)
    assert await director.state(urgent.id) == "running"
    assert await director.state(late.id) == "queued"
    await director.backed_up(agent, urgent.id, 2)
    assert await director.state(late.id) == "running"


@in_loop
async def test_a_run_that_hangs_or_is_lost_holds_up_its_own_client_alone(director):
    text = client("laptop") + client("web1") + job("of-laptop", "laptop", more="Priority = 5")
    text += job("backup", "web1") + job("restores", "web1", kind="Restore")
    text += job("housekeeping", "web1", "Priority = 40", kind="Admin")
    await director.open(text, concurrent=2)
    laptop, web1 = await director.agent("laptop"), await director.agent("web1")
    hangs = await director.start("of-laptop")
    backup = await director.start("backup")
    housekeeping = await director.start("housekeeping")
    assert (hangs.state, backup.state, housekeeping.state) == ("running", "running", "queued")
    await director.backed_up(web1, backup.id, 1)
    assert hangs.id[:8] in (await director.run(housekeeping.id)).reason
    await director.go(3700)
    assert await director.state(housekeeping.id) == "done"

    # Nothing after a day: it is ended, and the next run of the client begins.
    again = await director.start("of-laptop")
    await director.go(23 * 3600)
    assert laptop.cancelled == [hangs.id]
    await director.end(laptop, hangs.id, "cancelled", exit_code=130)
    ended = await director.run(hangs.id)
    assert (ended.state, ended.error_id) == ("failed", "time-limit")
    assert await director.state(again.id) == "running"

    # The laptop is closed during its run.
    await director.start("backup")
    third = await director.start("housekeeping")
    assert third.state == "queued"
    await laptop.disconnect()
    await director.go()
    assert "of-laptop" not in (await director.run(third.id)).reason


@in_loop
async def test_a_duplicate_is_entered_as_cancelled(director):
    await director.with_agent(client("web1") + job("nightly", more="AllowDuplicateJobs = no"))
    first = await director.start("nightly")
    second = await director.start("nightly")
    assert second.state == "cancelled"
    assert first.id in second.reason
    assert await director.state(first.id) == "running"


@in_loop
async def test_a_duplicate_takes_the_place_of_one_that_runs(director):
    more = "AllowDuplicateJobs = no; CancelRunningDuplicates = yes"
    agent, first = await director.running(more)
    second = await director.start("nightly")
    assert agent.cancelled == [first.id]
    await director.end(agent, first.id, "cancelled", exit_code=130)
    assert await director.state(first.id) == "cancelled"
    assert await director.state(second.id) == "running"


@in_loop
async def test_levels_follow_what_is_there(director):
    more = "Level = Incremental; MaxFullInterval = 30 days; MaxDiffInterval = 7 days"
    agent = await director.with_agent(client("web1") + job("nightly", more=more))

    async def back_up(number: int, **options) -> tuple[str, str]:
        run = await director.start("nightly", **options)
        order = agent.order()
        await director.backed_up(agent, run.id, number)
        return order.level, order.parent.lstrip("0")

    assert await back_up(1) == ("full", "")
    await director.go(86400)
    assert await back_up(2) == ("incremental", "1")
    await director.go(86400)
    assert await back_up(3) == ("incremental", "2")
    assert await back_up(4, level="Differential") == ("differential", "1")
    await director.go(8 * 86400)
    assert await back_up(5) == ("differential", "1")
    assert await back_up(6) == ("incremental", "5")
    await director.go(31 * 86400)
    assert await back_up(7) == ("full", "")
    texts = [await director.texts(run.id) for run in await director.runs()]
    texts = [text for text in texts if "older" in text]
    assert any("Max Full Interval" in text for text in texts)


@in_loop
async def test_a_changed_fileset_makes_the_next_backup_full(director):
    text = client("web1") + job("nightly")
    agent = await director.with_agent(text)
    await director.backed_up(agent, (await director.start("nightly")).id, 1)
    director.configure(text + "FileSet { Name = Other; Include { File = /srv } }")
    run = await director.start("nightly", fileset="Home")
    assert agent.order().level == "incremental"
    await director.backed_up(agent, run.id, 2)
    path = director.folder / "etc/director.d/all/all.conf"
    path.write_text(path.read_text().replace("File = /home", "File = /home; File = /etc"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    run = await director.start("nightly")
    assert agent.order().level == "full"
    await director.backed_up(agent, run.id, 3)
    assert "FileSet has changed" in await director.texts(run.id)


@in_loop
async def test_a_failed_full_is_made_up_for(director):
    agent = await director.with_agent(
        client("web1") + job("nightly", more="RerunFailedLevels = yes")
    )
    await director.backed_up(agent, (await director.start("nightly")).id, 1)
    await director.go(10)
    run = await director.start("nightly", level="Full")
    await director.end(agent, run.id, "failed", exit_code=1, error_id="store")
    await director.go(10)
    run = await director.start("nightly")
    assert agent.order().level == "full"


@in_loop
async def test_what_an_agent_claims_to_have_made_must_be_possible(director):
    agent, run = await director.running()
    await director.end(agent, run.id, snapshot="../../etc/passwd", summary={"files": -5, "x": [1]})
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id, ended.files) == ("failed", "damage", 0)


@in_loop
async def test_an_estimate_goes_past_the_queue(director):
    await director.open(client("web1") + job("nightly"), concurrent=1)
    with pytest.raises(ConflictError, match="not connected"):
        await director.service.commands.start_estimate("nightly", OPERATOR)
    agent = await director.agent("web1")
    await director.start("nightly")
    run = await director.service.commands.start_estimate("nightly", OPERATOR, listing=True)
    await director.settle()
    order = agent.order(StartEstimate)
    assert (order.run_id, order.listing) == (run.id, True)
    await director.end(agent, run.id, summary={"files": 7, "size_bytes": 70})
    assert (await director.run(run.id)).files == 7


@in_loop
async def test_a_bandwidth_is_changed_while_a_run_is_under_way(director):
    agent, run = await director.running()
    await director.service.commands.set_bandwidth(run.id, 1000, OPERATOR)
    assert agent.others[-1] == SetBandwidth(run_id=run.id, maximum_bytes_per_second=1000)
    with pytest.raises(UsageError):
        await director.service.commands.set_bandwidth(run.id, -1, OPERATOR)
    await director.backed_up(agent, run.id, 1)
    with pytest.raises(ConflictError):
        await director.service.commands.set_bandwidth(run.id, 1000, OPERATOR)


@in_loop
async def test_watching_a_run_tells_its_states_counts_and_lines(director):
    await director.open(client("web1") + job("nightly"))
    run = await director.start("nightly")
    events = director.service.queries.watch(run.id)
    seen = [await anext(events)]

    async def watch() -> None:
        seen.extend([event async for event in events])

    watching = asyncio.create_task(watch())
    agent = await director.agent("web1")
    await agent.progress(run.id, files=5)
    await asyncio.sleep(0)
    await agent.log(run.id, "hello")
    await director.backed_up(agent, run.id, 1)
    await asyncio.wait_for(watching, 30)
    states = list(dict.fromkeys(event.run.state for event in seen if event.kind == "state"))
    assert states[0] == "waiting"
    assert states[-1] == "done"
    lines = [event.line for event in seen if event.kind == "log"]
    assert [line.sequence for line in lines] == list(range(1, len(lines) + 1))
    assert "hello" in [line.text for line in lines]


@in_loop
async def test_what_cannot_be_started_says_why(director):
    await director.open(client("web1") + job("nightly") + job("bring-back", kind="Restore"))
    for name, error in (("nothing", UnknownNameError), ("bring-back", UsageError)):
        with pytest.raises(error):
            await director.queue(name)
    for options in ({"level": "Fuller"}, {"client": "nobody"}, {"pool": "x"}, {"storage": "x"}):
        with pytest.raises((UnknownNameError, UsageError)):
            await director.queue("nightly", **options)
    with pytest.raises(SnapshotNotFoundError):
        await director.service.commands.start_restore(RestoreRequest("abcd"), OPERATOR)
    results = [entry.result for entry in await director.service.queries.audit_entries()]
    assert len(results) == 2
    assert "done" not in results


@in_loop
async def test_a_run_that_no_longer_fits_the_configuration_fails_with_words(director):
    await director.open(client("web1") + job("nightly"))
    run = await director.start("nightly")
    director.configure(client("web1") + job("other"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    await director.agent("web1")
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("failed", "unknown-name")
    assert "nightly" in ended.error


@in_loop
async def test_a_reload_with_errors_changes_nothing_and_one_without_cuts_no_run(director):
    text = client("web1") + job("nightly")
    agent = await director.with_agent(text)
    run = await director.start("nightly")
    director.configure(text + "Job { Nonsense = 1 }")
    report = await director.service.commands.reload(OPERATOR)
    assert not report.is_loaded
    assert report.errors
    director.configure(text + job("second"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    assert [one.name for one in await director.service.queries.jobs()] == ["nightly", "second"]
    assert await director.state(run.id) == "running"
    director.configure(client("web1", "Enabled = no") + job("nightly"))
    await director.service.commands.reload(OPERATOR)
    assert agent.refusals == ["client web1 is disabled"]
    # It is told to go, but what it does is not undone.
    assert await director.state(run.id) == "running"


@in_loop
async def test_scripts_on_the_director_run_around_a_job(director):
    note = director.folder / "note"
    more = f"""
    RunScript {{ RunsWhen = Before; RunsOnClient = no
      Command = "sh -c 'echo before %n %c >> {note}'" }}
    RunScript {{ RunsWhen = After; RunsOnClient = no; RunsOnSuccess = yes; RunsOnFailure = no
      Command = "sh -c 'echo good %e >> {note}'" }}
    RunScript {{ RunsWhen = After; RunsOnClient = no; RunsOnSuccess = no; RunsOnFailure = yes
      Command = "sh -c 'echo bad %e >> {note}'" }}
    ClientRunBeforeJob = "/usr/bin/freeze"
    """
    agent, run = await director.running(more)
    assert [script.command for script in agent.order().scripts] == ["/usr/bin/freeze"]
    await director.backed_up(agent, run.id, 1)
    run = await director.start("nightly")
    await director.end(agent, run.id, "failed", exit_code=1)
    assert note.read_text().splitlines() == [
        "before nightly web1",
        "good done",
        "before nightly web1",
        "bad failed",
    ]


@in_loop
async def test_a_script_that_must_go_well_ends_the_run(director):
    agent, run = await director.running('RunBeforeJob = "false"')
    assert (run.state, run.error_id) == ("failed", "script")
    assert agent.given == []


@in_loop
async def test_a_report_goes_where_messages_say(director):
    agent, run = await director.running()
    await agent.log(run.id, "something odd", "warning")
    await director.backed_up(agent, run.id, 1, security={"mode": "tls", "ktls_send": False})
    text = (director.folder / "reports.log").read_text()
    assert text.startswith("dir: nightly of web1: done\n")
    assert run.id in text
    assert "something odd" in text
    assert "Connection:    tls, ?, no kTLS\n" in text


@in_loop
async def test_what_operators_do_is_audited(director):
    await director.open(client("web1") + job("nightly"))
    run = await director.start("nightly")
    await director.service.commands.cancel(run.id, OPERATOR)
    entries = await director.service.queries.audit_entries()
    assert [(entry.action, entry.object, entry.result) for entry in entries] == [
        ("cancel", run.id, "done"),
        ("run", "nightly", "done"),
    ]
    assert {(entry.who, entry.role, entry.address) for entry in entries} == {
        ("ann", "operator", "192.0.2.7")
    }


@in_loop
async def test_status_clients_and_jobs_show_what_is(director):
    agent = await director.with_agent(client("web1") + client("web2") + job("nightly"))
    await agent.disconnect()
    await agent.connect(ahead_seconds=90)
    run = await director.start("nightly")
    status = await director.service.queries.status()
    assert (status.clients, status.clients_connected) == (2, 1)
    assert [one.id for one in status.active] == [run.id]
    web1 = await director.service.queries.client("web1")
    assert (web1.is_connected, web1.running, web1.tls_mode) == (True, 1, "ktls")
    assert web1.clock_ahead_seconds == pytest.approx(90)
    await director.backed_up(agent, run.id, 1)
    assert (await director.service.queries.client("web1")).last_backup_ns == START_NS
    job_info = (await director.service.queries.jobs())[0]
    assert job_info.last_run is not None
    assert (job_info.last_run.id, job_info.storage, job_info.pool) == (run.id, "main", "Default")
    with pytest.raises(UnknownNameError):
        await director.service.queries.client("nobody")


@in_loop
async def test_metrics_tell_success_and_age(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    await director.backed_up(agent, (await director.start("nightly")).id, 1)
    run = await director.start("nightly")
    await director.end(agent, run.id, "failed", exit_code=1)
    metrics = {one.name: one for one in await director.service.queries.metrics()}
    labels = {"backup_job": "nightly", "client": "web1"}
    assert metrics["strongroom_backup_last_success_timestamp_seconds"].samples == (
        (labels, START_NS / SECOND_NS),
    )
    assert metrics["strongroom_backup_last_run_status"].samples == ((labels, 2.0),)
    assert metrics["strongroom_backup_ktls_send"].samples == ((labels, 0.0),)
    assert metrics["strongroom_agent_connected"].samples == (({"client": "web1"}, 1.0),)
    assert all(one.specification.meaning.endswith(".") for one in metrics.values())


@in_loop
async def test_a_job_starts_others_along_with_it(director):
    text = client("web1", "MaximumConcurrentJobs = 9")
    text += job("first", more='Run = "second level=%l priority=7"') + job("second")
    text += job("ring", more='Run = "ring"')
    agent = await director.with_agent(text)
    run = await director.start("first", level="Full")
    second = (await director.runs(job="second"))[0]
    assert (second.level, second.priority) == ("full", 7)
    assert run.id in second.requested_by
    for one in (run, second):
        await director.backed_up(agent, one.id, int(one.id[:8], 16))
    await director.start("ring")
    for _ in range(9):
        for one in await director.runs(job="ring", states=("running",)):
            await director.backed_up(agent, one.id, int(one.id[:8], 16))
    assert len(await director.runs(job="ring", states=("done",))) == 4


@in_loop
async def test_a_client_over_its_hard_quota_backs_up_no_more(director):
    agent = await director.with_agent(client("web1", "HardQuota = 15") + job("nightly"))
    for number in (1, 2):
        await director.backed_up(agent, (await director.start("nightly")).id, number)
    run = await director.start("nightly")
    assert (run.state, run.error_id) == ("failed", "quota")


@in_loop
async def test_an_agent_that_reports_what_cannot_be_is_sent_away(director):
    agent, run = await director.running()
    for wrong in (
        RunLog(run_id=run.id, sequence=1 << 63, time_ns=0, level="info", text="x"),
        RunLog(run_id=run.id, sequence=0, time_ns=0, level="info", text="x"),
        RunProgress(run_id=run.id, files=-1),
        RunProgress(run_id=run.id, bytes=(1 << 64) - 1),
    ):
        await director.service.agents.on_message("web1", wrong)
        assert agent.refusals.pop().startswith("invalid report")
        await agent.connect()
    assert await director.state(run.id) == "running"
    assert "x" not in (await director.texts(run.id)).splitlines()


@in_loop
async def test_an_agent_fills_nothing_with_what_it_says(director):
    agent, run = await director.running()
    await director.end(
        agent,
        run.id,
        "failed",
        exit_code=1,
        error="\0" * 100_000,
        error_id="e" * 10_000,
        summary={"a": "b" * 100_000},
    )
    ended = await director.run(run.id)
    assert ended.state == "failed"
    assert len(ended.error) < 10_000
    assert len(ended.error_id) <= 100
    assert ended.summary == {"left_out": "it was too long, or too deep"}


@in_loop
async def test_a_director_works_on_postgresql(director, cluster):
    url = cluster.new_database()
    text = (
        f"Catalog {{ Name = P; DbName = {url.database}; DbUser = strongroom; "
        f'DbSocket = "{cluster.folder}" }}\n'
    )
    agent = await director.with_agent(client("web1") + job("nightly"), catalog=text)
    run = await director.start("nightly")
    await agent.log(run.id, "NUL \0 is not text there")
    await director.restart()
    await agent.connect(director.service)
    snapshot = await director.backed_up(agent, run.id, 1)
    assert await director.state(run.id) == "done"
    assert (await director.service.snapshots.get(snapshot)).run == run.id
    assert len(await director.service.queries.metrics()) > 10
    assert not list((director.folder / "work").glob("*.sqlite"))
