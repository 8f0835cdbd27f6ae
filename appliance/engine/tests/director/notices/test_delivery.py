"""What waits is sent when its server is back, in its order, together, bounded, each once."""

from __future__ import annotations

from kit.director_in_process import in_loop, job
from strongroom.director.catalog import outbox
from strongroom.director.catalog.outbox import OutgoingMessage
from strongroom.director.notices import delivery
from strongroom.service.notices import web_requests

DAY = 86400.0


def many(count: int, more: str = "") -> str:
    names = [f"job{number}" for number in range(count)]
    return "".join(job(name, more=more) for name in names)


@in_loop
async def test_a_server_that_is_away_gets_everything_once_it_is_back(director, told, fail):
    await told.open()
    told.mail.stop()
    told.web.stop()
    agent = await director.agent("web1")
    await fail(agent)
    for seconds in (11, 31, 61):
        await told.send(seconds)
    await director.restart()
    agent = await director.agent("web1")
    run = await director.start("nightly")
    await director.backed_up(agent, run.id, 1)
    await told.look()
    assert (told.mail.mails, told.web.asked) == ([], [])
    told.mail.start()
    told.web.start()
    for _ in range(20):
        await told.send(60)
    assert told.events() == [("job-failed", "open"), ("job-failed", "resolved")]
    # One mail tells both.
    assert told.mailed() == ["2 notices: 1 error, 1 resolved"]


@in_loop
async def test_a_failing_server_is_asked_at_growing_intervals(director, told, fail):
    await told.open()
    told.web.answers = [500] * 1000
    await fail(await director.agent("web1"))
    for _ in range(24 * 60):
        await told.send(60)
    # Doubled from 30 seconds up to an hour: not every minute of the day.
    assert 24 <= len(told.web.asked) <= 40
    assert len(told.mail.mails) == 1


@in_loop
async def test_a_mail_that_was_cut_off_is_sent_again_and_comes_once(director, told, fail):
    await told.open()
    told.mail.dies_in_data = True
    await fail(await director.agent("web1"))
    await told.send()
    told.mail.dies_in_data = False
    for _ in range(5):
        await told.send(120)
    assert told.mailed() == ["error: the job nightly of web1 failed"]


@in_loop
async def test_a_message_sent_again_has_the_same_id(director, told, fail):
    await told.open()
    await fail(await director.agent("web1"))
    catalog = director.service.context.catalog
    messages = [one for queued in outbox.waiting(catalog).values() for one in queued]
    await told.send()
    # As if the director had died after the servers' answers.
    outbox.post(catalog, messages)
    await director.restart()
    await told.send()
    ids = [mail["Message-ID"] for mail in told.mail.mails]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert len({asked.json["id"] for asked in told.web.asked}) == 1


@in_loop
async def test_what_fails_for_days_waits_and_the_others_are_told(director, told, fail):
    await told.open()
    told.mail.refuses = "550 no such user"
    await fail(await director.agent("web1"))
    for _ in range(80):
        await told.look(3600)
    assert told.events() == [("job-failed", "open"), ("notices-undelivered", "open")]
    overview = await director.service.queries.notices()
    assert (overview.waiting, overview.dead) == (1, ())
    status = await director.service.queries.status()
    (failing,) = (one for one in status.problems if one.event == "notices-undelivered")
    assert "550 no such user" in failing.detail
    told.mail.refuses = ""
    assert await director.service.notices.retry() == 1
    for _ in range(3):
        await told.look(60)
    assert told.mailed() == ["error: the job nightly of web1 failed"]
    assert told.events()[2:] == [("notices-undelivered", "resolved")]


@in_loop
async def test_a_report_that_fails_for_three_days_is_a_dead_letter(director, told, fail):
    await told.open(messages="Mail = ann@example.org = all", notify="Events = disk-full")
    told.mail.refuses = "550 no such user"
    await fail(await director.agent("web1"))
    await told.look(10 * DAY)
    # After a long downtime the first failure gives nothing up.
    assert (await director.service.queries.notices()).dead == ()
    for _ in range(10):
        await told.look(3600)
    overview = await director.service.queries.notices()
    assert [one.form for one in overview.dead] == ["report"]
    assert "550 no such user" in overview.dead[0].error
    status = await director.service.queries.status()
    assert any("could not be delivered" in one for one in status.warnings)
    figures = {one.name: one.samples for one in await director.service.queries.metrics()}
    assert figures["strongroom_notices_dead"] == (({}, 1.0),)
    told.mail.refuses = ""
    assert await director.service.notices.retry() == 1
    await told.look()
    assert len(told.mail.mails) == 1


@in_loop
async def test_what_happens_together_is_told_together(director, told, fail):
    agent = await told.with_agent(many(40))
    for number in range(40):
        await fail(agent, f"job{number}")
    await told.send()
    assert told.mailed() == ["40 notices: 30 errors, 10 more"]
    assert "... and 10 more" in told.mail.mails[0].get_content()
    assert len(told.web.asked) == 1


@in_loop
async def test_a_destination_gets_so_many_messages_in_an_hour(director, told, fail):
    agent = await told.with_agent(many(30), notify="Maximum Per Hour = 3")
    for number in range(30):
        await fail(agent, f"job{number}")
        await told.send(60)
    assert len(told.mail.mails) == len(told.web.asked) == 3
    for _ in range(60):
        await told.send(60)
    assert len(told.web.asked) == 4
    assert len(told.events()) == 30


@in_loop
async def test_the_outbox_is_bounded(director, told, fail, monkeypatch):
    monkeypatch.setattr(outbox, "MOST_WAITING", 5)
    await told.open(many(20))
    told.mail.stop()
    agent = await director.agent("web1")
    for number in range(20):
        await fail(agent, f"job{number}")
    catalog = director.service.context.catalog
    assert max(outbox.waiting_counts(catalog).values()) == 5
    told.mail.start()
    for _ in range(12):
        await told.look(3600)
    # The others follow when there is room.
    assert sum(len(one["X-Strongroom-Incidents"].split()) for one in told.mail.mails) == 20
    assert outbox.dead_letters(catalog) == []


@in_loop
async def test_each_address_is_refused_or_served_for_itself(director, told, fail):
    told.configure()
    file = director.folder / "etc/director.d/all/all.conf"
    file.write_text(
        file.read_text().replace("To = ann@example.org", "To = a@b.example, c@d.example")
    )
    await director.open()
    await fail(await director.agent("web1"))
    await told.send()
    assert sorted(told.mail.recipients) == ["a@b.example", "c@d.example"]


@in_loop
async def test_a_destination_that_was_taken_away_gets_nothing_more(director, told, fail):
    await told.open()
    told.mail.stop()
    await fail(await director.agent("web1"))
    await told.send()
    file = director.folder / "etc/director.d/all/all.conf"
    file.write_text(file.read_text().replace("Name = mail; Type", "Name = post; Type"))
    await director.restart()
    told.mail.start()
    await told.send(3600)
    assert told.mail.mails == []
    (dead,) = (await director.service.queries.notices()).dead
    assert "no longer in the configuration" in dead.error


@in_loop
async def test_a_clock_that_was_ahead_delays_no_message(director, told, fail):
    await told.open()
    director.time.jump(400 * DAY)
    told.web.answers = [500]
    await fail(await director.agent("web1"))
    await told.send()
    director.time.jump(-400 * DAY)
    await told.send()
    assert ("job-failed", "open") in told.events()


@in_loop
async def test_a_server_that_hangs_delays_no_other(director, told, fail, monkeypatch):
    monkeypatch.setattr(delivery, "ROUND_SECONDS", 3.0)
    agent = await told.with_agent(job("nightly") + job("other"))
    told.web.answering.clear()
    for number, name in enumerate(("nightly", "other"), 1):
        await fail(agent, name)
        await told.send()
        assert len(told.mail.mails) == number
    told.web.answering.set()
    for _ in range(3):
        await told.send(40)
    assert told.events() == [("job-failed", "open")] * 2


@in_loop
async def test_many_servers_that_hang_delay_no_other_for_long(director, told, fail, monkeypatch):
    monkeypatch.setattr(delivery, "ROUND_SECONDS", 3.0)
    monkeypatch.setattr(web_requests, "STEP_SECONDS", 1.0)
    more = "".join(
        f'Notify {{ Name = hook{number}; Type = Webhook; URL = "{told.web.url}/{number}" }}\n'
        for number in range(3 * delivery.THREADS)
    )
    agent = await told.with_agent(job("nightly") + job("other"), messages=more)
    told.web.answering.clear()
    await fail(agent, "nightly")
    for _ in range(3):
        await told.send()
    # By now it is known which hang.
    monkeypatch.setattr(web_requests, "STEP_SECONDS", 20.0)
    before = len(told.mail.mails)
    await fail(agent, "other")
    await told.send(4000)
    assert len(told.mail.mails) > before
    told.web.answering.set()


@in_loop
async def test_a_message_that_is_damaged_waits_with_pauses_and_harms_no_other(
    director, told, fail, caplog
):
    await told.open()
    catalog = director.service.context.catalog
    damaged = OutgoingMessage(
        id="1", destination="People/hook", form="notice", subject="", created_ns=1
    )
    outbox.post(catalog, [damaged])
    await fail(await director.agent("web1"))
    for _ in range(30):
        await told.send(60)
    assert len(told.mail.mails) == 1
    first, *_ = outbox.waiting(catalog)["People/hook"]
    assert 3 <= first.attempts <= 8
    assert "Traceback" not in caplog.text
    assert "People/hook has a fault" in caplog.text


@in_loop
async def test_a_job_whose_messages_have_no_notify_is_told_to_those_of_the_director(
    director, told, fail
):
    await told.open(
        "Messages { Name = Quiet; Console = all }\n"
        + job("nightly").replace("Messages = Standard", "Messages = Quiet")
    )
    await fail(await director.agent("web1"))
    await told.send()
    assert told.events() == [("job-failed", "open")]
