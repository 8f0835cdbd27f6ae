"""A compromised agent reports snapshots that refer to nothing or tell false totals."""

import multiprocessing
import resource
import shutil
from functools import partial

import pytest

from kit.director_in_process import OPERATOR, TestDirector, client, in_loop, job
from kit.director_with_repositories import rebuild_catalog
from kit.forged_snapshot import NO_BLOCK, file_row, forge
from kit.tiny_backup import PASSPHRASE, TinyBackup, back_up, new_repository, read_back
from kit.virtual_time import ShiftedTime
from strongroom.base.errors import ConflictError, FalseSnapshotError, SetBackError
from strongroom.base.progress import NullProgress
from strongroom.director.results.snapshots import RestoreRequest, SnapshotFilter
from strongroom.director.snapshots.reconciliation import reconcile
from strongroom.engine.check.vouch import required_judge, vouch
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Totals
from strongroom.engine.stores.local import LocalStore
from strongroom.storage.settings import StorageLimits

DAY = 86400
FILES = {b"one": b"first" * 1000, b"two": b"second" * 2000}
JOBS = client("web1") + client("web2") + job("nightly")
LIES = {
    "no block": lambda agent, **fields: forge(agent, file_row(b"f", NO_BLOCK), **fields),
    "totals": lambda agent, **fields: forge(
        agent, totals=Totals(files=3, content_bytes=123456789), **fields
    ),
    "protected": lambda agent, **fields: forge(
        agent, file_row(b"f", NO_BLOCK), protected=True, **fields
    ),
}


class Site:
    """A director, and the agent web1 at its storage: a daemon, or a plain folder."""

    def __init__(self, tmp_path, monkeypatch, place, agent_store, appliance_store):
        (tmp_path / "passphrase").write_bytes(PASSPHRASE + b"\n")
        (tmp_path / "passphrase").chmod(0o600)
        self.director = TestDirector(tmp_path, ShiftedTime(monkeypatch))
        self.director.configure(
            JOBS,
            pool="KeepLast = 2",
            storage=f'Repository = "{place}"; PassphraseFile = "{tmp_path}/passphrase"',
        )
        self.appliance = new_repository(appliance_store)
        key = self.appliance.key.put_key("web1")
        self.open_agent = lambda: Repository.open(agent_store(), key)

    async def run(self, agent, make):
        """A run whose agent stores what `make` does; the run's id and the snapshot's."""
        run = await self.director.start("nightly")
        await agent.start(run.id)
        tags = (f"run={run.id}", "pool=Default")
        repository = self.open_agent()
        try:
            made = make(repository, tags)
        finally:
            repository.close()
        await self.director.end(agent, run.id, snapshot=made.id)
        return await self.director.run(run.id), made.id

    async def snapshots(self, **wanted):
        found = await self.director.service.snapshots.find(SnapshotFilter(**wanted))
        return {one.id: one.false_reason for one in found}

    async def compared(self, function=reconcile):
        context = self.director.service.context
        return await context.with_repository(function, context, "main")

    async def warnings(self):
        return "\n".join((await self.director.service.queries.status()).warnings)


@pytest.fixture(params=["daemon", "folder"])
def site(request, tmp_path, monkeypatch, make_daemon):
    if request.param == "folder":
        place = str(tmp_path / "repository")
        return Site(tmp_path, monkeypatch, place, lambda: LocalStore(place), LocalStore(place))
    return at_daemon(tmp_path, monkeypatch, make_daemon)


def at_daemon(tmp_path, monkeypatch, make_daemon, **limits):
    daemon = make_daemon(limits=StorageLimits(**limits))
    place = f"unix:{daemon.socket_path}"
    site = Site(tmp_path, monkeypatch, place, lambda: daemon.agent("web1"), daemon.local())
    site.daemon = daemon
    return site


def lied(lie, fields, repository, tags):
    return LIES[lie](repository, tags=tags, **fields)


def good(repository, tags):
    backup = TinyBackup(repository)
    backup.store(FILES)
    return backup.commit(tags, job="nightly")


@pytest.mark.parametrize("lie", LIES)
def test_it_is_shown_counts_for_nothing_and_goes_at_once(site, lie):
    @in_loop
    async def whole(director):
        agent = await director.with_agent()
        kept = [(await site.run(agent, good))[1] for _ in range(2)]
        false = []
        for number in range(3):
            later = {"job": "nightly", "start_ns": 10**18 * 2 + number}
            run, made = await site.run(agent, partial(lied, lie, later))
            false.append(made)
            assert (run.state, run.error_id, run.snapshot) == ("failed", "false-snapshot", made)
            assert "is false" in run.error
            assert "is false" in await director.texts(run.id)
        assert {one for one, fault in (await site.snapshots()).items() if fault} == set(false)
        assert set(await site.snapshots(with_false=False)) == set(kept)
        assert f"snapshot {false[0][:8]} of web1 is false" in await site.warnings()
        # Retention keeps two: it counts none that is false, and removes none.
        again, newest = await site.run(agent, good)
        assert again.state == "done"
        assert set(await site.snapshots()) == {kept[1], newest, *false}
        # The next backup is compared with the good one.
        run = await director.start("nightly", level="incremental")
        assert agent.order().parent == newest
        await director.service.commands.cancel(run.id, OPERATOR)
        # No one gets its files from the director.
        with pytest.raises(FalseSnapshotError):
            await director.service.commands.start_restore(
                RestoreRequest(snapshot=false[0], target=b"/srv"), OPERATOR
            )
        for one in false:
            gone = await director.service.commands.forget_snapshot(one, OPERATOR)
            assert gone.removed_ns
        assert not set(await site.snapshots()) & set(false)
        assert read_back(site.appliance, newest) == FILES
        assert "is false" not in await site.warnings()

    whole(director=site.director)


def test_at_a_storage_daemon_it_goes_before_its_minimum_retention(
    tmp_path, monkeypatch, make_daemon
):
    site = at_daemon(tmp_path, monkeypatch, make_daemon, minimum_retention_seconds=30 * DAY)
    place = f"unix:{site.daemon.socket_path}"
    site.director.configure(
        JOBS,
        pool="KeepLast = 2; MinimumRetention = 30 days",
        storage=f'Repository = "{place}"; PassphraseFile = "{tmp_path}/passphrase"',
    )

    @in_loop
    async def whole(director):
        agent = await director.with_agent()
        _, kept = await site.run(agent, good)
        _, false = await site.run(agent, partial(lied, "totals", {"job": "nightly"}))
        await director.service.commands.forget_snapshot(false, OPERATOR)
        with pytest.raises(ConflictError):
            await director.service.commands.forget_snapshot(kept, OPERATOR)
        assert {info.name for info in site.appliance.store.list("snapshots")} == {kept}

    whole(director=site.director)


@in_loop
async def snapshots_found_by_comparing(director, site):
    await director.open()
    kept, false = (
        back_up(site.appliance, FILES, "web1").id,
        forge(site.appliance.for_client("web1"), file_row(b"f", NO_BLOCK)).id,
    )
    result = await site.compared(rebuild_catalog) and await site.snapshots()
    assert (result[kept], "in no pack" in result[false]) == ("", True)


def test_one_that_is_found_by_comparing_is_walked_too(site):
    snapshots_found_by_comparing(director=site.director, site=site)


def test_what_verification_finds_false_later_is_marked_and_cleared(
    tmp_path, monkeypatch, make_daemon
):
    """The content of a pack is read by vouch only, not when the snapshot is entered."""
    site = at_daemon(tmp_path, monkeypatch, make_daemon)

    @in_loop
    async def whole(director):
        agent = await director.with_agent()
        run, made = await site.run(agent, good)
        assert run.state == "done"
        index = site.appliance.for_all_clients().load_index()
        owner = site.appliance.key.client_id("web1")
        page = site.appliance.snapshot(made).pages[0].block_id
        lost = index.of_client(owner).locate(page).pack_id.hex()
        (path,) = (site.daemon.repository / "packs").rglob(lost)
        shutil.move(path, tmp_path / "lost")
        judge = required_judge(site.appliance.store)
        vouch(site.appliance, judge, NullProgress())
        result = await site.compared()
        assert result.verdicts.keys() == {made}
        assert any(" false and not used" in text for _, text in result.lines())
        assert (await site.snapshots())[made]
        assert not (await site.compared()).verdicts
        shutil.move(tmp_path / "lost", path)
        vouch(site.appliance, judge, NullProgress())
        assert (await site.compared()).verdicts == {made: ""}
        assert await site.snapshots() == {made: ""}
        assert made in {info.name for info in site.appliance.store.list("snapshots")}

    whole(director=site.director)


def test_a_store_that_was_set_back_is_told_and_the_next_backup_continues(site, tmp_path):
    place = tmp_path / "repository"
    if hasattr(site, "daemon"):
        place = site.daemon.repository

    def folder(change):
        if hasattr(site, "daemon"):
            site.appliance.close()
            site.daemon.server.stop()
            change()
            site.daemon.restart()
        else:
            change()

    @in_loop
    async def whole(director):
        agent = await director.with_agent()
        _, first = await site.run(agent, good)
        folder(lambda: shutil.copytree(place, tmp_path / "earlier"))
        _, second = await site.run(agent, good)
        assert await site.warnings() == ""

        def set_back():
            shutil.rmtree(place)
            shutil.copytree(tmp_path / "earlier", place)

        folder(set_back)
        assert (await site.compared()).gone == (second,)
        assert f"does not show snapshot {second[:8]} of web1" in await site.warnings()
        missed = await director.service.snapshots.missed()
        assert [one.id for one in missed] == [second]
        run = await director.start("nightly", level="incremental")
        assert agent.order().parent == first
        assert second[:8] in await director.texts(run.id)
        await director.service.commands.cancel(run.id, OPERATOR)
        # A newer one ends it; so does saying that it was meant to go.
        gone = await director.service.commands.forget_snapshot(second, OPERATOR)
        assert gone.removed_ns
        assert await site.warnings() == ""
        assert not await director.service.snapshots.missed()

    whole(director=site.director)


def test_a_verify_job_takes_no_older_snapshot_for_the_newest(site, tmp_path):
    director = site.director
    director.configure(
        JOBS + job("look", more="Level = VolumeToCatalog; JobToVerify = nightly", kind="Verify"),
        storage=f'Repository = "{site_place(site, tmp_path)}"; '
        f'PassphraseFile = "{tmp_path}/passphrase"',
    )

    @in_loop
    async def whole(director):
        agent = await director.with_agent()
        await site.run(agent, good)
        _, second = await site.run(agent, good)
        site.appliance.store.delete("snapshots", second)
        await site.compared()
        run = await director.start("look")
        await director.go(5)
        ended = await director.run(run.id)
        assert (ended.state, ended.error_id) == ("failed", SetBackError.error_id)

    whole(director=director)


def test_a_walk_whose_process_is_killed_is_done_again_and_none_is_left(site):
    before = {one.pid for one in multiprocessing.active_children()}

    @in_loop
    async def whole(director):
        agent = await director.with_agent()
        for _ in range(2):
            run, made = await site.run(agent, good)
            assert (run.state, (await site.snapshots())[made]) == ("done", "")
            walking = [one for one in multiprocessing.active_children() if one.pid not in before]
            assert walking
            for one in walking:
                # It holds the restore key: see test_memory_of_keys.
                assert resource.prlimit(one.pid, resource.RLIMIT_CORE) == (0, 0)
                one.kill()

    whole(director=site.director)
    assert {one.pid for one in multiprocessing.active_children()} <= before


def site_place(site, tmp_path):
    if hasattr(site, "daemon"):
        return f"unix:{site.daemon.socket_path}"
    return str(tmp_path / "repository")
