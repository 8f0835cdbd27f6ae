"""Clocks that jump by a week, on each side and either way, while runs continue.

The clocks are moved by a library before the C library (kit.shifted_clock), so OpenSSL judges
certificates by them as well; times of files stay right.
"""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from kit.daemon_process import wait_for
from kit.house_of_daemons import DaemonProcess, HouseOfDaemons
from kit.shifted_clock import DAY_SECONDS, can_shift_clocks
from kit.tree_compare import compare_trees
from strongroom.net.identities.identity import Identity

pytestmark = pytest.mark.skipif(
    not can_shift_clocks(), reason="no compiler for the clock that is moved"
)

WEEK_SECONDS = 7 * DAY_SECONDS


def daemon_of(house: HouseOfDaemons, side: str) -> DaemonProcess:
    sides = {"storage": house.storage, "director": house.director, "agent": house.agents["web1"]}
    return sides[side]


def start_again(house: HouseOfDaemons, side: str) -> None:
    if side == "agent":
        house.start_agent("web1")
    elif side == "director":
        house.start_director()
        house.await_connected("web1")
    else:
        house.start_storage()


def assert_restores(house: HouseOfDaemons, snapshot: str, name: str) -> None:
    restored = house.restore(snapshot, house.folder / name, "web1")
    assert restored["state"] == "done", house.log(restored["id"])
    found = house.restored(house.folder / name, "web1")
    assert compare_trees(bytes(house.source("web1")), bytes(found)) == []


@pytest.mark.parametrize(
    "side",
    [
        "agent",
        pytest.param("storage", marks=pytest.mark.slow),
        pytest.param("director", marks=pytest.mark.slow),
    ],
)
def test_a_clock_that_jumps_by_a_week_loses_nothing(new_house, side):
    house = new_house(clocks=True, client_further="Maximum Bandwidth Per Job = 1 MB/s")
    daemon = daemon_of(house, side)
    chance = random.Random(side)
    made = []
    for days in (7, -7):
        house.write_files(
            "web1", {f"{days}-{number}": chance.randbytes(500_000) for number in range(3)}
        )
        run_id = house.begin_run("nightly-web1")
        house.await_stored(run_id)
        assert daemon.clock is not None
        daemon.clock.set(days * DAY_SECONDS)
        # Maintenance meanwhile takes nothing away that the run needs.
        house.maintain("prune", "--max-unused", "0")
        run = house.ended(run_id)
        assert run["state"] == "done", (days, house.log(run_id))
        made.append(run["snapshot"])
        # New connections are made by the wrong clock as well.
        assert daemon.stop() == 0
        start_again(house, side)
        if side in ("director", "storage"):
            # A grant is good by the storage daemon's clock only; whose clock is wrong is reported.
            refused = house.restore(run["snapshot"], house.folder / f"no-{days}", "web1")
            assert refused["state"] == "failed"
            assert "clock" in refused["error"], refused
        else:
            assert_restores(house, run["snapshot"], f"restored-{days}")
    daemon.clock.set(0)
    last = house.run("nightly-web1", level="full")
    assert last["state"] == "done", house.log(last["id"])
    assert last["summary"]["new_bytes"] == 0
    assert_restores(house, last["snapshot"], "restored")
    # Retention believed none of it.
    kept = {one["id"] for one in house.get("/snapshots")["items"]}
    assert set(made) <= kept
    house.maintain("check", "--read-data")


def test_retention_does_not_believe_a_clock_that_jumped_ahead(new_house):
    house = new_house(clocks=True)
    house.director.configuration.write_text(
        house.director.configuration.read_text().replace("Keep Within = 30 days", "Keep Daily = 1")
    )
    house.director.signal(signal.SIGHUP)
    house.director.await_said("the new configuration is in force")
    house.write_files("web1", {"a": b"first"})
    first = house.run("nightly-web1")
    assert house.director.clock is not None
    house.director.clock.set(WEEK_SECONDS)
    house.director.signal(signal.SIGHUP)
    house.director.await_said("the clock jumped by +604800 s")
    house.write_files("web1", {"a": b"second"})
    second = house.run("nightly-web1")
    assert "nothing was forgotten: the clock jumped" in house.log(second["id"])
    assert {first["snapshot"], second["snapshot"]} <= {
        one["id"] for one in house.get("/snapshots")["items"]
    }
    assert "clock" in str(house.get("/status")["warnings"])
    house.director.clock.set(0)
    house.director.signal(signal.SIGHUP)
    house.director.await_said("is correct again")
    third = house.run("nightly-web1")
    assert "nothing was forgotten" not in house.log(third["id"])
    assert [one["id"] for one in house.get("/snapshots")["items"]] == [third["snapshot"]]


HOUSEKEEPING = """
Job { Name = old-runs; Type = Admin; Client = web1; FileSet = all-web1; Storage = vault
  Pool = short; Messages = standard
  RunScript { RunsWhen = Before; RunsOnClient = no; Console = "expire runs 14" } }
"""
# What a clock may have written, by table; the logs keep what they had.
TIMES = {
    "clients": ("last_seen_ns", "enrolled_ns"),
    "runs": ("scheduled_ns", "queued_ns", "not_before_ns", "started_ns", "ended_ns"),
    "snapshots": ("start_ns", "server_ns"),
    "incidents": ("since_ns", "opened_ns", "ended_ns"),
    "outbox": ("created_ns", "not_before_ns"),
    "tokens": ("created_ns", "last_used_ns"),
    "schedule_state": ("last_due_ns",),
}


def strange_times(house: HouseOfDaemons) -> list[tuple[str, str, float]]:
    """Times in the catalog that are more than a day from now, and how many days."""
    found = []
    now = time.time()
    with closing(sqlite3.connect(house.folder / "work" / "main.sqlite", timeout=30)) as catalog:
        for table, columns in TIMES.items():
            for column in columns:
                query = f"SELECT {column} FROM {table} WHERE {column} != 0"
                for (time_ns,) in catalog.execute(query):
                    days = (time_ns / 1e9 - now) / DAY_SECONDS
                    if abs(days) > 1:
                        found.append((table, column, days))
    return found


def valid_at(folder: Path, moment: float) -> bool:
    identity = Identity.load(str(folder))
    return identity.not_before.timestamp() <= moment < identity.not_after.timestamp()


def valid_now(folder: Path) -> bool:
    return valid_at(folder, time.time())


@pytest.mark.parametrize(
    ("days", "is_restarted"),
    [
        pytest.param(100, True, id="ahead-at-its-start", marks=pytest.mark.slow),
        pytest.param(-100, False, id="behind-while-it-runs"),
        pytest.param(100, False, id="ahead-while-it-runs", marks=pytest.mark.slow),
        pytest.param(-100, True, id="behind-at-its-start", marks=pytest.mark.slow),
    ],
)
def test_nothing_stays_wrong_after_a_minute_with_a_wrong_clock(new_house, days, is_restarted):
    house = new_house("web1", "web2", clocks=True, schedules=HOUSEKEEPING)
    house.write_files("web1", {"a": b"first"})
    first = house.run("nightly-web1")
    agent = house.agents["web2"]
    agent.stop()

    # A bad clock of the appliance, before it is set from the network.
    appliance = (house.storage, house.director)
    for daemon in appliance:
        assert daemon.clock is not None
        if is_restarted:
            daemon.stop()
        daemon.clock.set(days * DAY_SECONDS)
    assert house.clock is not None
    house.clock.set(days * DAY_SECONDS)
    if is_restarted:
        house.start_storage()
        house.start_director()
    for daemon in appliance:
        daemon.signal(signal.SIGHUP)
    house.director.await_said("the clock jumped by")

    # Everything that it makes durable.
    house.authority("revoke", "ann")
    issue_ann = ("issue", "ann", "--role", "operator", "--folder", str(house.folder / "ann"))
    house.authority(*issue_ann)
    shutil.rmtree(house.folder / "web2" / "identity")
    house.enrol("web2")
    if valid_at(house.folder / "admin", time.time() + days * DAY_SECONDS):
        house.console("token", "create", "admin", "-o", str(house.folder / "token"))
        house.console("run", "old-runs", "--watch")

    for daemon in appliance:
        assert daemon.clock is not None
        daemon.clock.set(0)
    house.clock.set(0)
    for daemon in appliance:
        daemon.signal(signal.SIGHUP)
    house.director.await_said("is correct again")

    # Everybody can connect, by certificates that are valid now.
    wait_for(lambda: valid_now(house.folder / "boss"), lambda: house.director.log)
    wait_for(lambda: "clients connected" in house.console("status"), lambda: house.director.log)
    house.await_connected("web1")
    agent.start()
    house.await_connected("web2")
    house.authority(*issue_ann)
    house.console("status", person="ann")
    for name in ("boss", "vault", "admin", "ann", "web1/identity", "web2/identity"):
        assert valid_now(house.folder / name), name

    # Nothing is lost, and what comes next is newer than what was.
    house.write_files("web1", {"b": b"second"})
    second = house.run("nightly-web1")
    assert second["state"] == "done", house.log(second["id"])
    assert house.run("nightly-web2")["state"] == "done"
    assert {first["id"], second["id"]} <= {one["id"] for one in house.get("/runs")["items"]}
    newest = house.get("/snapshots", client="web1")["items"]
    assert {one["id"] for one in newest} == {first["snapshot"], second["snapshot"]}
    assert strange_times(house) == []

    # What is revoked from now on is revoked, and its successor is not.
    old = Identity.load(str(house.folder / "ann"))
    house.authority("revoke", "ann")
    house.authority(*issue_ann)
    trust = Identity.load(str(house.folder / "boss")).trust
    assert trust.revocations is not None
    assert trust.revocations.is_revoked(old.peer)
    house.console("status", person="ann")


def test_a_machine_that_sleeps_at_night_has_no_clock_that_jumps(new_house):
    house = new_house(clocks=True, pool="Keep Last = 1")
    made = []
    for night in range(2):
        house.write_files("web1", {f"{night}": b"day"})
        run = house.run("nightly-web1")
        made.append(run["snapshot"])
        for daemon in house.daemons:
            assert daemon.clock is not None
            daemon.clock.sleep(9 * 3600)
        assert house.clock is not None
        house.clock.sleep(9 * 3600)
        house.director.signal(signal.SIGHUP)
        house.director.await_said("the new configuration is in force", night + 1)
    assert "the clock jumped" not in house.director.log
    assert not house.get("/status")["warnings"]
    assert [one["id"] for one in house.get("/snapshots")["items"]] == made[-1:]
