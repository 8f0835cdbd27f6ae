"""A damaged catalog is reported once, at once, not backed up, and recovered by one command."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from contextlib import suppress

import pytest

from kit.damaged_file import damage_pages
from kit.director_in_process import client, in_loop, job
from kit.director_with_repositories import ADMIN, Place
from kit.prepared_commands import run_for_text
from kit.virtual_time import ShiftedTime
from strongroom.base.errors import CatalogDamagedError, CatalogError
from strongroom.director.configuration import load_configuration
from strongroom.director.director import Director
from strongroom.director.notices.catalog_trouble import FILE, tell_at_start
from strongroom.director.own_jobs.catalog_copies import recover_catalog
from strongroom.director.results.snapshots import SnapshotFilter

DAMAGED = "error: the director's catalog is damaged; no job can start"


def catalog_file(director):
    return director.folder / "work" / "catalog.sqlite"


def configuration(director) -> str:
    return str(director.folder / "etc")


@in_loop
async def test_a_catalog_that_is_damaged_meanwhile_is_told_once_until_it_is_recovered(
    director, told, fail
):
    agent = await told.with_agent()
    await fail(agent)
    await told.look()
    damage_pages(catalog_file(director), "runs")
    damage_pages(catalog_file(director), "incidents")
    for _ in range(3):
        await told.look_if_it_can()
    assert told.events().count(("catalog-damaged", "open")) == 1
    assert told.mailed().count(DAMAGED) == 1
    await director.close()
    # It cannot start either, and says so to no one who knows it already.
    loaded = load_configuration(configuration(director))
    for _ in range(2):
        with pytest.raises(CatalogDamagedError) as damaged:
            await Director.open(configuration(director), None)
        await tell_at_start(loaded.settings, damaged.value)
    assert told.mailed().count(DAMAGED) == 1
    assert recover_catalog(configuration(director), loaded).source == "repositories"
    await director.open()
    for _ in range(2):
        await told.look()
    assert told.events()[-1] == ("catalog-damaged", "resolved")
    assert not (director.folder / "work" / FILE).exists()


@in_loop
async def test_a_director_that_finds_its_catalog_damaged_when_it_starts_tells_it(director, told):
    await told.open()
    await director.close()
    damage_pages(catalog_file(director))
    loaded = load_configuration(configuration(director))
    with pytest.raises(CatalogDamagedError) as damaged:
        await Director.open(configuration(director), None)
    await tell_at_start(loaded.settings, damaged.value)
    assert told.mailed() == [DAMAGED]
    catalog_file(director).unlink()
    await director.open()


@pytest.fixture
def place(tmp_path, monkeypatch):
    return Place(tmp_path, ShiftedTime(monkeypatch))


def recovered(place) -> dict:
    words = ("catalog", "recover", "--json", "--config", str(place.folder / "etc"))
    done = run_for_text(words, os.environ)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


async def until_damaged(place) -> None:
    with suppress(CatalogDamagedError):
        while await place.runs():  # noqa: ASYNC110 - a thread finds the damage
            await asyncio.sleep(0.02)


BACKS_UP = 'Console = "backup catalog"'


@in_loop
async def test_a_damaged_catalog_is_not_backed_up_and_comes_back_from_its_copy(place):
    await place.open(client("web1") + job("nightly") + ADMIN % BACKS_UP)
    try:
        agent = await place.agent("web1")
        first = await place.back_up(agent)
        copy = (await place.start("admin")).snapshot
        assert copy
        later = await place.back_up(agent)
        # Nothing reads this index while a run is made.
        damage_pages(catalog_file(place), "ix_incidents_topic")
        await place.queue("admin")
        await asyncio.wait_for(until_damaged(place), 30)
    finally:
        await place.close()
    damage_pages(catalog_file(place), "runs")
    made = recovered(place)
    assert (made["source"], made["snapshot"]) == ("copy", copy)
    assert recovered(place)["source"] == "sound"
    await place.open()
    try:
        found = await place.service.snapshots.find(SnapshotFilter(job="nightly"))
        assert {one.id for one in found} == {first, later}
        assert sum(one.state == "done" for one in await place.runs()) >= 2
    finally:
        await place.close()


def damage_snapshot(place, name) -> None:
    (file,) = place.folder.glob(f"**/snapshots/**/{name}")
    file.chmod(0o600)
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes((data[-1] ^ 1,)))


@in_loop
async def test_a_damaged_snapshot_of_a_client_keeps_no_catalog_from_coming_back(place):
    await place.open(client("web1") + job("nightly") + ADMIN % BACKS_UP)
    try:
        agent = await place.agent("web1")
        of_the_client = await place.back_up(agent)
        copy = (await place.start("admin")).snapshot
    finally:
        await place.close()
    damage_pages(catalog_file(place), "runs")
    damaged = catalog_file(place).read_bytes()
    damage_snapshot(place, of_the_client)
    made = recovered(place)
    assert (made["source"], made["snapshot"]) == ("copy", copy)
    # Of its own it may be the newest one.
    catalog_file(place).write_bytes(damaged)
    damage_snapshot(place, copy)
    loaded = load_configuration(configuration(place))
    with pytest.raises(CatalogError):
        recover_catalog(configuration(place), loaded)
    assert catalog_file(place).read_bytes() == damaged


@in_loop
async def test_only_the_damaged_index_is_made_anew_where_all_rows_can_be_read(place):
    await place.open(client("web1") + job("nightly"))
    await place.back_up(await place.agent("web1"))
    before = await place.runs()
    await place.close()
    damage_pages(catalog_file(place), "ix_incidents_topic")
    with pytest.raises(CatalogDamagedError):
        await place.open()
    made = recovered(place)
    assert made["source"] == "file"
    assert made["aside"]
    await place.open()
    assert await place.runs() == before
    await place.close()


@in_loop
async def test_a_lost_catalog_comes_back_from_repositories(place):
    await place.open(client("web1") + job("nightly"))
    made = await place.back_up(await place.agent("web1"))
    await place.close()
    shutil.rmtree(place.folder / "work")
    assert recovered(place) == {
        "type": "catalog-recovery", "source": "repositories", "rows": 0, "snapshot": "",
        "snapshot_ns": 0, "aside": "", "entered": {"main": 1, "offsite": 0}, "failed": {},
    }  # fmt: skip
    await place.open()
    found = await place.service.snapshots.find(SnapshotFilter())
    assert [one.id for one in found] == [made]
    await place.close()


@in_loop
async def test_a_catalog_is_not_made_anew_while_its_copy_may_be_on_a_disk_that_is_not_there(place):
    await place.open(client("web1") + job("nightly") + ADMIN % BACKS_UP)
    copy = (await place.start("admin")).snapshot
    await place.close()
    damage_pages(catalog_file(place))
    damaged = catalog_file(place).read_bytes()
    (place.folder / "main").rename(place.folder / "unplugged")
    path = str(place.folder / "etc")
    with pytest.raises(CatalogError, match="main"):
        recover_catalog(path, load_configuration(path))
    assert catalog_file(place).read_bytes() == damaged
    assert list((place.folder / "work").glob("*.recovered*")) == []
    (place.folder / "unplugged").rename(place.folder / "main")
    assert recovered(place)["snapshot"] == copy
