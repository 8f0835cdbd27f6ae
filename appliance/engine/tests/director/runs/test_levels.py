"""Which level a backup gets and what it is compared with, when snapshots have been removed."""

from __future__ import annotations

import pytest

from kit.director_in_process import OPERATOR, client, in_loop, job
from strongroom.director.catalog.snapshots import note_removed

DAY = 86400


class Backups:
    """Backups of one job, as pairs of the level and the number of the parent."""

    def __init__(self, director, agent):
        self._director = director
        self._agent = agent
        self.reason = ""

    async def make(self, number: int, **options) -> tuple[str, str]:
        run = await self._director.start("nightly", **options)
        order = self._agent.order()
        await self._director.backed_up(self._agent, run.id, number)
        assert (await self._director.run(run.id)).reason == ""
        self.reason = await self._director.texts(run.id)
        await self._director.go(DAY)
        return order.level, order.parent.lstrip("0")

    def remove(self, *numbers: int) -> None:
        ids = [f"{number:064x}" for number in numbers]
        catalog = self._director.service.context.catalog
        note_removed(catalog, ids, self._director.time.now_ns, "keep-last 1")


async def opened(director, more: str = "") -> Backups:
    text = client("web1") + job("nightly", more="Level = Incremental\n" + more)
    return Backups(director, await director.with_agent(text))


@in_loop
async def test_an_incremental_goes_on_without_the_full_one(director):
    backups = await opened(director)
    assert await backups.make(1) == ("full", "")
    assert "there is no snapshot of this job yet" in backups.reason
    assert await backups.make(2) == ("incremental", "1")
    backups.remove(1)
    assert await backups.make(3) == ("incremental", "2")
    assert await backups.make(4, level="Differential") == ("differential", "2")
    backups.remove(2, 3, 4)
    assert await backups.make(5) == ("full", "")
    assert "no snapshot of this job is left" in backups.reason


@in_loop
async def test_a_differential_reads_what_changed_since_the_last_full_one_or_soon_after(director):
    backups = await opened(director)
    assert await backups.make(1) == ("full", "")
    assert await backups.make(2, level="Full") == ("full", "")
    assert await backups.make(3) == ("incremental", "2")
    assert await backups.make(4) == ("incremental", "3")
    assert await backups.make(5, level="Differential") == ("differential", "2")
    backups.remove(2)
    assert await backups.make(6, level="Differential") == ("differential", "3")
    backups.remove(3, 4, 5, 6)
    # What is left is older than the last full one; reading more than needed does no harm.
    assert await backups.make(7, level="Differential") == ("differential", "1")


@pytest.mark.parametrize(
    ("interval", "level", "reason"),
    [("MaxFullInterval", "full", "Max Full Interval"), ("MaxDiffInterval", "differential", "Max")],
)
def test_intervals_count_from_backups_whose_snapshots_are_gone(director, interval, level, reason):
    @in_loop
    async def test(director):
        backups = await opened(director, f"{interval} = 60 hours")
        assert await backups.make(1) == ("full", "")
        assert await backups.make(2) == ("incremental", "1")
        backups.remove(1)
        assert await backups.make(3) == ("incremental", "2")
        made, _ = await backups.make(4)
        assert made == level
        assert reason in backups.reason
        assert await backups.make(5) == ("incremental", "4")

    test(director=director)


@in_loop
async def test_a_fileset_that_is_changed_back_has_its_old_snapshots_to_compare_with(director):
    backups = await opened(director)
    path = director.folder / "etc/director.d/all/all.conf"
    before = path.read_text()
    assert await backups.make(1) == ("full", "")
    path.write_text(before.replace("File = /home", "File = /home; File = /etc"))
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    assert await backups.make(2) == ("full", "")
    assert "the FileSet has changed" in backups.reason
    assert await backups.make(3) == ("incremental", "2")
    path.write_text(before)
    assert (await director.service.commands.reload(OPERATOR)).is_loaded
    assert await backups.make(4) == ("incremental", "1")


@in_loop
async def test_without_a_known_full_backup_its_age_is_not_believed(director):
    backups = await opened(director, "MaxFullInterval = 30 days")
    assert await backups.make(1) == ("full", "")
    assert await backups.make(2) == ("incremental", "1")
    catalog = director.service.context.catalog
    with catalog.writing() as connection:
        # As a rebuild finds them when the full one was forgotten before.
        connection.exec_driver_sql(f"DELETE FROM snapshots WHERE id = '{1:064x}'")
    assert await backups.make(3) == ("full", "")
    assert "when the last full backup was" in backups.reason
