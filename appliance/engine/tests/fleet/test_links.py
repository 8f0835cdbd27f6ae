"""Links dropped, stalled, half closed and cut anywhere, between agents and both other daemons."""

from __future__ import annotations

import random
import signal
import time

import pytest

from kit.house_of_daemons import HouseOfDaemons, wait_for
from kit.tree_compare import compare_trees

RATE = 1_000_000
CONTENT_BYTES = 4_000_000
OVERHEAD_BYTES = 400_000


def begin_run(house: HouseOfDaemons, seed: int) -> str:
    """A backup of random bytes, in the middle of sending them."""
    chance = random.Random(seed)
    house.write_files(
        "web1", {f"{seed}-{n}": chance.randbytes(CONTENT_BYTES // 8) for n in range(8)}
    )
    run_id = house.begin_run("nightly-web1")
    house.await_stored(run_id, 500_000)
    return run_id


def assert_ended_well(house: HouseOfDaemons, run_id: str, contents: int) -> None:
    """The run is done, its snapshot restores, nothing was stored twice, and all is sound."""
    run = house.ended(run_id, 120)
    assert run["state"] == "done", (run, house.log(run_id))
    assert house.pack_bytes() < contents * (CONTENT_BYTES + OVERHEAD_BYTES)
    target = house.folder / "restored" / run_id
    restored = house.restore(run["snapshot"], target, "web1")
    assert restored["state"] == "done", house.log(restored["id"])
    assert compare_trees(bytes(house.source("web1")), bytes(house.restored(target, "web1"))) == []
    house.maintain("check", "--read-data")


@pytest.mark.parametrize("mode", ["tls", pytest.param("off", marks=pytest.mark.slow)])
def test_a_storage_link_that_drops_stalls_and_half_closes_only_delays(new_house, mode):
    # Slow enough for all three to come while it sends, on a busy machine too.
    house = new_house(
        client_further=f"Maximum Bandwidth Per Job = {RATE // 2}; Tls Enable = {mode == 'tls'}",
        storage_further="Plain Clients = web1",
    )
    run_id = begin_run(house, 1)
    house.storage_link.drop()
    wait_for(lambda: "trying again" in house.log(run_id))
    wait_for(lambda: house.storage_link.connections > 0)
    house.storage_link.half_close()
    wait_for(
        lambda: house.log(run_id).count("trying again") >= 2,
        lambda: f"{house.get(f'/runs/{run_id}')}\n{house.log(run_id)}",
        20,
    )
    wait_for(lambda: house.storage_link.connections > 0)
    house.storage_link.stall()
    time.sleep(2)
    assert house.get(f"/runs/{run_id}")["state"] == "running"
    house.storage_link.resume()
    assert_ended_well(house, run_id, 1)


@pytest.mark.parametrize("mode", ["tls", pytest.param("off", marks=pytest.mark.slow)])
def test_a_storage_link_cut_after_any_byte_loses_nothing(new_house, mode):
    house = new_house(
        client_further=f"Maximum Bandwidth Per Job = {RATE}; Tls Enable = {mode == 'tls'}",
        storage_further="Plain Clients = web1",
    )
    chance = random.Random(11)
    run_id = begin_run(house, 2)
    # In the handshake or in requests, and in the middle of an object.
    for cuts, place in enumerate((chance.randrange(1, 5000), 400_000)):
        house.storage_link.drop()
        house.storage_link.cut_after(place)
        wait_for(lambda cuts=cuts: house.storage_link.cuts > cuts)
    assert_ended_well(house, run_id, 1)


@pytest.mark.slow
def test_a_storage_link_cut_after_many_bytes_loses_nothing(new_house):
    house = new_house(client_further=f"Maximum Bandwidth Per Job = {RATE * 4}")
    chance = random.Random(12)
    contents = 0
    end = time.monotonic() + 150
    while time.monotonic() < end:
        contents += 1
        run_id = begin_run(house, 100 + contents)
        for _ in range(3):
            cut_once(house, run_id, int(2 ** (chance.random() * 21)))
        assert_ended_well(house, run_id, contents)


def cut_once(house: HouseOfDaemons, run_id: str, place: int) -> None:
    """Break the connection, and the next one after so many bytes, if the run makes one."""
    cuts = house.storage_link.cuts
    house.storage_link.drop()
    house.storage_link.cut_after(place)
    wait_for(lambda: house.storage_link.cuts > cuts or bool(house.get(f"/runs/{run_id}")["ended"]))


def test_a_run_goes_on_without_its_director_and_reports_when_it_is_back(new_house):
    house = new_house(client_further=f"Maximum Bandwidth Per Job = {RATE}")
    run_id = begin_run(house, 3)
    stored = house.pack_bytes()
    house.director_link.go_down()
    wait_for(lambda: not house.get("/clients/web1")["connected"])
    assert house.get(f"/runs/{run_id}")["state"] == "running"
    # It ends while no one hears of it.
    wait_for(lambda: len(house.agents["web1"].processes()) == 1)
    assert house.pack_bytes() > stored
    assert house.get(f"/runs/{run_id}")["state"] == "running"
    house.director_link.come_up()
    assert_ended_well(house, run_id, 1)
    assert "missing" not in house.log(run_id)


@pytest.mark.slow
def test_a_director_link_that_half_closes_is_replaced(new_house):
    house = new_house(client_further=f"Maximum Bandwidth Per Job = {RATE}")
    run_id = begin_run(house, 4)
    house.director_link.half_close()
    house.agents["web1"].await_said("connected", times=2)
    house.await_connected("web1")
    assert_ended_well(house, run_id, 1)


@pytest.mark.slow
def test_a_director_link_that_stalls_is_given_up_by_both_sides(new_house):
    house = new_house(client_further=f"Maximum Bandwidth Per Job = {RATE // 4}")
    run_id = begin_run(house, 4)
    house.director_link.stall()
    house.post(f"/runs/{run_id}/cancel")
    run = house.ended(run_id, 60)
    assert run["state"] == "cancelled"
    house.director_link.drop()
    house.director_link.resume()
    house.await_connected("web1")
    # The agent learns of it as soon as it is back.
    wait_for(lambda: len(house.agents["web1"].processes()) == 1)
    assert house.run("nightly-web1")["state"] == "done"


def test_a_restore_whose_link_breaks_says_so_and_continues(new_house):
    house = new_house()
    chance = random.Random(5)
    house.write_files("web1", {f"{n}": chance.randbytes(500_000) for n in range(20)})
    snapshot = house.run("nightly-web1")["snapshot"]
    body = {
        "snapshot": snapshot,
        "target": str(house.folder / "restored"),
        "maximum_bytes_per_second": RATE,
    }
    run_id = house.post("/restores", body)["id"]
    wait_for(lambda: any((house.folder / "restored").rglob("*")))
    house.storage_link.go_down()
    wait_for(lambda: "trying again" in house.log(run_id))
    house.storage_link.come_up()
    run = house.ended(run_id)
    assert run["state"] == "done", house.log(run_id)
    found = house.restored(house.folder / "restored", "web1")
    assert compare_trees(bytes(house.source("web1")), bytes(found)) == []


@pytest.mark.slow
def test_a_stopped_daemon_is_a_stalled_one(new_house):
    house = new_house(client_further=f"Maximum Bandwidth Per Job = {RATE}")
    run_id = begin_run(house, 6)
    for daemon in (house.storage, house.director):
        daemon.signal(signal.SIGSTOP)
        time.sleep(1.5)
        daemon.signal(signal.SIGCONT)
    assert_ended_well(house, run_id, 1)
