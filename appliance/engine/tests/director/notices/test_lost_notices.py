"""What was not delivered is not told: it is sent when its destination works, is new or changed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from kit.director_in_process import OPERATOR, in_loop, job
from strongroom.base.errors import CatalogUnavailableError
from strongroom.director.catalog import outbox
from strongroom.director.notices import notice_service

DAY = 86400.0
HOUR = 3600.0
UNAVAILABLE = [("catalog-unavailable", "open"), ("catalog-unavailable", "resolved")]


@pytest.fixture
def change(director):
    """Changes the configuration by a replacement, and reloads it."""

    async def change(old: str, new: str) -> None:
        file = director.folder / "etc/director.d/all/all.conf"
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
        assert (await director.service.commands.reload(OPERATOR)).is_loaded

    return change


async def failing_and_undelivered(director) -> tuple[list[str], set[str]]:
    """What `status` and /metrics say of destinations that accept nothing."""
    status = await director.service.queries.status()
    shown = [one.event for one in status.problems if one.event == "notices-undelivered"]
    figures = {one.name: one.samples for one in await director.service.queries.metrics()}
    told = {labels["event"] for labels, _ in figures["strongroom_incidents"]}
    return shown, told & {"notices-undelivered"}


@in_loop
async def test_what_lasts_is_told_when_the_mail_server_is_back_after_a_week(director, told, fail):
    await told.open(job("nightly") + job("other"))
    told.mail.stop()
    agent = await director.agent("web1")
    await fail(agent)
    for night in range(7):
        if night == 3:
            await fail(agent, "other")
        for _ in range(4):
            await told.look(6 * HOUR)
    assert told.mail.mails == []
    told.mail.start()
    await told.look(HOUR)
    await told.look(HOUR)
    assert len(told.mail.mails) == 1
    text = told.mail.mails[0].get_content()
    assert "nightly" in text
    assert "other" in text
    # Neither a restart nor another look tells it again.
    await director.restart()
    await told.look(DAY)
    assert len(told.mail.mails) == 1


@in_loop
async def test_an_incident_that_opened_before_notices_were_set_up_is_told(
    director, told, fail, change
):
    told.configure()
    file = director.folder / "etc/director.d/all/all.conf"
    whole = file.read_text()
    file.write_text(whole.replace("Messages = People", "Messages = None1") + NONE)
    await director.open()
    await fail(await director.agent("web1"))
    await told.look(5 * DAY)
    assert (told.events(), told.mailed()) == ([], [])
    # The Messages of the job at that time were others.
    await change("Messages = None1", "Messages = People")
    await told.look()
    await told.look(DAY)
    assert told.events().count(("job-failed", "open")) == 1
    assert len(told.mailed()) == 1


NONE = "Messages { Name = None1; Console = all }\n"


@in_loop
async def test_events_that_a_destination_wants_from_now_on_are_told_of_what_lasts(
    director, told, fail, change
):
    await told.open(notify="Events = disk-full")
    await fail(await director.agent("web1"))
    await told.look(DAY / 10)
    assert told.events() == []
    await change("Events = disk-full", "Events = disk-full, job-failed")
    await told.look()
    assert told.events() == [("job-failed", "open")]


@in_loop
async def test_a_destination_that_means_another_place_now_is_told_what_lasts(
    director, told, fail, change
):
    await told.open()
    await fail(await director.agent("web1"))
    await told.look()
    assert len(told.mail.mails) == len(told.web.asked) == 1
    await change(f'URL = "{told.web.url}/in"', f'URL = "{told.web.url}/other"')
    await told.look()
    await told.look()
    assert [one.path for one in told.web.asked] == ["/in", "/other"]
    assert len(told.mail.mails) == 1


@in_loop
async def test_what_lasts_is_repeated_once_a_week_in_one_message(director, told, fail):
    agent = await told.with_agent(job("nightly") + job("other"))
    await fail(agent)
    await told.look()
    await told.look(3 * DAY)
    await fail(agent, "other")
    for _ in range(27):
        await told.look(DAY)
    # Each of both once, and four weekly reminders of both.
    assert len(told.mail.mails) == 2 + 4
    for mail in told.mail.mails[2:]:
        assert len(mail["X-Strongroom-Incidents"].split()) == 2
    reminders = [one for asked in told.web.asked for one in asked.json["notices"]]
    assert [one["reminder"] for one in reminders] == [False] * 2 + [True] * 8


@in_loop
async def test_the_only_destination_that_fails_is_shown_until_it_works(director, told, fail):
    told.configure(notify="Events = job-failed", text=job("nightly"))
    file = director.folder / "etc/director.d/all/all.conf"
    lines = [one for one in file.read_text().splitlines() if "Name = hook" not in one]
    file.write_text("\n".join(lines))
    await director.open()
    told.mail.refuses = "550 no such user"
    agent = await director.agent("web1")
    await fail(agent)
    await told.look()
    run = await director.start("nightly")
    await director.backed_up(agent, run.id, 1)
    for _ in range(40):
        await told.look(DAY)
    await director.restart()
    await told.look()
    shown, counted = await failing_and_undelivered(director)
    assert (shown, counted) == (["notices-undelivered"], {"notices-undelivered"})
    told.mail.refuses = ""
    (test,) = await director.service.notices.test("", "ann")
    assert not test.error
    await told.look()
    assert await failing_and_undelivered(director) == ([], set())


@in_loop
async def test_an_address_that_answers_no_ping_is_shown_until_it_does(director, told, secret_file):
    ping = secret_file(f"{told.web.url}/ping")
    agent = await told.with_agent(job("nightly", more=f'Schedule = nights\nPing File = "{ping}"'))
    told.web.answers = [404] * 10_000
    shown = []
    for number in range(1, 24 + 14 * 4):
        await told.look(HOUR if number < 24 else 6 * HOUR)
        for run in await director.runs(states=("running", "waiting", "queued")):
            await director.backed_up(agent, run.id, number)
        problems = (await director.service.queries.status()).problems
        shown.append(any("ping:nightly" in one.title for one in problems))
    first = shown.index(True)
    assert all(shown[first:])
    told.web.answers = []
    for number in range(400, 426):
        await told.look(HOUR)
        for run in await director.runs(states=("running", "waiting", "queued")):
            await director.backed_up(agent, run.id, number)
    assert (await director.service.queries.status()).problems == ()


@in_loop
async def test_a_digest_covers_those_that_were_not_delivered(director, told, fail):
    await told.open(job("nightly"), notify="Digest At = 7:30")
    await told.look()
    told.mail.stop()
    await fail(await director.agent("web1"))
    for _ in range(5 * 24):
        await told.look(HOUR)
    waits = outbox.waiting(director.service.context.catalog)["People/mail:ann@example.org"]
    assert sum(one.form == "digest" for one in waits) == 1
    told.mail.start()
    for _ in range(3):
        await told.look(HOUR)
    digests = [one for one in told.mail.mails if "digest:" in one["Subject"]]
    assert len(digests) == 1
    assert "1 failed" in digests[0]["Subject"]


def backends(cluster) -> list[int]:
    """The processes of the server that answer the director."""
    main = (cluster.folder / "data" / "postmaster.pid").read_text().split()[0]
    children = (Path("/proc") / main / "task" / main / "children").read_text().split()
    return [int(one) for one in children if b"[local]" in cmdline(one)]


def cmdline(process: str) -> bytes:
    return (Path("/proc") / process / "cmdline").read_bytes()


@in_loop
async def test_a_catalog_that_hangs_is_told(director, told, own_cluster, monkeypatch):
    monkeypatch.setattr(notice_service, "HANGING_SECONDS", 0.2)
    await told.open(catalog=f"Catalog {{ Name = C; {own_cluster.new_catalog()} }}")
    await told.look()
    stopped = backends(own_cluster)
    assert stopped
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        looking = asyncio.create_task(director.service.notices.look())
        while not told.web.asked:
            director.time.pass_by(60)
            await asyncio.sleep(0.1)
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    await looking
    await told.look()
    assert told.events() == UNAVAILABLE


@in_loop
async def test_a_database_that_became_read_only_is_told(director, told, own_cluster):
    await told.open(catalog=f"Catalog {{ Name = C; {own_cluster.new_catalog()} }}")
    await told.look()
    for value, events in (("on", UNAVAILABLE[:1]), ("off", UNAVAILABLE)):
        own_cluster.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        own_cluster.execute("SELECT pg_reload_conf()")
        with suppress(CatalogUnavailableError):
            await director.start("nightly")
        for _ in range(3):
            await told.look_if_it_can()
        with suppress(CatalogUnavailableError):
            await told.send()
        assert told.events() == events


@pytest.fixture
def failing_disk(director):
    """The working directory on its own file system, which the kernel can make read-only."""
    place, image = director.folder / "work", director.folder / "image"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    words = ["mount", "-o", "loop", str(image), str(place)]
    if os.geteuid() or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def abort(place: Path) -> None:
    """What the kernel does after an error of the disk; mount reports its own error."""
    words = ["mount", "-o", "remount,abort", str(place)]
    subprocess.run(words, check=False, capture_output=True)


@in_loop
async def test_a_catalog_whose_disk_became_read_only_is_told(director, told, failing_disk):
    await told.open()
    await told.look()
    abort(failing_disk)
    with pytest.raises(CatalogUnavailableError):
        await director.start("nightly")
    for _ in range(3):
        await told.look_if_it_can()
    assert told.events() == UNAVAILABLE[:1]
