"""What operators tell daemons while runs continue: cancel, reload, bandwidth, revoke."""

from __future__ import annotations

import random
import signal
import time

import pytest

from kit.house_of_daemons import HouseOfDaemons, wait_for

SLOW = 200_000
# What a busy machine may add to what must happen at once.
SLACK_SECONDS = 10.0


def begin_slow_run(house: HouseOfDaemons, name: str, count: int = 6) -> str:
    """A backup of random bytes that takes long at `SLOW` bytes a second, under way."""
    chance = random.Random(time.monotonic_ns())
    tag = f"{chance.randrange(1 << 40):x}"
    house.write_files(name, {f"{tag}-{n}": chance.randbytes(1_000_000) for n in range(count)})
    run_id = house.begin_run(f"nightly-{name}")
    house.await_stored(run_id)
    return run_id


def test_cancel_ends_a_run_within_a_second_and_the_next_one_continues(new_house):
    house = new_house(client_further=f"Maximum Bandwidth Per Job = {SLOW}")
    run_id = begin_slow_run(house, "web1")
    jobs = house.agents["web1"].processes()[1:]
    assert jobs
    began = time.monotonic()
    house.post(f"/runs/{run_id}/cancel")
    run = house.ended(run_id)
    assert time.monotonic() - began < 1 + SLACK_SECONDS
    assert (run["state"], run["snapshot"]) == ("cancelled", "")
    wait_for(lambda: len(house.agents["web1"].processes()) == 1)
    stored = house.pack_bytes()
    again = house.begin_run("nightly-web1")
    # The bandwidth of a run is changed while it continues, at once.
    house.await_stored(again)
    house.post(f"/runs/{again}/bandwidth", {"maximum_bytes_per_second": 0})
    began = time.monotonic()
    done = house.ended(again)
    assert done["state"] == "done"
    assert time.monotonic() - began < 6_000_000 / SLOW / 2
    # What the cancelled run had stored is not sent again.
    assert done["summary"]["new_bytes"] <= 6_100_000 - stored


@pytest.mark.slow
def test_a_lower_bandwidth_holds_from_then_on(new_house):
    house = new_house(client_further="Maximum Bandwidth Per Job = 2 MB/s")
    run_id = begin_slow_run(house, "web1", 20)
    house.post(f"/runs/{run_id}/bandwidth", {"maximum_bytes_per_second": 20_000})
    # What was on its way already may still come.
    wait_for(lambda: carried_within(house, 1.0) < 200_000)
    assert carried_within(house, 2.0) < 400_000
    house.post(f"/runs/{run_id}/cancel")
    assert house.ended(run_id)["state"] == "cancelled"


def carried_within(house: HouseOfDaemons, seconds: float) -> int:
    before = house.storage_link.carried_bytes
    time.sleep(seconds)
    return house.storage_link.carried_bytes - before


def test_reload_cuts_no_run_and_takes_effect(new_house):
    house = new_house(client_further=f"Maximum Bandwidth Per Job = {SLOW}")
    run_id = begin_slow_run(house, "web1")
    house.schedules = (
        'FileSet { Name = other; Include { File = "/etc/hostname" } }\n'
        "Job { Name = added; Job Defs = usual; Client = web1; FileSet = other }\n"
    )
    house.storage_further = "Maximum Connections = 77"
    house.configure()
    for daemon in house.daemons:
        daemon.signal(signal.SIGHUP)
    house.storage.await_said("read again")
    house.agents["web1"].await_said("was read again")
    house.director.await_said("the new configuration is in force")
    added = house.run("added")
    assert added["state"] == "done", house.log(added["id"])
    # One that makes no sense changes nothing.
    house.director.configuration.write_text("Director { Name = ")
    house.director.signal(signal.SIGHUP)
    house.director.await_said("the configuration in force stays")
    assert house.get(f"/runs/{run_id}")["state"] == "running"
    house.post(f"/runs/{run_id}/bandwidth", {"maximum_bytes_per_second": 0})
    run = house.ended(run_id)
    assert run["state"] == "done", house.log(run_id)
    assert "again" not in house.log(run_id)


def test_a_revoked_agent_is_cut_off_within_seconds(folder):
    with HouseOfDaemons(folder, client_further=f"Maximum Bandwidth Per Job = {SLOW}") as house:
        begin_slow_run(house, "web1")
        assert house.storage_link.connections
        house.authority("revoke", "web1")
        began = time.monotonic()
        wait_for(lambda: not house.get("/clients/web1")["connected"])
        wait_for(lambda: not house.storage_link.connections)
        assert time.monotonic() - began < 6 + SLACK_SECONDS
        stored = house.pack_bytes()
        # It tries, and is accepted nowhere.
        house.agents["web1"].await_said("it ended the connection: its certificate was revoked")
        # The reason is in the log once a day, however often it tries.
        house.agents["web1"].await_said("connected", times=3)
        assert "revoked" in house.storage.log
        assert not house.get("/clients/web1")["connected"]
        assert house.pack_bytes() == stored
