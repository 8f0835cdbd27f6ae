"""Reports of runs by mail and by command, pings and digests go through the outbox."""

from __future__ import annotations

from kit.director_in_process import in_loop, job

DAY = 86400.0
NONE = "Events = !all"


@in_loop
async def test_mail_on_error_goes_to_the_mail_server(director, told, fail):
    agent = await told.with_agent(
        notify=NONE, messages="Mail On Error = ops@example.org, ann@example.org = all"
    )
    told.mail.stop()
    await fail(agent)
    await told.send()
    told.mail.start()
    await told.send(60)
    assert sorted(told.mail.recipients) == ["ann@example.org", "ops@example.org"]
    assert "dir: nightly of web1: failed" in told.mail.subjects()
    assert "no space" in told.mail.mails[0].get_content()
    run = await director.start("nightly")
    await director.backed_up(agent, run.id, 1)
    await told.send()
    assert len(told.mail.mails) == 2


@in_loop
async def test_the_mail_command_of_bareos_gets_the_report(director, told, fail):
    out = director.folder / "mailed"
    command = f"Mail Command = \"sh -c 'cat > {out}; echo %e %c %r >> {out}'\""
    await told.open(notify=NONE, messages=f"{command}\nMail = ann, bob = all, !skipped")
    run = await fail(await director.agent("web1"))
    await told.send()
    assert run.id in out.read_text()
    assert out.read_text().endswith("failed web1 ann bob\n")
    assert told.mail.mails == []


@in_loop
async def test_a_watchdog_is_pinged_at_start_success_and_failure(director, told, fail, secret_file):
    file = secret_file(f"{told.web.url}/uuid")
    agent = await told.with_agent(job("nightly", more=f'Ping File = "{file}"'), notify=NONE)
    run = await director.start("nightly")
    await told.send()
    await director.backed_up(agent, run.id, 1)
    await told.send()
    await fail(agent)
    await told.send()
    assert [asked.path for asked in told.web.asked] == [
        "/uuid/start", "/uuid", "/uuid/start", "/uuid/fail",
    ]  # fmt: skip


@in_loop
async def test_a_start_is_not_told_hours_later(director, told, fail, secret_file):
    file = secret_file(f"{told.web.url}/uuid")
    agent = await told.with_agent(job("nightly", more=f'Ping File = "{file}"'), notify=NONE)
    told.web.stop()
    run = await director.start("nightly")
    await told.send(3600)
    await director.backed_up(agent, run.id, 1)
    await told.send(3600)
    told.web.start()
    await told.send(3600)
    assert [asked.path for asked in told.web.asked] == ["/uuid"]


@in_loop
async def test_a_digest_comes_every_morning_once(director, told, fail):
    agent = await told.with_agent(
        job("nightly") + job("broken"), notify="Digest At = 7:30", zone="Europe/Vienna"
    )
    await told.look()
    run = await director.start("nightly")
    await director.backed_up(agent, run.id, 1)
    await fail(agent, "broken")
    await told.look()
    assert len(told.mail.mails) == 1
    # It is 13:02 in Vienna.
    await told.look(18 * 3600 + 27 * 60)
    await director.restart()
    await told.look(3600)
    digests = [mail for mail in told.mail.mails if "digest" in mail["Subject"]]
    assert [mail["Subject"] for mail in digests] == [
        "[dir] digest: 1 done, 1 failed; 1 problem now"
    ]
    text = digests[0].get_content()
    assert "Runs that ended: 1 done, 1 failed." in text
    assert "broken of web1: failed" in text
    assert "error: the job broken of web1 failed" in text
    assert "main: 0.000 GiB more" in text
    await told.look(DAY)
    assert [asked.json["subject"] for asked in told.web.asked][-1].startswith(
        "[dir] digest: no runs"
    )


@in_loop
async def test_after_days_of_downtime_one_digest_covers_them(director, told):
    await told.open(job("nightly"), notify="Digest At = 7:30")
    await told.look()
    await told.look(5 * DAY)
    await told.look()
    assert len(told.mail.mails) == 1
    assert "From 2026-11-21 07:30 UTC to" in told.mail.mails[0].get_content()
