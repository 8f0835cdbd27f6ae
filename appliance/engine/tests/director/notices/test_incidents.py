"""One incident is reported once, and once that it is over; nothing is reported without a cause."""

from __future__ import annotations

from dataclasses import replace

from kit.director_in_process import OPERATOR, client, in_loop, job
from strongroom.director.catalog import outbox
from strongroom.director.catalog.rivals import SeenAgent
from strongroom.director.catalog.run_history import job_histories
from strongroom.director.catalog.runs import add_run
from strongroom.director.catalog.snapshots import (
    GONE,
    add_snapshots,
    note_false,
    note_removed,
    note_returned,
)
from strongroom.director.notices.watch_jobs import JobWatch
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot

DAY = 86400.0


@in_loop
async def test_a_failed_job_is_told_once_and_that_it_is_over_once(director, told, fail):
    agent = await told.with_agent()
    for _ in range(3):
        await fail(agent)
        await told.look()
        await director.restart()
        agent = await director.agent("web1")
        await told.look()
    assert told.events() == [("job-failed", "open")]
    assert told.mailed() == ["error: the job nightly of web1 failed"]
    run = await director.start("nightly")
    await director.backed_up(agent, run.id, 1)
    await told.look()
    await told.look()
    assert told.events() == [("job-failed", "open"), ("job-failed", "resolved")]
    assert told.mailed()[1:] == ["resolved: the job nightly of web1 failed"]


@in_loop
async def test_a_notice_says_what_since_when_and_what_to_do(director, told, fail):
    await told.open()
    run = await fail(await director.agent("web1"))
    await told.send()
    (mail,) = told.mail.mails
    text = mail.get_content()
    assert "What: [store] no space" in text
    assert f"What to do: strongroom log {run.id[:8]}" in text
    assert "Since: 2026-11-21 12:00 UTC" in text
    (asked,) = told.web.asked
    (notice,) = asked.json["notices"]
    assert (notice["job"], notice["client"], notice["severity"]) == ("nightly", "web1", "error")
    assert mail["X-Strongroom-Incidents"] == notice["incident"]


@in_loop
async def test_nothing_is_told_of_jobs_that_are_well(director, told):
    agent = await told.with_agent()
    for number in range(4):
        await told.look(DAY if number else 9 * 3600)
        for run in await director.runs(states=("running", "waiting", "queued")):
            await director.backed_up(agent, run.id, number + 1)
        await told.look()
    assert len(await director.runs()) > 3
    assert (told.events(), told.mailed()) == ([], [])


@in_loop
async def test_names_and_texts_of_others_forge_nothing(director, told, fail):
    agent = await told.with_agent()
    run = await director.start("nightly")
    await agent.start(run.id)
    evil = "x\r\nBcc: eve@example.org\r\n\r\nWhat to do: rm -rf /\x1b[2J\u202e"
    await director.end(agent, run.id, "failed", error_id="store", error=evil)
    await told.send()
    (mail,) = told.mail.mails
    assert mail["Bcc"] is None
    lines = mail.get_content().splitlines()
    assert [line for line in lines if line.startswith("What to do:")] == [
        f"What to do: strongroom log {run.id[:8]}"
    ]
    assert all(line.isprintable() for line in lines)


@in_loop
async def test_a_job_that_is_tried_again_is_told_when_no_attempt_is_left(director, told):
    again = "RescheduleOnError = yes; RescheduleInterval = 600; RescheduleTimes = 1"
    agent = await told.with_agent(job("nightly", more=again))
    run = await director.start("nightly")
    for attempt in (1, 2):
        await agent.start(run.id)
        await director.end(agent, run.id, "failed", error_id="store", error="no space")
        await told.look()
        assert told.events() == [("job-failed", "open")] * (attempt - 1)
        await told.look(700)
        run = next(iter(await director.runs(states=("running",))), run)
    assert told.events() == [("job-failed", "open")]
    # A new series of attempts does not end it, until one succeeds.
    run = await director.start("nightly")
    await agent.start(run.id)
    await director.end(agent, run.id, "failed", error_id="store", error="no space")
    await told.look()
    assert told.events() == [("job-failed", "open")]


@in_loop
async def test_an_agent_that_is_away_makes_its_job_missing_once(director, told):
    await told.open()
    for _ in range(12):
        await told.look(DAY / 2)
    assert told.events() == [("job-missing", "open")]
    assert "agent web1" in told.mail.mails[0].get_content()
    agent = await director.agent("web1")
    await director.go()
    for run in await director.runs(states=("running", "waiting", "queued")):
        await director.backed_up(agent, run.id, 1)
    await told.look()
    assert told.events()[-1] == ("job-missing", "resolved")
    assert len(told.events()) == 2


@in_loop
async def test_what_is_due_and_cannot_be_started_is_missing(director, told):
    await told.open(
        'Storage { Name = off; Address = 192.0.2.4; Password = "x"; Device = d; MediaType = File\n'
        "  Enabled = no }\n"
        + job("nightly", more="Schedule = nights").replace("Storage = main", "Storage = off")
    )
    await director.agent("web1")
    await told.look()
    await told.look(9 * 3600 + 300)
    assert told.events() == []
    await told.look(600)
    assert told.events() == [("job-missing", "open")]


@in_loop
async def test_a_run_that_waits_for_others_is_late(director, told):
    await told.open(
        job("nightly", more="Schedule = nights; LateAfter = 2 hours")
        + job("other", "web2")
        + client("web2"),
        concurrent=1,
    )
    agent, other = await director.agent("web1"), await director.agent("web2")
    first = await director.start("other")
    await other.start(first.id)
    await told.look(9 * 3600)
    await told.look(3600)
    assert told.events() == []
    await told.look(3700)
    assert told.events() == [("job-late", "open")]
    await director.backed_up(other, first.id, 1)
    await director.go()
    (run,) = await director.runs(job="nightly")
    await director.backed_up(agent, run.id, 2)
    await told.look()
    assert told.events() == [("job-late", "open"), ("job-late", "resolved")]


@in_loop
async def test_a_run_that_takes_too_long_is_slow(director, told):
    agent = await told.with_agent(job("nightly"))
    run = await director.start("nightly")
    await agent.start(run.id)
    director.time.pass_by(1800)
    await director.backed_up(agent, run.id, 1)
    run = await director.start("nightly")
    await agent.start(run.id)
    await told.look(2 * 3600)
    assert told.events() == []
    await told.look(3600)
    assert told.events() == [("job-slow", "open")]
    await director.backed_up(agent, run.id, 2)
    await told.look()
    assert told.events()[1:] == [("job-slow", "resolved")]


@in_loop
async def test_a_job_without_success_for_too_long_is_overdue(director, told):
    # Somebody cancels it every night: nothing failed, nothing is missing.
    await told.open()
    await director.agent("web1")
    await told.look(9 * 3600)
    for _ in range(6):
        await told.look(DAY / 2)
        for run in await director.runs(states=("running", "waiting", "queued")):
            await director.service.commands.cancel(run.id, OPERATOR)
            await director.settle()
    assert told.events() == [("job-overdue", "open")]


@in_loop
async def test_an_incomplete_backup_is_told_where_that_is_wanted(director, told):
    agent = await told.with_agent(notify="Events = job-incomplete")
    run = await director.start("nightly")
    summary = {"files": 3, "size_bytes": 100, "stored_bytes": 10, "problems": 2}
    await agent.start(run.id)
    await director.end(agent, run.id, "incomplete", snapshot="1" * 64, summary=summary)
    await told.send()
    assert told.events() == [("job-incomplete", "open")]
    # It is another incident when nothing is backed up at all, but not one for these people.
    run = await director.start("nightly")
    await director.end(agent, run.id, "failed", error_id="store", error="no space")
    await told.look()
    assert told.events() == [("job-incomplete", "open")]


def lacking(*names: str, count: int = 0, **more) -> dict[str, object]:
    count = count or len(names)
    paths = {"missing_paths": count, "missing_path_names": list(names)}
    return {"files": 3, "size_bytes": 100, "stored_bytes": 10, "problems": count, **paths, **more}


@in_loop
async def test_a_path_that_is_missing_is_told_once_and_once_that_it_is_back(director, told, fail):
    agent = await told.with_agent()
    number = 0

    async def back_up(*names: str, state: str = "incomplete", **more) -> None:
        nonlocal number
        number += 1
        run = await director.start("nightly")
        await agent.start(run.id)
        summary, snapshot = lacking(*names, **more), f"{number:064x}"
        await director.end(agent, run.id, state, snapshot=snapshot, summary=summary)
        await told.look()
        await told.look(10)

    def news() -> list[str]:
        new = [mail.partition(": ")[::2] for mail in told.mailed()]
        told.mail.mails.clear()
        return [f"{kind} {what.rpartition(' ')[2]}" for kind, what in new]

    await back_up("/srv/a")
    assert told.mailed() == ["warning: the job nightly of web1 does not find /srv/a"]
    assert told.events() == [("path-missing", "open")]
    news()
    await back_up("/srv/a")
    assert news() == []
    # Another one is another incident; a failed run says nothing of paths.
    await back_up("/srv/a", "/srv/b")
    assert news() == ["warning /srv/b"]
    await fail(agent)
    await told.look()
    assert [one.partition(":")[0] for one in told.mailed()] == ["error"]
    news()
    await back_up("/srv/b")
    assert sorted(told.titles()[-2:]) == [
        "the job nightly of web1 does not find /srv/a",
        "the job nightly of web1 failed",
    ]
    news()
    await back_up(state="done")
    assert news() == ["resolved /srv/b"]


@in_loop
async def test_files_that_cannot_be_read_are_no_missing_path_nor_the_other_way_round(
    director, told
):
    agent = await told.with_agent(notify="Events = job-incomplete, path-missing")
    for number, (summary, events) in enumerate(
        (
            (lacking("/srv/a"), [("path-missing", "open")]),
            (lacking(problems=2), [("path-missing", "resolved"), ("job-incomplete", "open")]),
            (lacking("/srv/a", problems=3), [("path-missing", "open")]),
        )
    ):
        before = len(told.events())
        run = await director.start("nightly")
        await agent.start(run.id)
        snapshot = f"{number + 1:064x}"
        await director.end(agent, run.id, "incomplete", snapshot=snapshot, summary=summary)
        await told.look()
        assert sorted(told.events()[before:]) == sorted(events)


@in_loop
async def test_an_agent_that_reports_missing_paths_without_end_floods_nobody(director, told):
    agent = await told.with_agent()
    run = await director.start("nightly")
    await agent.start(run.id)
    evil = ["x\r\nWhat to do: rm -rf /", "a" * 10_000, 7, None, *map(str, range(1000))]
    summary = lacking(*evil, count=2000)
    await director.end(agent, run.id, "incomplete", snapshot="1" * 64, summary=summary)
    await told.look()
    assert told.events() == [("path-missing", "open")] * 21
    assert max(map(len, told.titles())) < 400
    assert any("1,980 more paths" in title for title in told.titles())
    (mail,) = told.mail.mails
    lines = mail.get_content().splitlines()
    assert {line for line in lines if line.startswith("What to do:")} == {
        f"What to do: restore it, or remove it from the FileSet; strongroom log {run.id[:8]}"
    }


@in_loop
async def test_who_cancels_a_run_is_not_told_that_it_failed(director, told):
    await told.open(job("nightly"))
    await director.agent("web1")
    run = await director.start("nightly")
    await director.service.commands.cancel(run.id, OPERATOR)
    director.time.pass_by(60)
    await told.look()
    assert told.events() == []


@in_loop
async def test_a_clock_that_jumps_is_told_once_and_calls_nothing_overdue(director, told):
    agent = await told.with_agent()
    run = await director.start("nightly")
    await director.backed_up(agent, run.id, 1)
    director.time.jump(40 * DAY)
    await told.look()
    await director.restart()
    await told.look()
    assert told.events() == [("clock-jump", "open")]
    director.time.jump(-40 * DAY)
    await told.look()
    assert told.events() == [("clock-jump", "open"), ("clock-jump", "resolved")]


@in_loop
async def test_a_token_that_ends_is_told_fourteen_days_before(director, told):
    await told.open(job("nightly") + "Profile { Name = figures; Command ACL = metrics }\n")
    commands = director.service.commands
    await commands.create_token("prometheus", "figures", 90 * 86400, OPERATOR)
    await commands.create_token("short", "figures", 86400, OPERATOR)
    await told.look(75 * DAY)
    assert told.events() == []
    await told.look(2 * DAY)
    await told.look(DAY)
    assert told.events() == [("token-expiring", "open")]
    await commands.create_token("prometheus", "figures", 90 * 86400, OPERATOR)
    await told.look(700)
    assert told.events() == [("token-expiring", "open"), ("token-expiring", "resolved")]


@in_loop
async def test_a_false_snapshot_is_told_once_for_ever(director, told):
    await told.open(job("nightly"))
    for _ in range(2):
        refused = {"ab" * 32: "says that it is of another client, but web2 stored it"}
        await director.service.notices.found_false("main", refused)
        await told.send()
        await director.restart()
    assert told.events() == [("false-snapshot", "open")]


@in_loop
async def test_a_restore_test_that_fails_and_one_that_is_overdue_are_told(director, told):
    test = job("test", kind="Verify", more="Level = Data; JobToVerify = nightly; Schedule = nights")
    await told.open(
        job("nightly") + test,
        storage='Repository = "/nowhere"; Passphrase File = "/nowhere.passphrase"',
        notify="Events = restore-test-failed, restore-test-overdue",
    )
    await told.look()
    catalog = director.service.context.catalog

    def ended(number: int, state: str) -> None:
        now_ns = director.time.now_ns
        times = {"scheduled_ns": now_ns, "queued_ns": now_ns, "started_ns": now_ns}
        run = Run(id=f"{number:032x}", job="test", client="web1", kind="verify", level="data")
        add_run(catalog, replace(run, state=state, ended_ns=now_ns, **times))

    ended(1, "done")
    await told.look(1800)
    assert told.events() == []
    ended(2, "failed")
    await told.look()
    assert told.events() == [("restore-test-failed", "open")]
    assert "test of web1 failed" in told.mailed()[0]
    director.time.pass_by(1)
    ended(3, "done")
    await told.look()
    assert told.events()[1:] == [("restore-test-failed", "resolved")]
    # The scheduler does not run here, so no one starts it any more.
    director.time.pass_by(40 * 3600)
    await director.service.notices.look()
    await told.send()
    assert told.events()[2:] == [("restore-test-overdue", "open")]


@in_loop
async def test_false_and_lost_snapshots_are_told_until_they_are_settled(director, told):
    await told.open(job("nightly"))
    catalog = director.service.context.catalog
    usual = {"client": "web1", "job": "nightly", "storage": "main"}
    ids = ("1" * 64, "2" * 64)
    records = [
        Snapshot(id=one, start_ns=number, server_ns=number, **usual)
        for number, one in enumerate(ids, 1)
    ]
    add_snapshots(catalog, records)
    await told.look()
    assert told.events() == []
    note_false(catalog, {ids[0]: "lacks a block"})
    note_removed(catalog, [ids[1]], director.time.now_ns, GONE)
    for _ in range(2):
        await told.look()
    assert sorted(told.events()) == [("false-snapshot", "open"), ("snapshot-missing", "open")]
    assert "lacks a block" in told.mail.mails[0].get_content()
    note_false(catalog, {ids[0]: ""})
    note_returned(catalog, [ids[1]], GONE)
    await told.look()
    assert sorted(told.events()[2:]) == [
        ("false-snapshot", "resolved"),
        ("snapshot-missing", "resolved"),
    ]


@in_loop
async def test_an_agent_that_stores_false_snapshots_without_end_floods_nobody(director, told):
    await told.open(job("nightly"))
    catalog = director.service.context.catalog
    usual = {"client": "web1", "job": "nightly", "storage": "main"}
    ids = [f"{number:064x}" for number in range(1, 3001)]
    records = [
        Snapshot(id=one, start_ns=number, server_ns=number, **usual)
        for number, one in enumerate(ids, 1)
    ]
    add_snapshots(catalog, records)
    note_false(catalog, dict.fromkeys(ids, "lacks a block"))
    refused = {f"{number:064x}": "is damaged" for number in range(5000, 45_000)}
    await director.service.notices.found_false("main", refused)
    for _ in range(3):
        await told.look()
    assert len(told.web.asked) == 1
    assert len((await director.service.queries.notices()).incidents) == 21
    text = told.mail.mails[0].get_content()
    assert "39981 more snapshots in storage main are false or damaged" in text
    assert "41 notices" in told.mailed()[0]
    assert outbox.dead_letters(catalog) == []


@in_loop
async def test_a_job_that_failed_and_succeeded_long_ago_only_is_judged_by_that(director, told):
    agent = await told.with_agent(
        job("quarterly", more="Schedule = quarters; OverdueAfter = 100 days")
        + "Schedule { Name = quarters; Run = on 1 jan, apr, jul, oct at 3:00; }\n"
    )
    run = await director.start("quarterly")
    await director.backed_up(agent, run.id, 1)
    director.time.pass_by(3600)
    run = await director.start("quarterly")
    await agent.start(run.id)
    await director.end(agent, run.id, "failed", error_id="store", error="no space")
    await told.look()
    # The scheduler does not run here, and the failed run is 95 days old.
    director.time.pass_by(95 * DAY)
    catalog = director.service.context.catalog
    found, _ = JobWatch(director.service.context).conditions([])
    assert [one.event for one in found] == ["job-failed"]
    assert len(job_histories(catalog, since_ns=director.time.now_ns - 40 * 86400 * 10**9)) == 0


@in_loop
async def test_a_backup_of_far_less_than_usual_is_told_until_it_is_accepted(director, told):
    agent = await told.with_agent()
    short = {"files": 0, "size_bytes": 0, "empty_paths": ["/home"]}
    for number, changes in enumerate(({"files": 90, "size_bytes": 9000}, short, short), 1):
        run = await director.start("nightly")
        await agent.start(run.id)
        await director.end(agent, run.id, snapshot=f"{number:064x}", summary=changes)
        await told.look()
    assert told.events() == [("backup-short", "open")]
    await director.service.commands.accept(run.id, OPERATOR)
    await told.look()
    assert told.events()[1:] == [("backup-short", "resolved")]


@in_loop
async def test_two_agents_with_one_identity_are_told_until_it_is_decided(director, told):
    await told.open(job("nightly"))
    await director.agent("web1")
    rivals = director.service.agents.rivals
    seen = [
        SeenAgent(instance=name, boot_id=name, machine=name, address=f"192.0.2.{number}")
        for number, name in enumerate("ab")
    ]
    await rivals.found("web1", *seen, issued=1)
    await told.look()
    assert told.events() == [("two-agents", "open")]
    waits = await director.start("nightly")
    assert waits.state == "waiting"
    # The director is restarted; the copy has been ended meanwhile.
    await rivals.load()
    assert await rivals.refusal("web1", seen[1], lambda _: False)
    assert not await rivals.refusal("web1", seen[0], lambda _: False)
    await rivals.look()
    assert "web1" in director.service.context.rivals
    director.time.pass_by(3700)
    await rivals.look()
    await director.go()
    assert (await director.run(waits.id)).state == "running"
    await told.look()
    assert told.events() == [("two-agents", "open"), ("two-agents", "resolved")]


@in_loop
async def test_a_client_that_is_offline_for_days_is_told_once(director, told):
    agent = await told.with_agent()
    for _ in range(9):
        await told.look(3600)
    (run,) = await director.runs(states=("running",))
    await director.backed_up(agent, run.id, 1)
    await agent.disconnect()
    for _ in range(5 * 8):
        await told.look(3 * 3600)
    assert len(await director.runs(states=("cancelled",))) == 4
    # As long as it is offline nothing is said to be over.
    assert told.events() == [("job-missing", "open")]
    await agent.connect()
    await director.settle()
    (run,) = await director.runs(states=("running",))
    await director.backed_up(agent, run.id, 2)
    await told.look()
    assert told.events()[-1][1] == "resolved"
