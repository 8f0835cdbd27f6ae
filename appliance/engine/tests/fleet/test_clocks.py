"""Clocks that jump by a week, on each side and either way, while runs go on.

The clocks are moved by a library before the C library (kit.shifted_clock), so OpenSSL judges
certificates by them as well; times of files stay right.
"""

from __future__ import annotations

import random
import signal
from typing import TYPE_CHECKING

import pytest

from kit.shifted_clock import DAY_SECONDS, can_shift_clocks
from kit.tree_compare import compare_trees

if TYPE_CHECKING:
    from kit.house_of_daemons import DaemonProcess, HouseOfDaemons

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
            # A grant is good by the storage daemon's clock only; whose clock is wrong is told.
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
    house.director.await_said("is right again")
    third = house.run("nightly-web1")
    assert "nothing was forgotten" not in house.log(third["id"])
    assert [one["id"] for one in house.get("/snapshots")["items"]] == [third["snapshot"]]
