"""All three daemons as an operator sets them up: runs, restores, TLS modes, and who may not."""

from __future__ import annotations

import json
import random
import signal
import time

import httpx
import pytest

from kit.house_of_daemons import HouseOfDaemons, wait_for
from kit.shifted_clock import can_shift_clocks
from kit.tree_compare import compare_trees
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.identities.identity import Identity


def some_files(seed: int, count: int = 20) -> dict[str, bytes]:
    chance = random.Random(seed)
    return {
        f"{seed}/{number % 4}/{number}": chance.randbytes(chance.randrange(20_000))
        for number in range(count)
    }


def assert_restores(house: HouseOfDaemons, snapshot: str, name: str, to: str) -> None:
    target = house.folder / to / f"restored-{snapshot[:8]}"
    run = house.restore(snapshot, target, to)
    assert run["state"] == "done", house.log(run["id"])
    assert compare_trees(bytes(house.source(name)), bytes(house.restored(target, name))) == []


def test_a_run_that_somebody_starts_and_restores_to_the_same_and_another_agent(first_house):
    house = first_house
    house.write_files("web1", some_files(1))
    said = house.console("run", "nightly-web1", "--level", "full", "--watch", "--json")
    run = json.loads(said.splitlines()[-1])
    assert (run["state"], run["level"], run["client"]) == ("done", "full", "web1")
    assert run["security"]["cipher"].startswith("TLS_")
    house.write_files("web1", some_files(2, 3))
    later = house.run("nightly-web1")
    assert (later["level"], later["summary"]["files_read"]) == ("incremental", 3)
    for agent in ("web1", "web2"):
        assert_restores(house, later["snapshot"], "web1", agent)
    # Each had its own ticket in the repository, which is gone with the run.
    folder = house.repository / "tickets"
    wait_for(lambda: not list(folder.iterdir()), lambda: f"{list(folder.iterdir())}")
    wait_for(lambda: house.storage.log.count("deleted tickets: 1") == 2, lambda: house.storage.log)
    listed = house.get("/snapshots", client="web1")["items"]
    assert {run["snapshot"], later["snapshot"]} <= {one["id"] for one in listed}
    figures = house.api().get(f"https://127.0.0.1:{house.director_port}/metrics").text
    assert 'client="web1"' in figures, figures


def test_housekeeping_verifies_and_shows_agents_nothing_of_others(first_house):
    house = first_house
    same = {"same": random.Random(8).randbytes(300_000)}
    house.write_files("web1", same)
    assert house.run("nightly-web1")["state"] == "done"
    kept = house.run("housekeeping-web1")
    assert kept["state"] == "done", house.log(kept["id"])
    assert kept["summary"]["false_objects"] == 0
    assert "verified" in str(house.log(kept["id"]))
    house.write_files("web2", same)
    run = house.run("nightly-web2")
    assert run["state"] == "done"
    # It is in no folder that is shared, so whether another has it does not show.
    assert run["summary"]["new_bytes"] >= 300_000


def test_runs_that_end_well_leave_nothing_alarming_in_the_storage_daemons_log(first_house):
    house = first_house
    house.write_files("web1", some_files(7))
    before = len(house.storage.log)
    for run in (house.run("nightly-web1", level="full"), house.run("nightly-web1")):
        assert run["state"] == "done"
    assert_restores(house, run["snapshot"], "web1", "web1")
    time.sleep(0.5)
    assert "connection lost" not in house.storage.log[before:]


def test_the_directors_log_holds_its_own_lines_and_not_those_of_its_libraries(first_house):
    first_house.director.await_said("agent web1 is connected")
    said = first_house.director.log
    assert [line for line in said.splitlines() if " strongroom." not in line] == []


def test_nobody_restores_what_is_another_clients(first_house):
    house = first_house
    house.write_files("web2", {"secret": b"of web2 alone"})
    snapshot = house.run("nightly-web2")["snapshot"]
    body = {"snapshot": snapshot, "target": str(house.folder / "stolen"), "client": "web1"}
    assert house.api("ann").post("/restores", json=body).status_code in (403, 404)
    assert house.api("ann").get(f"/snapshots/{snapshot}/files").status_code in (403, 404)
    # The agent's own certificate is none of a person's.
    body |= {"client": "web2"}
    assert house.api("ann").post("/restores", json=body).status_code in (403, 404)
    thief = client_context(Identity.load(str(house.folder / "web1" / "identity")))
    with httpx.Client(base_url=str(house.api().base_url), verify=thief) as client:
        assert client.post("restores", json=body).status_code in (401, 403)
    # At the storage daemon the snapshot is not there for it.
    listed = house.command(
        *("snapshots", "--json", "--repo", f"strongroom://127.0.0.1:{house.storage_port}"),
        *("--identity", str(house.folder / "web1" / "identity")),
        *("--key-file", str(next((house.folder / "web1/identity/put-keys").iterdir()))),
    )
    assert snapshot not in listed
    assert not (house.folder / "stolen").exists()


@pytest.mark.parametrize("mode", ["off", pytest.param("tls", marks=pytest.mark.slow)])
def test_a_run_says_what_protected_its_connection(new_house, mode):
    further = {"off": "Tls Enable = no", "tls": "Enable Ktls = no"}[mode]
    plain = "Plain Clients = web1" if mode == "off" else ""
    house = new_house("web1", client_further=further, storage_further=plain)
    house.write_files("web1", {"telltale": b"the quick brown fox" * 1000})
    run = house.run("nightly-web1")
    assert run["state"] == "done", house.log(run["id"])
    assert run["security"]["mode"] == mode
    assert f"connection to the storage daemon: {mode}, " in house.log(run["id"])
    if mode == "tls":
        assert run["security"]["cipher"].startswith("TLS_")
    assert_restores(house, run["snapshot"], "web1", "web1")
    # A mode that the storage daemon does not allow is refused, and the run says so.
    if mode == "off":
        house.storage_further = ""
        house.configure()
        house.storage.signal(signal.SIGHUP)
        house.storage.await_said("read again")
        refused = house.run("nightly-web1")
        assert (refused["state"], refused["error_id"]) == ("failed", "peer-refused")
        assert "may not connect with TLS mode 'off'" in refused["error"]


@pytest.mark.skipif(not can_shift_clocks(), reason="no compiler for the clock that is moved")
def test_a_run_that_is_due_starts_by_itself_and_a_missed_one_once(new_house, catalog):
    minute = (int(time.time() // 60) + 30) % 60
    house = new_house(
        "web1",
        clocks=True,
        catalog=catalog,
        job_further="Schedule = each-hour",
        schedules=f"Schedule {{ Name = each-hour; Run = Full hourly at 0:{minute:02}; }}",
    )
    house.write_files("web1", {"a": b"content"})
    assert house.get("/runs")["items"] == []
    now = time.time()
    # Two seconds before it is due.
    house.director.clock.set((minute * 60 - 2 - now) % 3600)
    house.director.signal(signal.SIGHUP)
    (first,) = await_runs(house, 1)
    assert (first["requested_by"], first["level"]) == ("schedule each-hour", "full")
    assert house.ended(first["id"])["state"] == "done"
    # Down while it was due three times.
    assert house.director.stop() == 0
    house.director.clock.set((minute * 60 - 2 - now) % 3600 + 3 * 3600 + 600)
    house.start_director()
    later, _ = await_runs(house, 2)
    assert house.ended(later["id"])["state"] == "done"
    assert "while the director did not run" in house.log(later["id"])
    assert len(house.get("/runs")["items"]) == 2


def await_runs(house: HouseOfDaemons, count: int) -> list[dict[str, object]]:
    wait_for(lambda: len(house.get("/runs")["items"]) >= count, lambda: house.director.log)
    return house.get("/runs")["items"]
