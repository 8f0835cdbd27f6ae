"""The catalog keeps what it is told, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import event, make_url, update

from strongroom.base import clock
from strongroom.base.errors import (
    CatalogError,
    CatalogUnavailableError,
    ConflictError,
    SnapshotNotFoundError,
    UnknownNameError,
)
from strongroom.director.catalog.access import (
    add_audit,
    create_token,
    find_token,
    list_audit,
    list_tokens,
    remove_token,
)
from strongroom.director.catalog.clients import (
    change_client,
    load_clients,
    names_of_runs,
    names_of_snapshots,
)
from strongroom.director.catalog.database import open_catalog
from strongroom.director.catalog.portable import read_portable, write_portable
from strongroom.director.catalog.run_history import ended_runs
from strongroom.director.catalog.runs import (
    LONGEST_LINE_CHARACTERS,
    NewLine,
    add_run,
    change_run,
    find_runs,
    last_ends,
    last_failed_level,
    last_runs,
    load_run,
    log_lines,
    new_run_id,
    unfinished_runs,
    unfollowed_runs,
)
from strongroom.director.catalog.snapshots import (
    add_snapshots,
    bytes_by_storage,
    find_snapshots,
    load_snapshot,
    newest_snapshot,
    note_removed,
    present_snapshots,
    totals_by_client,
)
from strongroom.director.catalog.state import (
    last_due,
    note_due,
    read_state,
    write_state,
)
from strongroom.director.catalog.tables import METADATA, REVISION, RUNS
from strongroom.director.results.access import Actor
from strongroom.director.results.runs import Run, RunFilter
from strongroom.director.results.snapshots import Snapshot, SnapshotFilter

OPERATOR = Actor("ann", "operator", "192.0.2.7")


def make_run(**fields) -> Run:
    return Run(**{"id": new_run_id(), "job": "nightly", "kind": "backup", **fields})


def make_snapshot(number: int, **fields) -> Snapshot:
    return Snapshot(
        **{"id": f"{number:064x}", "client": "web1", "server_ns": number, "start_ns": number}
        | fields
    )


# What PostgreSQL, an index or UTF-8 does not take; the last is long however it is packed.
ODD = ("a\0b", "a\ud800b", "".join(chr(0x10000 + number * 7919 % 60000) for number in range(5000)))
NAMES = ("client", "job", "fileset", "level", "pool", "storage")


@pytest.mark.parametrize("odd", ODD)
def test_a_snapshot_of_odd_names_is_entered_with_the_others(catalog, odd):
    names = dict.fromkeys((*NAMES, "original", "run", "removed_reason"), odd)
    records = [make_snapshot(1), make_snapshot(2, **names), make_snapshot(3)]
    assert add_snapshots(catalog, records) == 3
    entered = load_snapshot(catalog, f"{2:064x}")
    whole = {"a\0b": "a\\0b", "a\ud800b": "a\\ud800b"}.get(odd, odd)
    assert all(getattr(entered, name) == whole[:300] for name in NAMES)
    assert entered.original == whole[:4096]


def test_snapshots_that_claim_to_be_vast_do_not_spoil_the_totals(catalog):
    vast = {"bytes": (1 << 62) - 1, "stored_bytes": (1 << 62) - 1, "storage": "main"}
    add_snapshots(catalog, [make_snapshot(number, **vast) for number in range(1, 6)])
    add_snapshots(catalog, [make_snapshot(9, client="web2", bytes=5, stored_bytes=7)])
    totals = totals_by_client(catalog)
    assert totals["web2"] == (1, 7)
    assert totals["web1"] == (5, 5 << 62)
    assert bytes_by_storage(catalog) == {"main": 5 << 62, "": 5}


def test_the_tags_of_a_snapshot_are_bounded(catalog):
    add_snapshots(catalog, [make_snapshot(1, tags=(*ODD, *map(str, range(5000))))])
    tags = load_snapshot(catalog, f"{1:064x}").tags
    assert (len(tags), tags[:2], tags[3]) == (1000, ("a\\0b", "a\\ud800b"), "0")
    assert len(tags[2]) == 300


@pytest.mark.parametrize("odd", ODD)
def test_a_run_of_odd_names_is_entered(catalog, odd):
    names = dict.fromkeys((*NAMES, "reason"), odd)
    record = add_run(catalog, make_run(**names))
    assert load_run(catalog, record.id) == record
    assert "\0" not in record.job


@pytest.mark.filterwarnings("ignore:.*expression-based index")
def test_migrations_make_the_tables_that_the_code_knows(catalog):
    with catalog.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (SnapshotFilter(limit=100), "ix_snapshots_begun"),
        (SnapshotFilter(limit=100, job="rare"), "ix_snapshots_job_begun"),
    ],
)
def test_the_first_page_of_snapshots_is_read_in_their_order(catalog, wanted, index):
    """Not all of them sorted, nor those of other jobs read: 0.5 and 0.7 s of 300,000."""
    jobs = {n: "rare" if n % 20 == 0 else "often" for n in range(1, 3000)}
    many = [make_snapshot(n, start_ns=n % 7 + 1, job=job) for n, job in jobs.items()]
    add_snapshots(catalog, many)
    statements = []

    def before(connection, cursor, statement, parameters, context, executemany):
        statements.append((statement, parameters))

    with catalog.reading() as connection:
        engine = connection.engine
    event.listen(engine, "before_cursor_execute", before)
    found = find_snapshots(catalog, wanted)
    event.remove(engine, "before_cursor_execute", before)
    begun = [record.begun_ns for record in found]
    assert begun == sorted(begun, reverse=True)
    assert len(begun) == 100
    ((statement, parameters),) = [one for one in statements if "FROM snapshots" in one[0]]
    if catalog.kind == "postgresql":
        # It chooses by its statistics.
        return
    with catalog.reading() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
    assert any(f"INDEX {index}" in str(line) for line in plan), plan
    assert not any("USE TEMP B-TREE FOR ORDER BY" in str(line) for line in plan), plan


def test_the_newest_migration_is_the_one_that_the_code_expects():
    config = Config()
    config.set_main_option("script_location", "strongroom.director.catalog:migrations")
    assert ScriptDirectory.from_config(config).get_current_head() == REVISION


def test_a_catalog_that_needs_no_migration_is_opened_without_alembic(new_catalog_url):
    url = make_url(new_catalog_url())
    open_catalog(url).close()
    words = url.render_as_string(hide_password=False)
    program = (
        "import sys; from strongroom.director.catalog.database import open_catalog\n"
        f"open_catalog({words!r}).close(); print('alembic' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert said.stdout == b"False\n"


def test_a_catalog_opens_again_with_what_was_in_it(new_catalog_url):
    url = new_catalog_url()
    first = open_catalog(url)
    record = add_run(first, make_run(summary={"files": 3}, request={"paths": ["/etc"]}))
    first.close()
    second = open_catalog(url)
    assert load_run(second, record.id) == record
    second.close()


def test_a_catalog_of_a_newer_version_is_refused(new_catalog_url):
    url = new_catalog_url()
    catalog = open_catalog(url)
    with catalog.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    catalog.close()
    with pytest.raises(CatalogError, match="newer version"):
        open_catalog(url)


def test_a_transaction_that_fails_leaves_nothing(catalog):
    def write_and_fail() -> None:
        with catalog.writing() as connection:
            connection.execute(METADATA.tables["state"].insert(), [{"name": "a", "value": 1}])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert read_state(catalog, "a") is None


def test_a_fault_of_the_database_is_one_of_ours(catalog):
    add_run(catalog, record := make_run())
    with pytest.raises(CatalogError):
        add_run(catalog, record)


def test_a_database_that_is_away_is_told_from_one_that_was_asked_wrongly(own_cluster):
    url = own_cluster.new_database()
    catalog = open_catalog(url)
    write_state(catalog, "a", 1)
    with pytest.raises(CatalogError) as asked_wrongly, catalog.reading() as connection:
        connection.exec_driver_sql("SELECT nothing")
    assert not isinstance(asked_wrongly.value, CatalogUnavailableError)
    own_cluster.stop()
    for _ in range(2):
        with pytest.raises(CatalogUnavailableError):
            read_state(catalog, "a")
    with pytest.raises(CatalogUnavailableError):
        open_catalog(url)
    own_cluster.start()
    # Connections of before are not taken for good.
    assert read_state(catalog, "a") == 1
    own_cluster.kill()
    own_cluster.start()
    write_state(catalog, "a", 2)
    assert read_state(catalog, "a") == 2
    catalog.close()


def test_a_disk_that_is_full_is_one_that_cannot_be_used_now(tmp_path):
    catalog = open_catalog(f"sqlite:///{tmp_path}/c.sqlite")

    def fill() -> None:
        with catalog.writing() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            table = METADATA.tables["state"]
            connection.execute(table.insert(), [{"name": "a", "value": "x" * 100_000}])

    with pytest.raises(CatalogUnavailableError, match="full"):
        fill()
    catalog.close()


def test_a_run_is_found_by_the_beginning_of_its_id(catalog):
    for run_id in ("abcd0" + "0" * 27, "abcd1" + "0" * 27, "f" * 32):
        add_run(catalog, make_run(id=run_id))
    assert load_run(catalog, "abcd1").id == "abcd1" + "0" * 27
    assert load_run(catalog, "ffff").id == "f" * 32
    with pytest.raises(ConflictError):
        load_run(catalog, "abcd")
    for wrong in ("eeee", "abc", "xyz%", "", "ab%d"):
        with pytest.raises(UnknownNameError):
            load_run(catalog, wrong)


def test_a_change_and_its_log_lines_are_one(catalog):
    record = add_run(catalog, make_run(), [NewLine(1, "info", "queued")])
    changed, lines = change_run(
        catalog,
        record.id,
        {"state": "running", "started_ns": 5},
        [NewLine(2, "warning", "a\0b\udcff"), NewLine(3, "info", "x" * 10_000)],
    )
    assert (changed.state, changed.started_ns, changed.log_lines) == ("running", 5, 3)
    assert load_run(catalog, record.id) == changed
    assert [line.sequence for line in lines] == [2, 3]
    assert log_lines(catalog, record.id, after=1) == lines
    assert lines[0].text == "a\\0b\\udcff"
    assert len(lines[1].text) == LONGEST_LINE_CHARACTERS
    assert [line.text for line in log_lines(catalog, record.id, limit=1)] == ["queued"]


def test_a_change_is_refused_in_another_state(catalog):
    record = add_run(catalog, make_run(state="done"))
    with pytest.raises(ConflictError, match="done"):
        change_run(
            catalog,
            record.id,
            {"state": "running"},
            [NewLine(1, "info", "no")],
            only_in=("queued", "waiting"),
        )
    assert load_run(catalog, record.id) == record
    assert log_lines(catalog, record.id) == []


def test_many_threads_write_without_losing_a_line(catalog):
    record = add_run(catalog, make_run())

    def append(number: int) -> None:
        change_run(catalog, record.id, {}, [NewLine(number, "info", str(number))])

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(append, range(60)))
    lines = log_lines(catalog, record.id)
    assert [line.sequence for line in lines] == list(range(1, 61))
    assert {line.text for line in lines} == {str(number) for number in range(60)}


def test_runs_are_found_by_what_they_are(catalog):
    add_run(catalog, make_run(id="1" * 32, client="web1", scheduled_ns=10, state="done"))
    add_run(catalog, make_run(id="2" * 32, client="web2", scheduled_ns=20, state="failed"))
    add_run(catalog, make_run(id="3" * 32, client="web1", scheduled_ns=30, kind="restore"))

    def found(**fields) -> list[str]:
        return [record.id[0] for record in find_runs(catalog, RunFilter(**fields))]

    assert found() == ["3", "2", "1"]
    assert found(client="web1") == ["3", "1"]
    assert found(kind="backup") == ["2", "1"]
    assert found(states=("done", "failed")) == ["2", "1"]
    assert found(after_ns=20) == ["3", "2"]
    assert found(before_ns=20) == ["1"]
    assert found(limit=1, offset=1) == ["2"]
    assert [record.id[0] for record in unfinished_runs(catalog)] == ["3"]
    assert last_runs(catalog)["nightly"].id[0] == "3"


def test_the_last_ends_are_told_for_each_job_and_client(catalog):
    ends = [("web1", "done", 10), ("web1", "failed", 20), ("web2", "incomplete", 5)]
    for client, state, ended_ns in ends:
        add_run(catalog, make_run(client=client, state=state, ended_ns=ended_ns))
    told = [(record.client, record.state) for record in last_ends(catalog)]
    assert told == [("web2", "incomplete"), ("web1", "done"), ("web1", "failed")]


def test_a_digest_of_many_runs_does_not_load_what_their_agents_reported(catalog):
    # 20,000 runs with what an agent may report of each, 64 KiB, would take gigabytes.
    long = {"summary": {"text": "x" * 60_000}, "error": "e" * 1000, "reason": "r" * 1000}
    add_run(catalog, make_run(state="failed", ended_ns=5, stored_bytes=7, storage="vault", **long))
    (found,) = ended_runs(catalog, 0, 100)
    assert (found.state, found.ended_ns, found.stored_bytes) == ("failed", 5, 7)
    assert (found.storage, found.kind) == ("vault", "backup")
    assert (found.summary, found.error, found.reason) == ({}, "", "")


def test_a_failed_level_is_remembered_until_a_good_one(catalog):
    add_run(catalog, make_run(client="web1", state="failed", level="full", scheduled_ns=10))
    add_run(catalog, make_run(client="web1", state="failed", level="incremental", scheduled_ns=20))
    assert last_failed_level(catalog, "nightly", "web1", 5) == "full"
    assert last_failed_level(catalog, "nightly", "web1", 10) == ""
    assert last_failed_level(catalog, "nightly", "web2", 0) == ""


def test_snapshots_are_entered_once_and_found(catalog):
    records = [
        make_snapshot(1, job="a", level="full", tags=("x", "y")),
        make_snapshot(2, job="a", level="incremental", pool="Daily"),
        make_snapshot(3, job="b", client="web2", level="incremental", pool="Daily"),
    ]
    assert add_snapshots(catalog, records) == 3
    assert add_snapshots(catalog, [make_snapshot(1, job="other")]) == 0
    assert find_snapshots(catalog, SnapshotFilter()) == records[::-1]
    assert find_snapshots(catalog, SnapshotFilter(pool="Daily", client="web1")) == [records[1]]
    assert find_snapshots(catalog, SnapshotFilter(after_ns=2, before_ns=3)) == [records[1]]
    assert newest_snapshot(catalog, job="a", client="web1") == records[1]
    assert newest_snapshot(catalog, job="a", client="web1", levels=("full",)) == records[0]
    assert newest_snapshot(catalog, job="a", client="web2") is None
    assert load_snapshot(catalog, "0" * 63 + "3") == records[2]
    for wrong in ("00000", "abcdef", "zz"):
        with pytest.raises(SnapshotNotFoundError):
            load_snapshot(catalog, wrong)


def test_copies_come_after_their_originals_and_only_where_they_are_asked_for(catalog):
    older, newer = make_snapshot(10, server_ns=12), make_snapshot(20, server_ns=23)
    copy = make_snapshot(30, start_ns=20, server_ns=90, original=newer.id, storage="offsite")
    # Its client's clock was ahead.
    ahead = make_snapshot(15, start_ns=70)
    add_snapshots(catalog, [copy, older, newer, ahead])
    assert find_snapshots(catalog, SnapshotFilter()) == [newer, copy, ahead, older]
    one_each = SnapshotFilter(with_copies=False)
    assert find_snapshots(catalog, one_each) == [newer, ahead, older]
    note_removed(catalog, [newer.id], 99, "keep-last 1")
    assert find_snapshots(catalog, one_each) == [copy, ahead, older]


def test_a_removed_snapshot_is_remembered_but_not_found(catalog):
    add_snapshots(catalog, [make_snapshot(1, job="a"), make_snapshot(2, job="a")])
    note_removed(catalog, [f"{2:064x}"], 77, "keep-last 1")
    note_removed(catalog, [f"{2:064x}"], 99, "again")
    assert [record.server_ns for record in present_snapshots(catalog, job="a")] == [1]
    assert newest_snapshot(catalog, job="a", client="web1").server_ns == 1
    removed = find_snapshots(catalog, SnapshotFilter(with_removed=True))[0]
    assert (removed.removed_ns, removed.removed_reason) == (77, "keep-last 1")


def test_a_client_is_entered_when_it_is_first_seen(catalog):
    change_client(catalog, "web1", last_seen_ns=5, features=("ktls",))
    change_client(catalog, "web1", version="1.0", clock_ahead_ns=-3)
    change_client(catalog, "web2")
    clients = load_clients(catalog)
    assert set(clients) == {"web1", "web2"}
    web1 = clients["web1"]
    assert (web1.last_seen_ns, web1.features, web1.version, web1.clock_ahead_ns) == (
        5,
        ("ktls",),
        "1.0",
        -3,
    )


def test_a_token_opens_until_it_expires_or_is_withdrawn(catalog, monkeypatch):
    now_ns = clock.now_ns()
    forever, text = create_token(catalog, "console", "operator", 0)
    brief, brief_text = create_token(catalog, "demo", "webui", now_ns + 1_000)
    found = find_token(catalog, text)
    assert found is not None
    assert (found.id, found.profile) == (forever.id, "operator")
    assert find_token(catalog, text[:-1] + ("0" if text[-1] != "0" else "1")) is None
    assert find_token(catalog, "x" * 5000) is None
    monkeypatch.setattr(clock, "now_ns", lambda: now_ns + 10**12)
    assert find_token(catalog, brief_text) is None
    assert {info.id for info in list_tokens(catalog)} == {forever.id, brief.id}
    remove_token(catalog, forever.id)
    assert find_token(catalog, text) is None
    with pytest.raises(UnknownNameError):
        remove_token(catalog, forever.id)


def test_no_token_lies_in_the_database(catalog):
    _, text = create_token(catalog, "console", "operator", 0)
    file = io.BytesIO()
    write_portable(catalog, file)
    assert text.encode() not in file.getvalue()
    assert text.removeprefix("srt_").encode() not in file.getvalue()


def test_the_audit_log_is_read_backwards(catalog):
    for number in range(5):
        add_audit(catalog, OPERATOR, "run", f"job{number}\0", "done")
    entries = list_audit(catalog, limit=2)
    assert [entry.object for entry in entries] == ["job4", "job3"]
    assert (entries[0].who, entries[0].role, entries[0].address) == ("ann", "operator", "192.0.2.7")
    assert [entry.object for entry in list_audit(catalog, before_id=entries[1].id)] == [
        "job2",
        "job1",
        "job0",
    ]
    assert list_audit(catalog, who="bob") == []


def test_due_times_and_facts_are_replaced(catalog):
    note_due(catalog, {("a", "1"): 5, ("b", "1"): 6})
    note_due(catalog, {("a", "1"): 7})
    note_due(catalog, {})
    assert last_due(catalog) == {("a", "1"): 7, ("b", "1"): 6}
    write_state(catalog, "clock", {"now_ns": 1})
    write_state(catalog, "clock", {"now_ns": 2})
    assert read_state(catalog, "clock") == {"now_ns": 2}


def test_a_catalog_moves_to_another_database_whole(catalog, tmp_path):
    record = add_run(catalog, make_run(summary={"ä": [1, None]}), [NewLine(1, "info", "ü")])
    add_snapshots(catalog, [make_snapshot(1, tags=("x",))])
    change_client(catalog, "web1", features=("ktls",))
    create_token(catalog, "console", "operator", 0)
    add_audit(catalog, OPERATOR, "run", "nightly", "done")
    note_due(catalog, {("a", "1"): 5})
    first = io.BytesIO()
    assert write_portable(catalog, first) == 7
    other = open_catalog(f"sqlite:///{tmp_path}/moved.sqlite")
    first.seek(0)
    assert read_portable(other, first) == 7
    assert load_run(other, record.id) == record
    second = io.BytesIO()
    write_portable(other, second)
    assert second.getvalue().splitlines()[1:] == first.getvalue().splitlines()[1:]
    first.seek(0)
    with pytest.raises(ConflictError, match="not empty"):
        read_portable(other, first)
    other.close()


def test_due_times_of_an_old_copy_start_nothing(catalog, tmp_path, monkeypatch):
    note_due(catalog, {("a", "1"): 5})
    file = io.BytesIO()
    write_portable(catalog, file)
    later_ns = clock.now_ns() + 30 * 86400 * 10**9
    monkeypatch.setattr(clock, "now_ns", lambda: later_ns)
    restored = open_catalog(f"sqlite:///{tmp_path}/restored.sqlite")
    file.seek(0)
    read_portable(restored, file)
    assert last_due(restored) == {}
    restored.close()


def test_a_copy_moves_into_this_database_and_grows_there(catalog, tmp_path):
    source = open_catalog(f"sqlite:///{tmp_path}/source.sqlite")
    for number in range(3):
        add_audit(source, OPERATOR, "run", str(number), "done")
    file = io.BytesIO()
    write_portable(source, file)
    source.close()
    file.seek(0)
    read_portable(catalog, file)
    add_audit(catalog, OPERATOR, "run", "later", "done")
    assert [entry.object for entry in list_audit(catalog)] == ["later", "2", "1", "0"]


def test_a_copy_of_the_revision_before_is_read(catalog):
    run = make_run(state="failed")
    names = [column.name for column in RUNS.columns if column.name != "aftermath"]
    row = {name: getattr(run, name) for name in names}
    lines = ({"strongroom_catalog": "0001"}, {"table": "runs", "row": row})
    assert read_portable(catalog, io.BytesIO(b"\n".join(map(msgspec.json.encode, lines)))) == 1
    assert load_run(catalog, run.id) == run
    assert unfollowed_runs(catalog) == []


def test_another_attempt_is_entered_once(catalog):
    failed = add_run(catalog, make_run(state="failed", aftermath="scripts"))
    assert unfollowed_runs(catalog) == [failed]
    again = make_run(rescheduled_from=failed.id)
    entered = add_run(catalog, again, [NewLine(1, "info", "attempt 2")])
    # Who did not hear that it was entered asks again.
    assert add_run(catalog, again, [NewLine(1, "info", "attempt 2")]) == entered
    with pytest.raises(ConflictError):
        add_run(catalog, make_run(rescheduled_from=failed.id))
    assert load_run(catalog, failed.id).aftermath == "rest"


@pytest.mark.parametrize(
    "text",
    [b"", b"hello\n", b'{"strongroom_catalog": "9"}\n', b'{"strongroom_catalog": "0001"}\n[]\n'],
)
def test_what_is_no_copy_of_a_catalog_is_refused(catalog, text):
    with pytest.raises(CatalogError):
        read_portable(catalog, io.BytesIO(text))


def test_a_copy_that_breaks_off_fills_nothing(catalog):
    row = b'{"table": "state", "row": {"name": "a", "value": 1}}\n'
    with pytest.raises(CatalogError):
        read_portable(catalog, io.BytesIO(b'{"strongroom_catalog": "0001"}\n' + row + b"{"))
    assert read_state(catalog, "a") is None


def test_sqlite_keeps_what_it_acknowledged_and_to_itself(tmp_path):
    catalog = open_catalog(f"sqlite:///{tmp_path}/c.sqlite")
    write_state(catalog, "a", 1)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    with catalog.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    catalog.close()


def test_listings_are_narrowed_to_the_names_that_there_are(catalog):
    assert names_of_runs(catalog, "client") == []
    for client, job, kind in (
        ("web1", "nightly", "backup"),
        ("web2", "weekly", "backup"),
        ("web1", "nightly", "backup"),
        ("", "prune", "admin"),
        ("web2", "files", "restore"),
    ):
        add_run(catalog, make_run(client=client, job=job, kind=kind))
    assert sorted(names_of_runs(catalog, "client")) == ["", "web1", "web2"]
    assert sorted(names_of_runs(catalog, "job")) == ["files", "nightly", "prune", "weekly"]
    add_snapshots(catalog, [make_snapshot(1, job="old"), make_snapshot(2, client="web3")])
    assert sorted(names_of_snapshots(catalog, "client")) == ["web1", "web3"]
    assert sorted(names_of_snapshots(catalog, "job")) == ["", "old"]

    def runs(**wanted):
        return sorted((one.client, one.job) for one in find_runs(catalog, RunFilter(**wanted)))

    assert runs(of_clients=("web1",)) == [("web1", "nightly")] * 2
    # A restore may be somebody's own, whatever its job.
    assert runs(of_jobs=("weekly",)) == [("web2", "files"), ("web2", "weekly")]
    assert runs(of_clients=()) == []
    found = find_snapshots(catalog, SnapshotFilter(of_clients=("web1",), of_jobs=("old",)))
    assert [one.client for one in found] == ["web1"]


def test_a_reader_sees_one_state_while_others_write(catalog):
    write_state(catalog, "a", 1)
    with catalog.reading() as connection:
        if catalog.kind == "postgresql":
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        table = METADATA.tables["state"]
        before = connection.execute(table.select()).all()
        with catalog.writing() as other:
            other.execute(update(table).values(value=2))
        assert connection.execute(table.select()).all() == before
    assert read_state(catalog, "a") == 2
