"""Daemons killed at random while runs continue: nothing is lost, nothing is sent twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest

from kit.house_of_daemons import FINAL, HouseOfDaemons, wait_for
from kit.prepared_jobs import JOB, comm_of

ROUND_BYTES = 1_500_000
# Between two kills, about; a run takes longer than that.
PAUSE_SECONDS = 1.5
# Of all that is stored, what may be there for other reasons than files: listings, footers, padding.
OVERHEAD = 1.05


class Load:
    """Files that only become more, and runs of every agent, one after the other."""

    def __init__(self, house: HouseOfDaemons, chance: random.Random) -> None:
        self.house = house
        self.chance = chance
        self.content_bytes = 0
        self._round = 0
        # Run -> the files that were there before it was asked for.
        self.expected: dict[str, list[str]] = {}
        self.files: dict[str, list[str]] = {name: [] for name in house.names}

    def proceed(self) -> None:
        """Begin a run of each agent whose last one has ended, with new files."""
        for name in self.house.names:
            if not self._is_free(name):
                continue
            self._round += 1
            files = {
                f"{self._round % 7}/{self._round}-{number}": self.chance.randbytes(
                    self.chance.randrange(2 * ROUND_BYTES // 8)
                )
                for number in range(8)
            }
            self.house.write_files(name, files)
            self.files[name] += files
            self.content_bytes += sum(map(len, files.values()))
            # A director that was just killed may or may not have taken it.
            with suppress(httpx.HTTPError):
                run_id = self.house.begin_run(f"nightly-{name}")
                self.expected[run_id] = list(self.files[name])

    def is_under_way(self) -> bool:
        """Whether every agent has a job at work; if not, the runs that have ended are followed."""
        self.proceed()
        return all(self.house.agents[name].processes()[1:] for name in self.house.names)

    def _is_free(self, name: str) -> bool:
        try:
            runs = self.house.get("/runs", client=name, limit=10)["items"]
        except httpx.HTTPError:
            return False
        return all(run["state"] in FINAL for run in runs)


def kill_something(house: HouseOfDaemons, victim: str, chance: random.Random) -> None:
    """Kill a daemon, with or without what it started, and start it again."""
    if victim == "storage":
        house.storage.kill()
        time.sleep(chance.random() / 2)
        house.start_storage()
    elif victim == "director":
        house.director.kill()
        time.sleep(chance.random() / 2)
        house.start_director()
    else:
        kind, name = victim.split()
        agent = house.agents[name]
        jobs = agent.processes()[1:]
        if kind != "job":
            agent.kill()
        if kind != "agent":
            for pid in jobs:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if kind != "job":
            agent.start()


def victims(house: HouseOfDaemons) -> list[str]:
    """The ways to kill: an agent alone leaves its job to notice; a machine takes both."""
    of_agents = [f"{kind} {name}" for name in house.names for kind in ("agent", "machine", "job")]
    return ["storage", "director", *of_agents]


def all_runs(house: HouseOfDaemons) -> list[dict[str, Any]]:
    runs = house.get("/runs", limit=1000)
    assert runs["next"] is None
    found: list[dict[str, Any]] = runs["items"]
    return found


def assert_nothing_is_lost(house: HouseOfDaemons, load: Load, restores: int) -> None:
    for name in house.names:
        house.await_connected(name)
    wait_for(
        lambda: all(run["state"] in FINAL for run in all_runs(house)),
        lambda: str([(run, house.log(run["id"])) for run in all_runs(house)]),
        120,
    )
    runs = all_runs(house)
    assert set(load.expected) <= {run["id"] for run in runs}
    for run in runs:
        # A run ends well, or says why not.
        assert run["state"] in ("done", "failed"), run
        assert run["state"] == "done" or (run["error_id"], bool(run["error"])) == (
            "job-died",
            True,
        ), (run, house.log(run["id"]))
    for name in house.names:
        last = house.run(f"nightly-{name}")
        assert last["state"] == "done", house.log(last["id"])
        load.expected[last["id"]] = load.files[name]
        again = house.run(f"nightly-{name}", level="full")
        assert again["summary"]["new_bytes"] == 0
        runs += [last, again]
    # Random bytes do not shrink, so nothing of them is stored twice, whatever was killed when.
    assert house.pack_bytes() < load.content_bytes * OVERHEAD + 100_000
    assert list(house.repository.rglob("tmp.*")) == []
    in_catalog = {one["id"] for one in house.get("/snapshots", limit=1000)["items"]}
    listed = house.maintain("snapshots", "--json")
    for run in runs:
        assert not run["snapshot"] or run["snapshot"] in in_catalog
        assert not run["snapshot"] or run["snapshot"] in listed
    house.maintain("vouch")
    house.maintain("check", "--read-data")
    house.client_further = ""
    house.configure()
    house.director.signal(signal.SIGHUP)
    house.director.await_said("the new configuration is in force")
    whole = [run for run in runs if run["snapshot"] and run["id"] in load.expected]
    for run in whole[-restores:]:
        assert_restores(house, run, load.expected[run["id"]])


def assert_restores(house: HouseOfDaemons, run: dict[str, Any], files: list[str]) -> None:
    target = house.folder / "restored" / run["id"]
    done = house.restore(run["snapshot"], target, run["client"])
    assert done["state"] == "done", house.log(done["id"])
    found = house.restored(target, run["client"])
    for path in files:
        assert (found / path).read_bytes() == (house.source(run["client"]) / path).read_bytes()
    for path in found.rglob("*"):
        if path.is_file():
            live = house.source(run["client"]) / path.relative_to(found)
            assert path.read_bytes() == live.read_bytes()


def begin(new_house: Any, seed: int) -> tuple[HouseOfDaemons, Load, random.Random]:
    house = new_house(
        "web1",
        "web2",
        client_further="Maximum Bandwidth Per Job = 500 KB/s",
        # A job whose agent is gone is not waited for all night.
        job_further="Max Wait Time = 60",
    )
    chance = random.Random(seed)
    return house, Load(house, chance), chance


def test_each_daemon_killed_once_while_runs_go_on(new_house):
    house, load, chance = begin(new_house, 1)
    for victim in ("storage", "director", "agent web1", "machine web2", "job web1"):
        wait_for(load.is_under_way)
        time.sleep(chance.random())
        kill_something(house, victim, chance)
    assert_nothing_is_lost(house, load, restores=2)


def test_a_restore_whose_agent_is_killed_is_finished_by_the_next(new_house):
    house = new_house()
    chance = random.Random(9)
    files = {f"{n}": chance.randbytes(300_000) for n in range(10)}
    house.write_files("web1", files)
    run = house.run("nightly-web1")
    target = house.folder / "restored"
    body = {"snapshot": run["snapshot"], "target": str(target)}
    run_id = house.post("/restores", {**body, "maximum_bytes_per_second": 300_000})["id"]
    wait_for(lambda: any(path.is_file() for path in target.rglob("*")))
    kill_something(house, "machine web1", chance)
    house.await_connected("web1")
    done = house.ended(run_id)
    assert done["state"] == "done", house.log(run_id)
    assert "begun again" in house.log(run_id)
    found = house.restored(target, "web1")
    assert {path.name: path.read_bytes() for path in found.iterdir()} == files


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_daemons_killed_at_random_for_minutes(new_house, seed):
    house, load, chance = begin(new_house, seed)
    end = time.monotonic() + 150
    while time.monotonic() < end:
        load.proceed()
        with maintenance(house, chance):
            time.sleep(2 * PAUSE_SECONDS * chance.random())
            kill_something(house, chance.choice(victims(house)), chance)
    assert_nothing_is_lost(house, load, restores=6)


@contextmanager
def maintenance(house: HouseOfDaemons, chance: random.Random) -> Iterator[None]:
    """Now and then the appliance tidies up meanwhile; it may lose its storage daemon."""
    words = {1: ["prune", "--max-unused", "0"], 2: ["vouch"]}.get(chance.randrange(6))
    if words is None:
        yield
        return
    place = ["--repo", f"unix:{house.folder}/storage.sock", "--key-file", str(house.restore_key)]
    process = subprocess.Popen(
        [sys.executable, "-m", "strongroom", *words, *place],
        env=house.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield
    said, _ = process.communicate(timeout=120)
    assert process.returncode in (0, 30, 32), said


def test_a_restore_test_outlives_a_restart_of_the_storage_daemon(new_house):
    house: HouseOfDaemons = new_house(
        schedules="""Job { Name = test; Job Defs = usual; Type = Verify; Level = Data; Client = web1
  FileSet = all-web1; Job To Verify = nightly-web1 }"""
    )
    chance = random.Random(1)
    house.write_files("web1", {str(number): chance.randbytes(12_000_000) for number in range(10)})
    assert house.run("nightly-web1")["state"] == "done"
    run_id = house.begin_run("test")
    scratch = house.folder / "work" / "restore-tests"
    wait_for(lambda: any(one.is_file() for one in scratch.rglob("*")))
    processes = own_job_processes(house)
    assert processes
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    house.storage.kill()
    house.start_storage()
    for process in processes:
        os.kill(process, signal.SIGCONT)
    run = house.ended(run_id, 120)
    assert "trying again" in house.log(run_id)
    assert (run["state"], run["files"]) == ("done", 10), house.log(run_id)


def own_job_processes(house: HouseOfDaemons) -> list[int]:
    """Of the director, with those that its job started."""
    return [process for process in house.director.processes() if comm_of(process) == JOB]
