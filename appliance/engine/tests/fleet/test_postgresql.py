"""A whole house whose catalog is in PostgreSQL, which is stopped, killed and lost."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator

import pytest

from kit.house_of_daemons import HouseOfDaemons, wait_for
from kit.postgresql_cluster import Cluster
from kit.tree_compare import compare_trees

SLOW = 400_000
# Scripts of the director, which wait for a file before they say something.
JOBS = """
Pool {{ Name = one; Pool Type = Backup; Keep Last = 1; Minimum Retention = 0 }}
Job {{ Name = scarce-web1; Job Defs = usual; Client = web1; FileSet = all-web1; Pool = one }}
Job {{ Name = keeping; Job Defs = usual; Type = Admin; Client = web1; FileSet = all-web1
  RunScript {{ RunsWhen = Before; RunsOnClient = no
    Console = "backup catalog"; Console = "prune" }} }}
Job {{ Name = reading; Job Defs = usual; Type = Verify; Level = Data; Client = web1
  FileSet = all-web1; Job To Verify = nightly-web1 }}
Job {{ Name = talking; Job Defs = usual; Type = Admin; Client = web1; FileSet = all-web1
  RunScript {{ RunsWhen = Before; RunsOnClient = no
    Command = "/bin/sh -c \\"until [ -e {folder}/go-on ]; do sleep 0.1; done; echo spoken\\"" }}
  RunScript {{ RunsWhen = After; RunsOnClient = no; Command = "/bin/echo afterwards" }} }}
Job {{ Name = failing; Job Defs = usual; Type = Admin; Client = web1; FileSet = all-web1
  Reschedule On Error = yes; Reschedule Times = 1; Reschedule Interval = 1 second
  RunScript {{ RunsWhen = Before; RunsOnClient = no; Fail Job On Error = yes
    Command = "/bin/sh -c \\"until [ -e {folder}/go-on ]; do sleep 0.1; done; exit 1\\"" }} }}
"""


@pytest.fixture
def house(new_house, cluster, folder) -> HouseOfDaemons:
    return new_house(
        *("web1", "web2"),
        catalog=cluster.new_catalog(),
        client_further=f"Maximum Bandwidth Per Job = {SLOW}",
        schedules=JOBS.format(folder=folder),
    )


@pytest.fixture
def without_database(cluster: Cluster) -> Iterator[None]:
    """For tests that stop the server and may fail meanwhile."""
    yield
    if not cluster.is_running:
        cluster.start()


def write_some(
    house: HouseOfDaemons, name: str, tag: str, size: int = 1000, count: int = 5
) -> None:
    chance = random.Random(tag)
    house.write_files(name, {f"{tag}/{n}": chance.randbytes(size) for n in range(count)})


def assert_restores(house: HouseOfDaemons, snapshot: str, to: str) -> None:
    target = house.folder / to / f"restored-{snapshot[:8]}"
    run = house.restore(snapshot, target, to)
    assert run["state"] == "done", house.log(run["id"])
    assert compare_trees(bytes(house.source("web1")), bytes(house.restored(target, "web1"))) == []


def test_runs_restores_retention_and_recovery(house, cluster):
    write_some(house, "web1", "first")
    first = house.run("nightly-web1")
    assert (first["state"], first["level"]) == ("done", "full"), house.log(first["id"])
    write_some(house, "web1", "second")
    second = house.run("nightly-web1")
    assert (second["state"], second["summary"]["files_read"]) == ("done", 5)
    for agent in house.names:
        assert_restores(house, second["snapshot"], agent)
    # Cancelled under way.
    write_some(house, "web2", "large", 1_000_000, 3)
    slow = house.begin_run("nightly-web2")
    house.await_stored(slow)
    house.post(f"/runs/{slow}/cancel")
    assert house.ended(slow)["state"] == "cancelled"
    # Of two snapshots one stays, where the pool says so.
    scarce = [house.run("scarce-web1")["snapshot"] for _ in range(2)]

    def kept() -> list[str]:
        return [one["id"] for one in house.get("/snapshots", job="scarce-web1")["items"]]

    wait_for(lambda: kept() == scarce[1:], lambda: str(kept()))
    assert house.run("reading")["state"] == "done"
    keeping = house.run("keeping")
    assert keeping["state"] == "done", house.log(keeping["id"])
    # Everything but the repository and the configuration is lost; the copy of the catalog is older
    # than the last snapshot.
    last = house.run("nightly-web1")
    house.director.kill()
    house.catalog = cluster.new_catalog()
    house.configure()
    back = house.folder / "back"
    house.maintain("restore", "latest", "--job", "catalog", "--target", str(back))
    (copy,) = back.rglob("catalog.jsonl")
    place = ("--config", str(house.director.configuration))
    house.command("catalog", "import", str(copy), *place)
    house.command("catalog", "rebuild", *place)
    house.start_director()
    for name in house.names:
        house.await_connected(name)
    known = {one["id"] for one in house.get("/snapshots", limit=100)["items"]}
    assert {first["snapshot"], second["snapshot"], last["snapshot"], scarce[1]} <= known
    assert house.get(f"/runs/{second['id']}")["state"] == "done"
    assert_restores(house, last["snapshot"], "web2")
    assert house.run("nightly-web1")["level"] == "incremental"


def test_a_director_that_is_killed_takes_up_what_went_on(house):
    write_some(house, "web1", "large", 200_000, 5)
    run_id = house.begin_run("nightly-web1")
    house.await_stored(run_id)
    house.director.kill()
    agent = house.agents["web1"]
    wait_for(lambda: len(agent.processes()) == 1, lambda: agent.log)
    house.start_director()
    run = house.ended(run_id)
    assert run["state"] == "done", house.log(run_id)
    assert_restores(house, run["snapshot"], "web1")


@pytest.mark.parametrize("end", ["stop", pytest.param("kill", marks=pytest.mark.slow)])
def test_a_database_that_is_away_loses_nothing_and_stops_nobody(
    house, cluster, without_database, end
):
    write_some(house, "web1", "large", 300_000, 5)
    slow = house.begin_run("nightly-web1")
    house.await_stored(slow)
    others = [house.begin_run("talking"), house.begin_run("failing")]
    for one in others:
        wait_for(lambda: house.get(f"/runs/{one}")["state"] == "running")  # noqa: B023
    getattr(cluster, end)()
    # Who asks is reported, at once, and no one has to guess why.
    for answer in (
        house.api().get("/runs"),
        house.api().get("/status"),
        house.api().post("/runs", json={"job": "nightly-web2"}),
        house.api().post(f"/runs/{slow}/cancel"),
    ):
        assert answer.status_code == 503, answer.text
        assert answer.json()["error_id"] == "catalog-unavailable"
    # All of them come to their end meanwhile.
    (house.folder / "go-on").touch()
    agent = house.agents["web1"]
    wait_for(lambda: len(agent.processes()) == 1, lambda: agent.log)
    house.director.await_said("waits for the catalog", 2)
    house.director.signal(signal.SIGHUP)
    assert house.director.is_running
    cluster.start()
    run = house.ended(slow)
    assert run["state"] == "done", house.log(slow)
    assert "of the agent missing" not in house.log(slow)
    talking, failing = map(house.ended, others)
    assert talking["state"] == "done", house.log(talking["id"])
    wait_for(lambda: "afterwards" in house.log(talking["id"]), lambda: house.log(talking["id"]))
    assert house.log(talking["id"]).count("spoken") == 1
    assert failing["state"] == "failed"

    def attempts() -> list[str]:
        runs = house.get("/runs", job="failing")["items"]
        return sorted(one["state"] for one in runs)

    wait_for(lambda: attempts() == ["failed", "failed"], lambda: str(attempts()))
    house.await_connected("web1")
    assert_restores(house, run["snapshot"], "web2")
    assert house.run("nightly-web2")["state"] == "done"


def test_a_director_says_that_it_cannot_start_without_its_database(
    house, cluster, without_database
):
    assert house.director.stop() == 0
    cluster.stop()
    house.director.start()
    assert house.director.await_end() == 67
    assert "check that the database runs" in house.director.log
    cluster.start()
    house.start_director()
    house.await_connected("web1")
