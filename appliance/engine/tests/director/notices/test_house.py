"""Disks, certificates and the catalog: each is reported once, and once that it is over."""

from __future__ import annotations

import os
from contextlib import contextmanager

import pytest

from kit.connections import House
from kit.director_in_process import OPERATOR, in_loop, job
from strongroom.base.errors import CatalogUnavailableError
from strongroom.director.catalog.database import Catalog
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.servable import Space
from strongroom.net.identities.trust import roots_of

DAY = 86400.0


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A repository's folder on a disk whose free space a test says."""
    (tmp_path / "repository").mkdir()
    state = {"used": 50}
    monkeypatch.setattr(LocalStore, "space", lambda _: Space(100 - state["used"], 100))
    return state


async def looked(director, told) -> list[tuple[str, str]]:
    await director.service.notices.measure()
    before = len(told.events())
    await told.look(600)
    return told.events()[before:]


@in_loop
async def test_a_disk_that_fills_is_told_when_nearly_full_when_full_and_when_it_is_over(
    director, told, disk
):
    await told.open(job("nightly"), storage=f'Repository = "{director.folder}/repository"')
    assert await looked(director, told) == []
    disk["used"] = 91
    assert await looked(director, told) == [("disk-nearly-full", "open")]
    disk["used"] = 89
    assert await looked(director, told) == []
    await director.restart()
    # A director that has not looked yet ends no incident.
    await told.look(60)
    assert told.events() == [("disk-nearly-full", "open")]
    disk["used"] = 98
    assert await looked(director, told) == [("disk-full", "open")]
    disk["used"] = 93
    assert await looked(director, told) == []
    disk["used"] = 70
    assert await looked(director, told) == [("disk-full", "resolved")]


@in_loop
async def test_a_disk_that_will_be_full_within_days_is_told(director, told, disk):
    await told.open(job("nightly"), storage=f'Repository = "{director.folder}/repository"')
    disk["used"] = 10
    # It fills by ten percent, but shrinks again each day: nothing will be full.
    for _ in range(10):
        await director.service.notices.measure()
        await told.look(DAY)
    assert told.events() == []
    for used in range(14, 46, 4):
        disk["used"] = used
        await director.service.notices.measure()
        await told.look(DAY)
    assert told.events() == []
    for used in (60, 75):
        disk["used"] = used
        await director.service.notices.measure()
        await told.look(DAY)
    assert told.events() == [("disk-filling", "open")]
    disk["used"] = 98
    assert await looked(director, told) == [("disk-full", "open")]
    disk["used"] = 20
    assert await looked(director, told) == [("disk-full", "resolved")]


@in_loop
async def test_the_thresholds_of_a_disk_can_be_set(director, told, disk):
    storage = f'Repository = "{director.folder}/repository"; Nearly Full At = 40; Full At = 0'
    await told.open(job("nightly"), storage=storage)
    assert await looked(director, told) == [("disk-nearly-full", "open")]
    disk["used"] = 99
    assert await looked(director, told) == []


@in_loop
async def test_a_repository_that_cannot_be_reached_is_told(director, told):
    await told.open(job("nightly"), storage='Repository = "unix:/nothing/there.sock"')
    assert await looked(director, told) == []
    assert await looked(director, told) == [("storage-unreachable", "open")]
    assert await looked(director, told) == []


@in_loop
async def test_a_certificate_that_nobody_renews_is_told_before_and_when_it_ends(director, told):
    authority = House(director.folder).authority
    told.configure(job("nightly"))
    file = director.folder / "etc/director.d/all/all.conf"
    place = f'Director {{ Authority Directory = "{os.fsdecode(authority.folder)}"; '
    file.write_text(file.read_text().replace("Director {", place, 1))
    await director.open()
    await told.look(20 * DAY)
    assert told.events() == []
    await told.look(11 * DAY)
    # An agent's ends after a month, and web1 is the only client.
    assert told.events() == [("certificate-expired", "open")]
    assert "agent web1" in told.mail.mails[0].get_content()
    await told.look(44 * DAY)
    assert len(told.events()) == 1
    await told.look(2 * DAY)
    assert told.events()[1:] == [("certificate-expiring", "open")] * 3
    await told.look(DAY)
    authority.issue_identity(str(director.folder / "vault"), "vault", "storage", ("vault",))
    before = len(told.events())
    await told.look(700)
    assert told.events()[before:] == [("certificate-expiring", "resolved")]
    await told.look(20 * DAY)
    assert told.events()[before + 1 :] == [("certificate-expired", "open")] * 2


@in_loop
async def test_the_end_of_the_authority_itself_is_told(director, told):
    authority = House(director.folder).authority
    told.configure(job("nightly"), notify="Events = certificate-expiring, certificate-expired")
    file = director.folder / "etc/director.d/all/all.conf"
    place = f'Director {{ Authority Directory = "{os.fsdecode(authority.folder)}"; '
    file.write_text(file.read_text().replace("Director {", place, 1))
    await director.open()
    ends = roots_of(authority.certificate_pem)[0].not_valid_after_utc
    left = ends.timestamp() - director.time.now_ns / 1e9
    await told.look(left - 190 * DAY)
    before = told.titles()
    await told.look(20 * DAY)
    assert told.titles()[len(before) :] == ["the certificate of the authority ends soon"]


@in_loop
async def test_a_catalog_that_is_away_is_told_from_memory_and_once(director, told, monkeypatch):
    await told.open(job("nightly"))
    reading = Catalog.reading
    notices = director.service.notices

    @contextmanager
    def away(catalog):
        raise CatalogUnavailableError("the disk is full")
        yield

    monkeypatch.setattr(Catalog, "reading", away)
    told.web.answers = [500]
    for _ in range(5):
        director.time.pass_by(60)
        await notices.look()
    assert told.mailed() == ["error: the director's catalog is not available; no job can start"]
    # The webhook failed once, and was asked again.
    assert list(told.events()) == [("catalog-unavailable", "open")] * 2
    monkeypatch.setattr(Catalog, "reading", reading)
    for _ in range(3):
        await told.look()
    assert told.mailed()[1:] == [
        "resolved: the director's catalog is not available; no job can start"
    ]
    assert told.events()[2:] == [("catalog-unavailable", "resolved")]


@in_loop
async def test_a_configuration_that_is_refused_is_told_if_nobody_mends_it(director, told):
    await told.open(job("nightly"))
    file = director.folder / "etc/director.d/all/all.conf"
    right = file.read_text()
    commands = director.service.commands
    for fixed_after, events in ((120, 0), (400, 1)):
        file.write_text(right + "Job { Name = nihgtly; Job Defs = none }\n")
        assert not (await commands.reload(OPERATOR)).is_loaded
        await told.look(60)
        await told.look(fixed_after)
        await told.look(60)
        assert told.events() == [("configuration-refused", "open")] * events
        file.write_text(right)
        assert (await commands.reload(OPERATOR)).is_loaded
        await told.look(60)
    assert "all.conf:" in told.mail.mails[0].get_content()
    assert told.events()[1:] == [("configuration-refused", "resolved")]
