"""Pools with Copy To: the copies follow each backup, whatever happens to either storage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from kit.director_in_process import OPERATOR, client, in_loop, job
from kit.director_with_repositories import PASSPHRASE, Place, rebuild_catalog
from kit.size_limit import largest_file
from kit.tiny_backup import CHEAP, back_up
from kit.virtual_time import ShiftedTime
from strongroom.base.errors import ConflictError
from strongroom.base.progress import NullProgress
from strongroom.director.catalog.copies import uncopied_snapshots
from strongroom.director.catalog.incidents import open_incidents
from strongroom.director.catalog.snapshots import add_snapshots
from strongroom.director.catalog.tables import GONE, SNAPSHOTS
from strongroom.director.metrics import repository_metrics
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import RestoreRequest, Snapshot, SnapshotFilter
from strongroom.director.results.status import PoolCopies
from strongroom.director.snapshots.reconciliation import reconcile
from strongroom.engine.copy.copy import CopyOptions, copy_snapshots, to_be_copied
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.stores.local import LocalStore
from strongroom.net.control.messages import StartRestore

DAY = 86400
COPY_JOB = "copy-Default"
BASE = client("web1") + job("nightly")


class TwoStores(Place):
    """A Place whose pool has a Copy To."""

    async def look(self) -> None:
        await self.service.copies.look()
        await self.settle()

    async def copy_runs(self) -> list[Run]:
        """The newest first."""
        return await self.runs(job=COPY_JOB)

    async def copies(self) -> PoolCopies:
        (found,) = (await self.service.queries.status()).copies
        return found

    async def snapshots(self, storage: str) -> list[Snapshot]:
        found = await self.service.snapshots.find(SnapshotFilter(with_copies=True))
        return [one for one in found if one.storage == storage]

    async def events(self) -> set[str]:
        await self.service.notices.look()
        incidents = await self.service.context.ask(open_incidents)
        return {one.event for one in incidents}

    def copy_by_hand(self) -> None:
        """As a run does that is killed before it reports anything."""
        source, target = self.repository(), self.repository("offsite")
        missing, _ = to_be_copied(source, target, source.snapshots())
        options, nothing = CopyOptions("dir"), NullProgress()
        for _ in copy_snapshots(source, target, missing, options, nothing, SetAside()):
            pass

    def lose(self, name: str) -> Path:
        """The repository of a storage is gone; where it is kept."""
        kept = self.folder / f"{name}-kept"
        os.rename(self.folder / name, kept)
        return kept

    def make_anew(self, name: str) -> None:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        Repository.create(LocalStore(str(self.folder / name)), PASSPHRASE, cost=CHEAP).close()


@pytest.fixture
def director(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoStores]:
    return TwoStores(tmp_path, ShiftedTime(monkeypatch))


@pytest.mark.parametrize(
    ("copy_to", "pool"), [("Offsite", "Offsite"), ("offsite", "Default")], ids=["pool", "storage"]
)
@in_loop
async def test_a_backup_is_followed_by_its_copy(director, copy_to, pool):
    agent = await director.with_agent(BASE, pool=f"CopyTo = {copy_to}")
    made = await director.back_up(agent)
    await director.service.copies.look()
    waiting = await director.copies()
    assert (waiting.pool, waiting.storage, waiting.waiting) == ("Default", "offsite", 1)
    assert waiting.behind_since_ns > 0
    await director.settle()
    (run,) = await director.copy_runs()
    assert (run.state, run.error, run.files) == ("done", "", 1)
    (copy,) = await director.snapshots("offsite")
    assert (copy.original, copy.pool, copy.client, copy.job) == (made, pool, "web1", "nightly")
    assert [one.id for one in director.repository("offsite").snapshots()] == [copy.id]
    await director.look()
    assert len(await director.copy_runs()) == 1
    now = await director.copies()
    assert (now.waiting, now.behind_since_ns) == (0, 0)
    (original,) = await director.snapshots("main")
    assert now.copied_ns == original.server_ns


@in_loop
async def test_a_copy_that_retention_removed_is_not_made_again(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite; KeepLast = 9")
    made = []
    for _ in range(3):
        made.append(await director.back_up(agent))
        await director.look()
    await director.go(2 * 3600)
    await director.look()
    assert [run.state for run in await director.copy_runs()] == ["done"] * 3
    # The pool of the copies keeps two.
    there = director.repository("offsite").snapshots()
    assert {one.original.partition(":")[2] for one in there} == set(made[1:])
    assert len(director.repository("main").snapshots()) == 3
    assert (await director.copies()).waiting == 0


@in_loop
async def test_a_second_store_that_is_offline_for_a_week_costs_only_time(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite; KeepLast = 20")
    kept = director.lose("offsite")
    await director.back_up(agent)
    await director.look()
    waiting, failed = await director.copy_runs()
    assert (failed.state, failed.attempt, waiting.state, waiting.attempt) == (
        "failed", 1, "waiting", 2,
    )  # fmt: skip
    pauses = []
    for days in (1, 2, 4):
        await director.go(days * DAY)
        await director.back_up(agent)
        await director.look()
        runs = await director.copy_runs()
        # One attempt after the other, however many backups wait.
        assert [run.state for run in runs].count("waiting") == 1
        pauses.append(runs[0].not_before_ns - runs[0].queued_ns)
        events = await director.events()
        assert ("copy-late" in events) == (days > 1)
        assert "job-failed" not in events
    assert pauses == sorted(pauses)
    assert pauses[-1] <= 3600 * 10**9
    metrics = {one.name: one.samples for one in repository_metrics(director.service.context, {})}
    (labels, lag) = metrics["strongroom_copy_lag_seconds"][0]
    assert labels == {"backup_job": COPY_JOB, "storage": "offsite"}
    assert lag > 7 * DAY
    assert metrics["strongroom_copy_waiting_snapshots"][0][1] == 4
    os.rename(kept, director.folder / "offsite")
    await director.go(3600)
    assert (await director.copy_runs())[0].state == "done"
    await director.look()
    assert (await director.copies()).waiting == 0
    assert "copy-late" not in await director.events()


@in_loop
async def test_retention_keeps_what_has_no_copy_yet(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite; KeepLast = 1")
    director.lose("offsite")
    made = []
    for _ in range(4):
        made.append(await director.back_up(agent))
        await director.look()
        await director.go(DAY)
    assert [one.id for one in await director.snapshots("main")] == made[::-1]
    assert (await director.copies()).waiting == 4
    assert "copy-late" in await director.events()
    await director.service.commands.forget_snapshot(made[1], OPERATOR)
    await director.look()
    assert (await director.copies()).waiting == 3
    # A second store that is lost for good is given up.
    director.configure(BASE, pool="KeepLast = 1")
    await director.restart()
    agent = await director.agent("web1")
    newest = await director.back_up(agent)
    assert [one.id for one in await director.snapshots("main")] == [newest]


@in_loop
async def test_a_storage_that_left_the_configuration_stops_no_copy(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite")
    made = await director.back_up(agent)
    (record,) = await director.snapshots("main")
    left = replace(record, id="0" * 64, storage="left", server_ns=1)
    add_snapshots(director.service.context.catalog, [left])
    await director.look()
    assert {one.original for one in await director.snapshots("offsite")} == {made}
    await director.look()
    assert (await director.copies()).waiting == 0


@in_loop
async def test_another_client_cannot_say_that_a_backup_was_copied(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite")
    made = await director.back_up(agent)
    (record,) = await director.snapshots("main")
    claimed = replace(
        record, id="0" * 64, client="web2", storage="offsite", original=made, pool="Offsite"
    )
    add_snapshots(director.service.context.catalog, [claimed])
    await director.look()
    assert {one.client for one in await director.snapshots("offsite")} == {"web1", "web2"}
    (copy,) = director.repository("offsite").snapshots()
    assert copy.original.endswith(made)


@in_loop
async def test_what_is_owed_survives_a_restart(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite")
    made = await director.back_up(agent)
    await director.restart()
    await director.look()
    assert [run.state for run in await director.copy_runs()] == ["done"]
    assert {one.original for one in await director.snapshots("offsite")} == {made}


@in_loop
async def test_a_copy_that_a_killed_run_made_is_entered_by_the_next(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite")
    made = await director.back_up(agent)
    director.copy_by_hand()
    (there,) = director.repository("offsite").snapshots()
    await director.look()
    (run,) = await director.copy_runs()
    assert (run.state, run.files, run.stored_bytes) == ("done", 1, 0)
    (copy,) = await director.snapshots("offsite")
    assert (copy.id, copy.original, copy.pool) == (there.id, made, "Offsite")


@in_loop
async def test_what_a_run_copied_before_it_failed_counts(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite; KeepLast = 9")
    first = await director.back_up(agent)
    await director.go(60)
    (director.source / "large").write_bytes(os.urandom(8 << 20))
    await director.back_up(agent)
    with largest_file(4 << 20):
        await director.look()
    failed = (await director.copy_runs())[-1]
    assert (failed.state, failed.files) == ("failed", 1)
    assert [one.original for one in await director.snapshots("offsite")] == [first]
    await director.go(3600)
    await director.look()
    assert (await director.copies()).waiting == 0


@in_loop
async def test_a_snapshot_that_is_damaged_is_given_up_by_forgetting_it(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite; KeepLast = 9")
    before = {*(director.folder / "main" / "packs").rglob("*")}
    damaged = await director.back_up(agent)
    for pack in {*(director.folder / "main" / "packs").rglob("*")} - before:
        if pack.is_file():
            pack.chmod(0o600)
            pack.write_bytes(b"x" * pack.stat().st_size)
    await director.look()
    (run, *_) = await director.copy_runs()
    assert (run.state, run.files) == ("incomplete", 0)
    assert damaged[:8] in await director.texts(run.id)
    await director.go(3 * DAY)
    await director.look()
    assert "copy-late" in await director.events()
    await director.service.commands.forget_snapshot(damaged, OPERATOR)
    await director.look()
    assert (await director.copies()).waiting == 0
    assert "copy-late" not in await director.events()


@in_loop
async def test_copies_that_are_found_are_of_the_pool_that_they_were_copied_to(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite")
    await director.back_up(agent)
    director.copy_by_hand()
    rebuild_catalog(director.service.context, "offsite")
    (copy,) = await director.snapshots("offsite")
    assert copy.pool == "Offsite"
    await director.look()
    assert await director.copy_runs() == []


@in_loop
async def test_a_second_store_that_was_lost_is_filled_again(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite")
    made = await director.back_up(agent)
    await director.look()
    director.make_anew("offsite")
    reconcile(director.service.context, "offsite")
    await director.go(3600)
    await director.look()
    assert [run.state for run in await director.copy_runs()] == ["done", "done"]
    there = director.repository("offsite").snapshots()
    assert [one.original.partition(":")[2] for one in there] == [made]


@in_loop
async def test_what_was_cancelled_waits_for_the_next_backup(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite")
    kept = director.lose("offsite")
    await director.back_up(agent)
    await director.look()
    (waiting, _) = await director.copy_runs()
    await director.service.commands.cancel(waiting.id, OPERATOR)
    os.rename(kept, director.folder / "offsite")
    await director.go(60)
    await director.look()
    assert len(await director.copy_runs()) == 2
    await director.back_up(agent)
    await director.look()
    assert (await director.copy_runs())[0].files == 2


@in_loop
async def test_a_first_store_that_is_lost_is_restored_from_the_second(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite")
    made = await director.back_up(agent)
    await director.look()
    (copy,) = await director.snapshots("offsite")
    request = RestoreRequest(snapshot=made, target=b"/tmp/back")
    director.lose("main")
    unseen = await director.service.commands.start_restore(replace(request, copies=()), OPERATOR)
    await director.settle()
    assert await director.state(unseen.id) == "failed"
    run = await director.service.commands.start_restore(request, OPERATOR)
    await director.settle()
    order = agent.order(StartRestore)
    assert order.storage.server_name == "offsite"
    started = await director.run(run.id)
    assert (started.state, started.snapshot, started.storage) == ("running", copy.id, "offsite")
    assert "main" in await director.texts(run.id)
    await director.end(agent, run.id)
    # Empty instead of unreachable: the catalog finds that its snapshots are gone.
    director.make_anew("main")
    reconcile(director.service.context, "main")
    assert (await director.service.snapshots.restorable(made)).id == copy.id


@in_loop
async def test_no_copy_hides_that_a_snapshot_is_of_another_client(director):
    agent = await director.with_agent(BASE + client("web2"))
    made = await director.back_up(agent)
    catalog = director.service.context.catalog
    (record,) = await director.snapshots("main")
    with director.repository("offsite").for_client("web2") as theirs:
        copy = back_up(theirs, {b"file": b"content"})
    copied = replace(record, id=copy.id, client="web2", storage="offsite", original=made)
    add_snapshots(catalog, [copied])
    catalog.change(update(SNAPSHOTS).where(SNAPSHOTS.c.id == made).values(client="web2"))
    await director.agent("web2")
    request = RestoreRequest(snapshot=made, target=b"/tmp/back")
    run = await director.service.commands.start_restore(request, OPERATOR)
    await director.settle()
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("failed", "damage")


@in_loop
async def test_what_was_rewritten_without_some_files_is_no_copy(director):
    agent = await director.with_agent(BASE)
    made = await director.back_up(agent)
    (record,) = await director.snapshots("main")
    assert record.files > 0
    rewritten = replace(record, storage="offsite", original=made, tags=("rewrite",))
    add_snapshots(
        director.service.context.catalog,
        [
            replace(rewritten, id="a" * 64, files=record.files - 1),
            replace(rewritten, id="b" * 64, bytes=record.bytes - 1),
        ],
    )
    with pytest.raises(ConflictError):
        await director.service.snapshots.restorable(made, "offsite")


@in_loop
async def test_a_copy_that_lacks_content_is_made_again(director):
    """After a repair of the second storage; both are there then, and the better one is taken."""
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite")
    made = await director.back_up(agent)
    await director.look()
    (copy,) = await director.snapshots("offsite")
    catalog = director.service.context.catalog
    catalog.change(
        update(SNAPSHOTS).where(SNAPSHOTS.c.id == copy.id).values(removed_ns=1, removed_reason=GONE)
    )
    repaired = replace(copy, id="c" * 64, errors=1, server_ns=copy.server_ns + 1)
    add_snapshots(catalog, [repaired])
    (record,) = await director.snapshots("main")
    assert uncopied_snapshots(catalog, record.pool, "offsite", "main") == [record]
    again = replace(copy, id="d" * 64)
    add_snapshots(catalog, [again])
    assert uncopied_snapshots(catalog, record.pool, "offsite", "main") == []
    assert await director.service.snapshots.restorable(made, "offsite") == again


@in_loop
async def test_a_restore_may_name_the_storage(director):
    agent = await director.with_agent(BASE, pool="CopyTo = Offsite")
    made = await director.back_up(agent)
    queries = director.service.snapshots
    with pytest.raises(ConflictError):
        await queries.restorable(made, "offsite")
    await director.look()
    (copy,) = await director.snapshots("offsite")
    assert await queries.restorable(made, "main") == await queries.get(made)
    assert await queries.restorable(made, "offsite") == await queries.get(copy.id)
    request = RestoreRequest(snapshot=copy.id, target=b"/tmp/back")
    await director.service.commands.start_restore(request, OPERATOR)
    await director.settle()
    assert agent.order(StartRestore).storage.server_name == "offsite"
