"""What the director does with real repositories: restores, retention, verify, copies, recovery."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.director_in_process import OPERATOR, client, in_loop, job
from kit.director_with_repositories import ADMIN, Place
from kit.restless_mount import mounted_unlistable_folder
from kit.snapshot_contents import contents
from kit.virtual_time import ShiftedTime
from strongroom.base.errors import (
    ConfigurationError,
    ConflictError,
    DamageError,
    PathNotFoundError,
    SnapshotNotFoundError,
    UnknownNameError,
    UsageError,
    WrongKeyError,
)
from strongroom.director.catalog.clients import next_generation
from strongroom.director.catalog.database import open_catalog
from strongroom.director.catalog.portable import read_portable
from strongroom.director.catalog.runs import find_runs
from strongroom.director.repositories.access import Repositories, RepositoryAccess
from strongroom.director.results.runs import RunFilter
from strongroom.director.results.snapshots import RestoreRequest, SnapshotFilter
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.restore_ticket import open_with_ticket
from strongroom.engine.repository.ticket_objects import KEPT_SECONDS, fetch_ticket, store_ticket
from strongroom.engine.stores.local import LocalStore
from strongroom.net.control.messages import StartRestore, StartVerify, decode_name
from strongroom.net.identities.statements import verify_statement

DAY = 86400


@pytest.fixture
def director(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    return Place(tmp_path, ShiftedTime(monkeypatch))


@in_loop
async def test_a_snapshot_is_entered_as_the_repository_has_it(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    snapshot = await director.back_up(agent)
    run = (await director.runs())[0]
    assert (run.state, run.files, run.snapshot) == ("done", 21, snapshot)
    found = await director.service.snapshots.get(snapshot[:8])
    assert (found.id, found.files, found.run) == (snapshot, 21, run.id)
    assert f"run={run.id}" in found.tags
    assert "pool=Default" in found.tags


@in_loop
async def test_a_snapshot_of_another_client_or_of_nobody_is_not_believed(director, caplog):
    await director.open(client("web1") + client("web2") + job("nightly") + job("other", "web2"))
    thief = await director.agent("web2")
    run = await director.start("other")
    await thief.start(run.id)
    stolen = director.command("backup", str(director.source), "--host", "web1", "--job", "nightly")
    await director.end(thief, run.id, snapshot=stolen["snapshot"])
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("failed", "damage")
    # Who may see web2 learns no other name.
    assert "is of another job or client" in ended.error
    assert "web1" not in ended.error
    assert "of 'web1'" in caplog.text
    run = await director.start("other")
    await director.end(thief, run.id, snapshot="ab" * 32)
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("failed", "object-missing")
    assert await director.service.snapshots.find(SnapshotFilter()) == []


@in_loop
async def test_a_restore_opens_one_snapshot_for_one_agent(director):
    agent = await director.with_agent(client("web1") + client("web2") + job("nightly"))
    other = await director.agent("web2")
    snapshot = await director.back_up(agent)
    paths = (os.fsencode(director.source / "file3"), os.fsencode(director.source) + b"/odd \xff")
    request = RestoreRequest(snapshot[:10], paths, client="web2", target=b"/tmp/back")
    run = await director.service.commands.start_restore(request, OPERATOR)
    await director.settle()
    order = other.order(StartRestore)
    assert order.run_id == run.id
    assert decode_name(order.target) == b"/tmp/back"
    assert [decode_name(name) for name in order.options.includes] == list(paths)
    assert order.options.overwrite == "if-changed"
    peer, said = verify_statement(order.grant, director.identity.trust, "restore", ("director",))
    assert peer.name == "dir"
    assert said == {
        "agent": "web2",
        "client": director.repository().key.client_id("web1").hex(),
        "snapshot": snapshot,
        "ticket": order.ticket.name,
    }
    put_key = director.repository().key.put_key("web2")
    store = LocalStore(str(director.folder / "main"))
    ticket, owners = fetch_ticket(store, order.ticket), director.repository().key.put_key("web1")
    with pytest.raises(DamageError):
        open_with_ticket(store, owners, ticket)
    opened = open_with_ticket(store, put_key, fetch_ticket(store, order.ticket))
    assert [one.id for one in opened.snapshots()] == [snapshot]
    assert opened.snapshot(snapshot).totals.files == 2
    actions = {"created": 2, "updated": 1}
    await director.end(other, run.id, summary={"actions": actions, "written_bytes": 2001})
    ended = await director.run(run.id)
    assert (ended.state, ended.kind) == ("done", "restore")
    assert (ended.files, ended.bytes) == (3, 2001)
    await director.settle()
    assert list(store.list("tickets")) == []


@in_loop
async def test_a_name_that_became_a_new_client_restores_what_it_had_before(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    snapshot = await director.back_up(agent)
    next_generation(director.service.context.catalog, "web1")
    request = RestoreRequest(snapshot, client="web1", target=b"/tmp/back")
    await director.service.commands.start_restore(request, OPERATOR)
    await director.settle()
    order = agent.order(StartRestore)
    store, key = LocalStore(str(director.folder / "main")), director.repository().key
    ticket = fetch_ticket(store, order.ticket)
    with pytest.raises(DamageError):
        open_with_ticket(store, key.put_key("web1"), ticket)
    opened = open_with_ticket(store, key.put_key("web1", 1), ticket)
    found = {path: data for path, (_, _, _, data) in contents(opened, snapshot).items()}
    source = director.source / "file3"
    assert found[os.fsencode(source).lstrip(b"/")] == source.read_bytes()


@in_loop
async def test_a_restore_takes_the_settings_of_a_job_that_can_restore(director):
    jobs = (
        job("nas", "web2", "Protocol = NDMP; Where = /nas", "Restore")
        + job("elsewhere", "web2", "Where = /elsewhere", "Restore")
        + job("here", "web1", "Where = /here", "Restore")
    )
    agent = await director.with_agent(
        client("web1") + client("web2") + client("web3") + job("nightly") + jobs
    )
    snapshot = await director.back_up(agent)
    for to, used in (("web1", "here"), ("web2", "elsewhere"), ("web3", "elsewhere")):
        request = RestoreRequest(snapshot, client=to)
        run = await director.service.commands.start_restore(request, OPERATOR)
        assert run.job == used
        assert f"Restore job {used}" in await director.texts(run.id)
    with pytest.raises(UsageError, match="NDMP"):
        await director.service.commands.start_restore(
            RestoreRequest(snapshot, client="web2", job="nas"), OPERATOR
        )


@in_loop
async def test_the_ticket_of_a_cancelled_restore_is_removed(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    snapshot = await director.back_up(agent)
    run = await director.service.commands.start_restore(
        RestoreRequest(snapshot, client="web1", target=b"/tmp/back"), OPERATOR
    )
    await director.settle()
    store = LocalStore(str(director.folder / "main"))
    assert [info.name for info in store.list("tickets")] == [agent.order(StartRestore).ticket.name]
    await director.service.commands.cancel(run.id, OPERATOR)
    await director.end(agent, run.id, status="cancelled")
    await director.settle()
    assert list(store.list("tickets")) == []


@in_loop
async def test_a_ticket_that_a_dead_director_left_goes_with_the_next_restore(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    snapshot = await director.back_up(agent)
    store = LocalStore(str(director.folder / "main"))
    names = [store_ticket(store, b"of a dead director").name for _ in range(2)]
    hours = (KEPT_SECONDS + 60, KEPT_SECONDS - 60)
    for name, age_seconds in zip(names, hours, strict=True):
        path = director.folder / "main" / "tickets" / name
        stored_seconds = path.stat().st_mtime - age_seconds
        os.utime(path, (stored_seconds, stored_seconds))
    await director.service.commands.start_restore(
        RestoreRequest(snapshot, client="web1", target=b"/tmp/back"), OPERATOR
    )
    await director.settle()
    there = {info.name for info in store.list("tickets")}
    assert there == {names[1], agent.order(StartRestore).ticket.name}


@in_loop
async def test_a_restore_that_makes_no_sense_is_refused(director):
    agent = await director.with_agent(
        client("web1") + client("web2", "Enabled = no") + job("nightly")
    )
    snapshot = await director.back_up(agent)
    for wrong, error in (
        (RestoreRequest(snapshot, target=b"relative"), UsageError),
        (RestoreRequest(snapshot), UsageError),
        (RestoreRequest(snapshot, target=b"/a/../b"), UsageError),
        (RestoreRequest(snapshot, (b"/x/../y",), target=b"/t"), UsageError),
        (RestoreRequest(snapshot, target=b"/t", overwrite="maybe"), UsageError),
        (RestoreRequest(snapshot, client="web2", target=b"/t"), ConflictError),
        (RestoreRequest(snapshot, client="web3", target=b"/t"), UnknownNameError),
        (RestoreRequest("ffff", target=b"/t"), SnapshotNotFoundError),
    ):
        with pytest.raises(error):
            await director.service.commands.start_restore(wrong, OPERATOR)
    # What is not in the snapshot is found out when the ticket is made.
    missing = RestoreRequest(snapshot, (b"/etc/shadow",), target=b"/t")
    run = await director.service.commands.start_restore(missing, OPERATOR)
    await director.settle()
    assert (await director.run(run.id)).error_id == "path-not-found"
    # So is that somebody removed it without the director.
    (director.folder / "main" / "snapshots" / snapshot).unlink()
    run = await director.service.commands.start_restore(
        RestoreRequest(snapshot, target=b"/t"), OPERATOR
    )
    await director.settle()
    run = await director.run(run.id)
    assert (run.error_id, "it was deleted there" in run.error) == ("snapshot-not-found", True)


@in_loop
async def test_files_of_snapshots_are_listed_and_found(director):
    agent = await director.with_agent(client("web1") + job("nightly"))
    snapshot = await director.back_up(agent)
    folder = os.fsencode(director.source)
    page = await director.service.snapshots.list_files(snapshot, folder, limit=5)
    names = [entry.path for entry in page.entries]
    while page.next:
        page = await director.service.snapshots.list_files(
            snapshot, folder, after=page.next, limit=5
        )
        names += [entry.path for entry in page.entries]
    assert sorted(names) == sorted(folder + b"/" + name for name in os.listdir(folder))
    assert len(names) == len(set(names)) == 21
    found = await director.service.snapshots.find_files(
        b"FILE1?", SnapshotFilter(), ignoring_case=True
    )
    assert len(found.entries) == 10
    assert {entry.snapshot for entry in found.entries} == {snapshot}
    assert found.warnings == ()
    with pytest.raises(PathNotFoundError):
        await director.service.snapshots.list_files(snapshot, b"/nowhere")


@in_loop
async def test_retention_forgets_after_a_backup_but_never_the_newest(director):
    agent = await director.with_agent(client("web1") + job("nightly"), pool="KeepLast = 2")
    made = [await director.back_up(agent) for _ in range(4)]
    there = {one.id for one in await director.service.snapshots.find(SnapshotFilter())}
    assert there == set(made[2:])
    assert {one.id for one in director.repository().snapshots()} == set(made[2:])
    removed = await director.service.snapshots.find(SnapshotFilter(with_removed=True))
    assert {one.id for one in removed if one.removed_ns} == set(made[:2])
    assert "forgotten" in await director.texts((await director.runs())[0].id)


@in_loop
async def test_the_newest_snapshot_of_a_folder_that_cannot_be_listed_is_kept_and_named(director):
    agent = await director.with_agent(client("web1") + job("nightly"), pool="KeepLast = 1")
    place = director.source / "disk"
    place.mkdir()
    with mounted_unlistable_folder(place):
        made = [await director.back_up(agent)]
        (director.source / "disk.fails").touch()
        made += [await director.back_up(agent) for _ in range(2)]
        there = {one.id for one in await director.service.snapshots.find(SnapshotFilter())}
        assert there == {made[0], made[2]}
        listed = await director.service.snapshots.list_files(made[2], os.fsencode(place))
        (file,) = listed.entries
        assert (file.path, file.state) == (os.fsencode(place / "closed"), "unreadable")
    request = RestoreRequest(made[2], (), client="web1", target=b"/tmp/back")
    run = await director.service.commands.start_restore(request, OPERATOR)
    await director.settle()
    agent.order(StartRestore)
    lines = (await director.texts(run.id)).splitlines()
    (said,) = [line for line in lines if str(place / "closed") in line]
    assert made[0] in said


@in_loop
async def test_what_failed_runs_stored_pushes_nothing_out(director):
    """An agent whose run failed is told to try again, and each attempt may store a snapshot."""
    again = "RescheduleOnError = yes; RescheduleInterval = 1; RescheduleTimes = 20"
    agent = await director.with_agent(
        client("web1") + job("nightly", more=again), pool="KeepLast = 3"
    )
    good = [await director.back_up(agent) for _ in range(3)]
    await director.start("nightly")
    forged = []
    for _ in range(5):
        run = next(one for one in await director.runs() if one.state == "running")
        snapshot = await director.store(agent)
        await director.end(agent, run.id, "failed", snapshot=snapshot)
        forged.append(snapshot)
        await director.go(2)
    assert set(good) <= {one.id for one in director.repository().snapshots()}
    run = next(one for one in await director.runs() if one.state == "running")
    newest = await director.store(agent)
    await director.end(agent, run.id, snapshot=newest)
    there = {one.id for one in director.repository().snapshots()}
    assert there == {newest, *good[1:], *forged[-2:]}


@in_loop
async def test_a_run_has_one_snapshot_however_many_carry_its_tag(director):
    agent = await director.with_agent(
        client("web1") + job("nightly") + ADMIN % 'Console = "rebuild catalog"', pool="KeepLast = 2"
    )
    first = await director.back_up(agent)
    run = await director.start("nightly")
    await agent.start(run.id)
    second, *more = [await director.store(agent) for _ in range(4)]
    await director.end(agent, run.id, snapshot=second)
    # Anyone who rebuilds believes what agents stored beyond it.
    assert (await director.start("admin")).state == "done"
    third = await director.back_up(agent)
    there = {one.id for one in director.repository().snapshots()}
    assert first not in there
    assert there == {second, more[-1], third}


@in_loop
async def test_retention_that_takes_the_full_snapshot_makes_no_more_full_ones(director):
    agent = await director.with_agent(
        client("web1") + job("nightly", more="Level = Incremental"), pool="KeepLast = 1"
    )
    made = [await director.back_up(agent) for _ in range(3)]
    assert [one.level for one in reversed(await director.runs())] == [
        "full", "incremental", "incremental",
    ]  # fmt: skip
    await director.start("nightly")
    assert agent.order().parent == made[-1]


@in_loop
async def test_nobody_lifts_minimum_retention(director):
    agent = await director.with_agent(
        client("web1") + job("nightly"), pool="KeepLast = 1; MinimumRetention = 10 days"
    )
    made = [await director.back_up(agent) for _ in range(2)]
    assert len(director.repository().snapshots()) == 2
    info = await director.service.snapshots.get(made[0])
    assert info.kept_until_ns == info.server_ns + 10 * DAY * 10**9
    with pytest.raises(ConflictError, match="Minimum Retention"):
        await director.service.commands.forget_snapshot(made[0], OPERATOR)
    # A clock that jumps ahead is not believed.
    director.time.jump(20 * DAY)
    await director.go()
    with pytest.raises(ConflictError, match="jumped"):
        await director.service.commands.forget_snapshot(made[0], OPERATOR)
    assert len(director.repository().snapshots()) == 2
    await director.go(2 * DAY)
    assert (await director.service.commands.forget_snapshot(made[0], OPERATOR)).removed_ns
    assert [one.id for one in director.repository().snapshots()] == [made[1]]
    with pytest.raises(ConflictError, match="removed"):
        await director.service.commands.forget_snapshot(made[0], OPERATOR)


@in_loop
async def test_a_client_with_a_wrong_clock_pushes_nothing_out(director):
    agent = await director.with_agent(client("web1") + job("nightly"), pool="KeepWithin = 3 days")
    first = await director.back_up(agent)
    await director.go(DAY)
    # The engine's own process has the real clock, a day behind the director's.
    second = await director.back_up(agent)
    assert {one.id for one in director.repository().snapshots()} == {first, second}
    text = await director.texts((await director.runs())[0].id)
    assert "clock is about -86" in text


VERIFY = """Job { Name = check; Type = Verify; Level = %s; JobToVerify = nightly; Client = web1
  FileSet = Home; Storage = main; Pool = Default; Messages = Standard; %s }
"""


@pytest.mark.parametrize("level", ["Data", "VolumeToCatalog"])
def test_a_verify_job_reads_what_a_restore_would(director, level):
    @in_loop
    async def test(director):
        agent = await director.with_agent(
            client("web1") + job("nightly") + VERIFY % (level, "RestoreTestFiles = 9")
        )
        nothing = await director.start("check")
        assert (nothing.state, nothing.error_id) == ("failed", "snapshot-not-found")
        snapshot = await director.back_up(agent)
        good = await director.start("check")
        assert (good.state, good.snapshot, good.error) == ("done", snapshot, "")
        if level == "Data":
            assert (good.files, good.bytes > 0) == (9, True)
        else:
            assert good.bytes > 40_000
        metrics = {one.name: one.samples for one in await director.service.queries.metrics()}
        labels = {"backup_job": "check", "client": "web1"}
        assert metrics["strongroom_backup_last_verify_success"] == ((labels, 1.0),)
        tested = metrics["strongroom_backup_last_restore_test_success"]
        assert tested == (((labels, 1.0),) if level == "Data" else ())
        for pack in (director.folder / "main" / "packs").rglob("*"):
            if pack.is_file():
                data = bytearray(pack.read_bytes())
                data[len(data) // 2 - 200 : len(data) // 2 + 200] = bytes(400)
                pack.chmod(0o600)
                pack.write_bytes(data)
        bad = await director.start("check")
        assert bad.state == "failed"
        assert bad.error_id in ("check-failed", "damage")
        assert not (director.folder / "work" / "restore-tests" / bad.id).exists()

    test(director=director)


@in_loop
async def test_a_verify_of_live_files_is_the_agents(director):
    agent = await director.with_agent(
        client("web1") + job("nightly") + VERIFY % ("DiskToCatalog", "")
    )
    snapshot = await director.back_up(agent)
    run = await director.start("check")
    order = agent.order(StartVerify)
    assert order.options.reads_content is True
    await director.end(agent, run.id, "incomplete", summary={"entries": 21, "differences": {}})
    ended = await director.run(run.id)
    assert (ended.state, ended.snapshot, ended.files) == ("incomplete", snapshot, 21)


@in_loop
async def test_a_copy_job_brings_another_repository_what_it_lacks(director):
    copy = """Job { Name = offsite; Type = Copy; SelectionType = PoolUncopiedJobs; Storage = main
      Pool = Default; NextPool = Offsite; Messages = Standard; Client = web1; FileSet = Home }
    """
    agent = await director.with_agent(client("web1") + job("nightly") + copy)
    made = {await director.back_up(agent) for _ in range(2)}
    run = await director.start("offsite")
    assert (run.state, run.error) == ("done", "")
    there = director.repository("offsite").snapshots()
    assert {one.original.partition(":")[2] for one in there} == made
    entered = await director.service.snapshots.find(SnapshotFilter(pool="Offsite"))
    assert {(one.id, one.storage, one.client) for one in entered} == {
        (one.id, "offsite", "web1") for one in there
    }
    assert {one.original for one in entered} == made
    again = await director.start("offsite")
    assert "nothing to copy" in await director.texts(again.id)
    # The pool of the copies has its own retention, which is reported here.
    assert len(await director.service.snapshots.find(SnapshotFilter(pool="Default"))) == 2
    third = await director.back_up(agent)
    run = await director.start("offsite")
    entered = await director.service.snapshots.find(SnapshotFilter(pool="Offsite"))
    assert len(entered) == len(director.repository("offsite").snapshots()) == 2
    made.add(third)
    # Copies do not become parents of backups.
    await director.start("nightly")
    assert agent.order().parent in made


@in_loop
async def test_a_schedule_says_where_a_copy_job_copies_to(director):
    text = """Pool { Name = Nowhere; Storage = main }
    Schedule { Name = copying; Run = NextPool=Offsite at 1:00
    }
    Job { Name = offsite; Type = Copy; Storage = main; Pool = Default; NextPool = Nowhere
      Messages = Standard; Schedule = copying }
    """
    await director.open(client("web1") + job("nightly") + text)
    made = await director.back_up(await director.agent("web1"))
    await director.go(24 * 3600)
    (run,) = await director.runs(job="offsite")
    assert (run.state, run.error) == ("done", "")
    there = director.repository("offsite").snapshots()
    assert [one.original.partition(":")[2] for one in there] == [made]


@in_loop
async def test_the_catalog_is_backed_up_and_read_back(director, tmp_path):
    agent = await director.with_agent(
        client("web1") + job("nightly") + ADMIN % 'Console = "backup catalog"', pool="KeepLast = 1"
    )
    await director.back_up(agent)
    before = [run.id for run in await director.runs()]
    await director.start("admin")
    run = await director.start("admin")
    assert (run.state, run.error) == ("done", "")
    # Only the newest is kept: it has a retention like any other job.
    found = await director.service.snapshots.find(SnapshotFilter(job="catalog"))
    assert [one.id for one in found] == [run.snapshot]
    assert found[0].client == "dir"
    director.command("restore", run.snapshot, "--target", str(tmp_path / "back"))
    copies = list((tmp_path / "back").rglob("catalog.jsonl"))
    assert list((tmp_path / "back").rglob("all.conf"))
    catalog = open_catalog(f"sqlite:///{tmp_path}/again.sqlite")
    with copies[0].open("rb") as file:
        read_portable(catalog, file)
    assert set(before) <= {one.id for one in find_runs(catalog, RunFilter())}
    catalog.close()


@in_loop
async def test_the_catalog_comes_back_from_the_repository_alone(director):
    text = client("web1") + job("nightly") + ADMIN % 'Console = "rebuild catalog"'
    agent = await director.with_agent(text)
    made = [await director.back_up(agent) for _ in range(2)]
    before = await director.service.snapshots.find(SnapshotFilter())
    first = (await director.runs())[-1]
    await director.service.stop()
    for file in (director.folder / "work").glob("catalog.sqlite*"):
        file.unlink()
    director.link.agents.clear()
    await director.open()
    assert await director.service.snapshots.find(SnapshotFilter()) == []
    run = await director.start("admin")
    assert "2 snapshots added" in await director.texts(run.id)
    after = await director.service.snapshots.find(SnapshotFilter())
    assert {one.id for one in after} == set(made)
    same = ("id", "client", "job", "pool", "storage", "level", "run", "files", "bytes", "server_ns")
    assert [[getattr(one, name) for name in same] for one in after] == [
        [getattr(one, name) for name in same] for one in before
    ]
    restored = await director.run(first.id)
    assert (restored.state, restored.snapshot) == (first.state, first.snapshot)
    # Backups continue from what is there.
    await agent.connect(director.service)
    await director.start("nightly")
    assert agent.order().level == "incremental"
    assert agent.order().parent == made[1]
    # A second time there is nothing left to do.
    run = await director.start("admin")
    assert "0 snapshots added" in await director.texts(run.id)


@in_loop
async def test_pruning_gives_space_back(director):
    agent = await director.with_agent(
        client("web1") + job("nightly") + ADMIN % 'Console = "prune"; Console = "expire runs 1"'
    )
    snapshot = await director.back_up(agent)
    await director.service.commands.forget_snapshot(snapshot, OPERATOR)
    run = await director.start("admin")
    assert (run.state, run.error) == ("done", "")
    assert run.summary["removed_packs"] > 0
    assert not [one for one in (director.folder / "main" / "packs").rglob("*") if one.is_file()]


@in_loop
async def test_a_command_that_there_is_not_is_found_when_the_configuration_is_read(director):
    wrong = ADMIN % 'Console = "label volume"'
    director.configure(client("web1") + job("nightly") + wrong)
    with pytest.raises(ConfigurationError, match=r"all.conf:\d+:53: .*console"):
        await director.open()
    # A job that is disabled is in no one's way until it is started by hand.
    await director.open(
        client("web1") + wrong.replace("Type = Admin", "Type = Admin; Enabled = no")
    )
    run = await director.start("admin")
    assert (run.state, run.error_id) == ("failed", "usage")


@in_loop
async def test_a_task_that_is_cancelled_is_gone(director):
    agent = await director.with_agent(client("web1") + job("nightly") + VERIFY % ("Data", ""))
    await director.back_up(agent)
    # The task waits for its passphrase forever.
    (director.folder / "passphrase").unlink()
    os.mkfifo(director.folder / "passphrase")
    run = await director.queue("check")
    await director.until_said(run.id, "verifies")
    ended = await director.service.commands.cancel(run.id, OPERATOR)
    assert ended.state == "cancelled"
    await director.settle()


@in_loop
async def test_a_task_that_dies_fails_the_run(director, monkeypatch):
    agent = await director.with_agent(client("web1") + job("nightly") + VERIFY % ("Data", ""))
    await director.back_up(agent)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    run = await director.start("check")
    assert (run.state, run.error_id) == ("failed", "job-died")


@in_loop
async def test_a_run_of_the_directors_own_does_not_outlive_it(director):
    agent = await director.with_agent(
        client("web1") + job("nightly") + VERIFY % ("Data", "RescheduleOnError = yes")
    )
    await director.back_up(agent)
    (director.folder / "passphrase").unlink()
    os.mkfifo(director.folder / "passphrase")
    run = await director.queue("check")
    await director.until_said(run.id, "verifies")
    await director.restart()
    ended = await director.run(run.id)
    assert (ended.state, ended.error_id) == ("failed", "restarted")
    assert [one.attempt for one in await director.runs(states=("waiting",))] == [2]


def test_a_passphrase_that_is_wrong_or_that_anybody_may_read_is_told(tmp_path, caplog):
    Repository.create(LocalStore(str(tmp_path / "main")), b"right").close()
    file = tmp_path / "passphrase"
    file.write_bytes(b"wrong\n")
    file.chmod(0o644)
    places = {"vault": RepositoryAccess(str(tmp_path / "main"), str(file))}
    with pytest.raises(WrongKeyError, match=f"storage vault: {file}"):
        Repositories(places).open("vault")
    assert f"anyone here can read {file}" in caplog.text
