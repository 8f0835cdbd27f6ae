"""`strongroom director` as a service manager runs it."""

import contextlib
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys

import pytest

from kit.damaged_file import damage_pages
from kit.director_server import CONFIGURATION, PATIENCE_SECONDS, RunningDirector
from kit.ports import free_port
from kit.prepared_commands import LOCALE, run_for_text, start_command
from strongroom.base import clock
from strongroom.base.errors import CatalogDamagedError, CatalogUnavailableError


@pytest.fixture
def prepared(tmp_path, director):
    port = free_port()
    told = f"Address = 127.0.0.1; Port = {port}\n"
    text = CONFIGURATION.replace("Address = 127.0.0.1\n", told, 1)
    made = RunningDirector(tmp_path, text, like=director)
    made.port = port
    return made


def words(prepared, *more):
    return ["director", "--config", str(prepared.configuration_file), *more]


def run(prepared, *more):
    return run_for_text(words(prepared, *more), os.environ)


class Process:
    def __init__(self, prepared, *more):
        self.log = prepared.folder / "log"
        with self.log.open("ab") as output:
            self.process = start_command(
                words(prepared, "--foreground", *more),
                {**os.environ, "LC_ALL": LOCALE},
                output.fileno(),
                output.fileno(),
            )

    def wait_for(self, text):
        end = clock.elapsed_seconds() + PATIENCE_SECONDS
        while text not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert clock.elapsed_seconds() < end, self.log.read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@pytest.fixture
def process(prepared):
    running = Process(prepared)
    running.wait_for(f"port {prepared.port}")
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_when_told_to(prepared, process, number):
    with prepared.client("admin") as admin:
        assert admin.get("/status").json()["name"] == "boss"
        begun = clock.elapsed_seconds()
        # The idle connection of this client does not hold it up.
        assert process.end(number) == os.EX_OK
        assert clock.elapsed_seconds() - begun < PATIENCE_SECONDS / 2
    assert "Traceback" not in process.log.read_text()


def test_sighup_takes_a_new_configuration_and_keeps_the_old_one_when_that_is_wrong(
    prepared, process
):
    good = prepared.configuration
    prepared.configure(good.replace("nightly-web2", "nightly-two"))
    process.process.send_signal(signal.SIGHUP)
    process.wait_for("reload: the new configuration is in force")
    prepared.configure(good.replace("Client = web1; Schedule", "Client = nobody; Schedule"))
    process.process.send_signal(signal.SIGHUP)
    process.wait_for("reload: the configuration in force stays")
    assert "nobody" in process.log.read_text()
    with prepared.client("admin") as admin:
        names = {one["name"] for one in admin.get("/jobs").json()["items"]}
    assert names == {"nightly-web1", "nightly-two", "nightly-db1"}
    assert process.end() == 0


def test_a_run_that_was_queued_is_there_after_a_restart(prepared, process):
    with prepared.client("admin") as admin:
        run = admin.post("/runs", json={"job": "nightly-web1"}).json()["id"]
    assert process.end(signal.SIGKILL) == -signal.SIGKILL
    again = Process(prepared)
    try:
        again.wait_for(f"port {prepared.port}")
        # The line may be the one of the process before.
        prepared.wait_for(lambda: is_open(prepared.port))
        with prepared.client("admin") as admin:
            assert admin.get(f"/runs/{run}").json()["state"] in ("queued", "waiting")
        assert again.end() == 0
    finally:
        again.process.kill()
        again.process.wait()


def test_before_it_starts_it_looks_for_faults_that_do_not_keep_it_from_starting(prepared):
    fault = 'Passphrase File = "/nowhere/passphrase"'
    text, count = re.subn('Passphrase File = "[^"]*"', fault, prepared.configuration, count=1)
    assert count == 1
    for configuration, said in (
        (prepared.configuration, "the check before the start found no fault"),
        (text, "[usage]: Passphrase File of Storage"),
    ):
        prepared.configure(configuration)
        (prepared.folder / "log").write_text("")
        running = Process(prepared, "--check-first")
        try:
            running.wait_for(f"port {prepared.port}")
            assert said in running.log.read_text()
            assert running.end() == 0
        finally:
            running.process.kill()
            running.process.wait()


def is_open(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_check_says_what_it_would_do_and_what_is_wrong(prepared):
    done = run(prepared, "--check")
    assert done.returncode == 0
    assert done.stdout == f"director boss would listen on 127.0.0.1 port {prepared.port}\n"
    prepared.configure(prepared.configuration.replace("Pool = short", "Pool = none"))
    done = run(prepared, "--check")
    assert done.returncode == 40
    assert "none" in done.stderr


def test_check_says_that_a_port_may_not_be_used_but_not_that_it_is_in_use(prepared, process):
    """A daemon that runs has its port; a unit allows one port, and a user those above 1023."""
    assert run(prepared, "--check").returncode == 0
    prepared.configure(prepared.configuration.replace(f"Port = {prepared.port}", "Port = 1023"))
    assert "Port = 1023" in prepared.configuration
    without = ["setpriv", "--bounding-set", "-net_bind_service"]
    done = subprocess.run(
        [*without, sys.executable, "-m", "strongroom", *words(prepared, "--check")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 71
    assert "cannot listen on 127.0.0.1 port 1023: Permission denied" in done.stderr


def test_an_address_that_is_taken_is_told(prepared):
    with socket.create_server(("127.0.0.1", prepared.port)):
        done = run(prepared)
    assert done.returncode == 71
    assert f"cannot listen on 127.0.0.1 port {prepared.port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_director_of_a_folder_ends_and_changes_nothing(prepared, process):
    with prepared.client("admin") as admin:
        run_id = admin.post("/runs", json={"job": "nightly-web1"}).json()["id"]
    # As if it were a job of the director itself, which one that starts takes for interrupted.
    (catalog,) = prepared.folder.rglob("*.sqlite")
    with contextlib.closing(sqlite3.connect(catalog)) as connection, connection:
        text = "update runs set kind = 'copy', state = 'running' where id = ?"
        assert connection.execute(text, [run_id]).rowcount == 1
    other = prepared.folder / "other.conf"
    text = prepared.configuration_file.read_text()
    other.write_text(text.replace(f"Port = {prepared.port}", f"Port = {free_port()}"))
    done = run_for_text(["director", "--config", str(other), "--foreground"], os.environ)
    assert done.returncode == 71
    assert "another director uses " in done.stderr
    assert "Traceback" not in done.stderr
    with contextlib.closing(sqlite3.connect(catalog)) as connection:
        found = connection.execute("select state from runs where id = ?", [run_id]).fetchall()
    assert found == [("running",)]


def test_a_certificate_of_another_name_is_refused_at_the_start(prepared):
    prepared.house.authority.issue_identity(str(prepared.folder / "boss"), "chief", "director")
    done = run(prepared)
    assert done.returncode == 33
    assert "this director is 'boss'" in done.stderr


@pytest.mark.parametrize("kind", ["restore", "put"])
def test_another_key_in_place_of_the_appliance_key_is_refused(prepared, kind):
    from strongroom.engine.repository.keys.files import export_key
    from strongroom.engine.repository.repository import Repository
    from strongroom.engine.stores.local import LocalStore

    secret = (prepared.folder / "passphrase").read_bytes().strip()
    repository = Repository.open(LocalStore(str(prepared.folder / "repository")), secret)
    key = repository.restore_key if kind == "restore" else repository.key.put_key("web1")
    (prepared.folder / "appliance.key").write_text(export_key(key))
    repository.close()
    done = run(prepared)
    assert done.returncode == 2
    assert "is not an appliance key" in done.stderr


def test_a_damaged_catalog_ends_it_and_one_that_takes_its_place_has_it_start_again(
    prepared, process
):
    (catalog,) = prepared.folder.rglob("*.sqlite")
    copy = catalog.with_name("copy.sqlite")
    closing = contextlib.closing
    with closing(sqlite3.connect(catalog)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)
    copy.replace(catalog)
    process.process.send_signal(signal.SIGHUP)
    assert process.process.wait(60) == CatalogUnavailableError.exit_code
    assert "was replaced" in process.log.read_text()
    for end in ("-wal", "-shm"):
        catalog.with_name(catalog.name + end).unlink(missing_ok=True)
    damage_pages(catalog)
    again = Process(prepared)
    try:
        assert again.process.wait(60) == CatalogDamagedError.exit_code
        assert "strongroom catalog recover" in again.log.read_text()
    finally:
        again.process.kill()
        again.process.wait()
