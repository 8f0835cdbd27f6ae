"""Many agents of one appliance, real processes all of them, and many of them backing up at once."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from strongroom.agent.enrolment import enrol
from strongroom.cli.measure.testbed.command import tree_memory_bytes
from strongroom.cli.measure.testbed.daemons import Daemon
from strongroom.cli.measure.testbed.local import STRONGROOM
from strongroom_bench.network.appliance import PATIENCE_SECONDS, Appliance
from strongroom_bench.rows.runner import remove

# Of each agent that backs up; a part is the same for all of them.
FILES = 60
LARGEST_FILE_BYTES = 256 << 10
SHARED_FILES = 12
# Agents simulate other machines: they must not compete with the appliance for the processor.
AGENT_NICE = 10
ENROLLING_AT_ONCE = 4
COMPARED_SNAPSHOTS = 10
TOKEN_SECONDS = 3600
# Reading /proc of hundreds of processes takes time, too.
SAMPLE_SECONDS = 3.0
_AGENT = """
Client {{ Name = {name}; Identity Directory = "{folder}/identity"
  Working Directory = "{folder}/working"; Scripts Directory = "{folder}/scripts" }}
Director {{ Name = boss; Password = unused; Address = 127.0.0.1; Port = {port} }}
"""


class LossError(Exception):
    """Something that was to be stored is not there, or differs; the message says what."""


def measure_fleet(
    folder: Path, agents: int, at_once: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Enrol and connect `agents`, let `at_once` back up; memory in bytes, times in seconds.

    Raises LossError when anything got lost.
    """
    names = [f"agent{number:03}" for number in range(agents)]
    sources = {name: folder.parent / f"{folder.name}.data" / name for name in names}
    busy = names[:at_once]
    remove(sources[names[0]].parent)
    for number, name in enumerate(names):
        sources[name].mkdir(parents=True)
        if name in busy:
            make_source(sources[name], number)
    try:
        with Appliance(folder, sources, at_once) as appliance, ExitStack() as stack:
            figures: dict[str, Any] = {"agents": agents, "jobs": at_once}
            figures |= _enrol(appliance, names)
            say(f"fleet: {agents} agents enrolled in {figures['enrolling_seconds']:.1f} s")
            begin = time.monotonic()
            processes = [stack.enter_context(_agent(appliance, name)) for name in names]
            stack.callback(_ask_to_stop, processes)
            appliance.await_connected(agents, processes)
            figures["connecting_seconds"] = time.monotonic() - begin
            figures["director_idle_rss_bytes"] = appliance.director.usage().rss_bytes
            figures["agent_idle_pss_bytes"] = _pss_of(processes)
            say(f"fleet: connected in {figures['connecting_seconds']:.0f} s; {at_once} jobs start")
            figures |= _back_up(appliance, busy)
            say(f"fleet: jobs ended after {figures['all_jobs_seconds']:.1f} s; looking for losses")
            connected = sum(bool(client["connected"]) for client in appliance.all_of("/clients"))
            figures["connected_at_the_end"] = connected
            figures |= _require_all(appliance, {name: sources[name] for name in busy})
    finally:
        remove(sources[names[0]].parent)
    return figures


def make_source(folder: Path, number: int) -> None:
    """Files of seeded noise, some of which every source has."""
    for file in range(FILES):
        seed = file if file < SHARED_FILES else (number + 1) * 10_000 + file
        noise = random.Random(seed)
        size = int(LARGEST_FILE_BYTES * noise.random() ** 2)
        (folder / f"file{file:03}").write_bytes(noise.randbytes(size))


def _enrol(appliance: Appliance, names: Sequence[str]) -> dict[str, Any]:
    """Every agent with its own token, through the director's API."""
    tokens = appliance.authority.tokens
    url = f"https://localhost:{appliance.port}"
    texts = {name: tokens.create(name, "agent", TOKEN_SECONDS).text for name in names}

    def one(name: str) -> None:
        identity = str(appliance.folder / "agents" / name / "identity")
        enrol(url, name, texts[name], appliance.authority.fingerprint, identity)

    begin = time.monotonic()
    with ThreadPoolExecutor(ENROLLING_AT_ONCE) as pool:
        list(pool.map(one, names))
    return {"enrolling_seconds": time.monotonic() - begin}


def _agent(appliance: Appliance, name: str) -> Daemon:
    folder = appliance.folder / "agents" / name
    for inner in ("working", "scripts"):
        (folder / inner).mkdir()
    configuration = folder / "agent.conf"
    configuration.write_text(_AGENT.format(name=name, folder=folder, port=appliance.port))
    command = [*STRONGROOM, "agent", "--config", str(configuration)]
    environment = appliance.vault.environment
    return Daemon(command, environment, folder / "agent.log", nice=AGENT_NICE)


def _ask_to_stop(processes: Sequence[Daemon]) -> None:
    """All of them, before the first is waited for."""
    for process in processes:
        process.ask_to_stop()


def _pss_of(processes: Sequence[Daemon]) -> float:
    """Median PSS of some agents, in bytes."""
    found = []
    for process in processes[:: max(1, len(processes) // 10)]:
        with open(f"/proc/{process.pid}/smaps_rollup") as file:
            found += [int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:")]
    return median(found)


class _Watch:
    """Samples the daemons while jobs run."""

    def __init__(self, appliance: Appliance) -> None:
        self._daemons = {"director": appliance.director, "storage": appliance.vault.daemon}
        self._before = {name: one.usage() for name, one in self._daemons.items()}
        self._tree_peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._tree_peak = max(self._tree_peak, tree_memory_bytes(os.getpid())[0])

    def figures(self) -> dict[str, Any]:
        """Stop, and give what was seen; peaks of RSS are the kernel's own."""
        self._ended.set()
        self._thread.join()
        found: dict[str, Any] = {"all_processes_pss_bytes": self._tree_peak}
        for name, daemon in self._daemons.items():
            usage = daemon.usage()
            found[f"{name}_peak_rss_bytes"] = usage.peak_rss_bytes
            found[f"{name}_cpu_seconds"] = usage.cpu_seconds - self._before[name].cpu_seconds
            found[f"{name}_threads"] = usage.threads
        return found


def _back_up(appliance: Appliance, names: Sequence[str]) -> dict[str, Any]:
    watch = _Watch(appliance)
    begin = time.monotonic()
    runs = {}
    answers = []
    for name in names:
        asked = time.monotonic()
        answer = appliance.api.post("/runs", json={"job": name})
        answer.raise_for_status()
        answers.append(time.monotonic() - asked)
        runs[answer.json()["id"]] = name
    ended: dict[str, dict[str, Any]] = {}
    while len(ended) < len(runs):
        if time.monotonic() - begin > PATIENCE_SECONDS:
            raise LossError(f"{len(runs) - len(ended)} of {len(runs)} jobs have not ended")
        time.sleep(0.5)
        for run in appliance.all_of("/runs"):
            if run["id"] in runs and run["ended"] is not None:
                ended[run["id"]] = run
    all_jobs_seconds = time.monotonic() - begin
    bad = [run for run in ended.values() if run["state"] != "done"]
    if bad:
        raise LossError(f"{len(bad)} jobs failed, such as {bad[0]}")
    latencies = sorted(_seconds(run["scheduled"], run["ended"]) for run in ended.values())
    waits = sorted(_seconds(run["scheduled"], run["started"]) for run in ended.values())
    return {
        "all_jobs_seconds": all_jobs_seconds,
        "asking_median_seconds": median(answers),
        "asking_slowest_seconds": max(answers),
        "job_median_seconds": median(latencies),
        "job_slowest_seconds": latencies[-1],
        "waiting_median_seconds": median(waits),
        "files": sum(run["files"] for run in ended.values()),
        "bytes": sum(run["bytes"] for run in ended.values()),
        "stored_bytes": sum(run["stored_bytes"] for run in ended.values()),
        "tls": sorted({run["security"].get("mode", "?") for run in ended.values()}),
        **watch.figures(),
    }


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def _require_all(appliance: Appliance, sources: Mapping[str, Path]) -> dict[str, Any]:
    """Every snapshot is there, all data is sound, and some snapshots restore as they were."""
    snapshots = {one["client"]: one for one in appliance.all_of("/snapshots")}
    if set(snapshots) != set(sources):
        raise LossError(f"{len(snapshots)} clients have snapshots, {len(sources)} should")
    appliance.vault.maintain("vouch")
    appliance.vault.maintain("check", "--read-data")
    chosen = list(sources)[:: max(1, len(sources) // COMPARED_SNAPSHOTS)]
    for name in chosen:
        target = appliance.folder / "restored"
        target.mkdir()
        appliance.vault.maintain("restore", snapshots[name]["id"], "--target", str(target))
        there = f"{target}{sources[name]}"
        differs = subprocess.run(["diff", "-r", str(sources[name]), there], check=False)
        if differs.returncode:
            raise LossError(f"the snapshot of {name} differs from its source")
        remove(target)
    return {"snapshots": len(snapshots), "compared_snapshots": len(chosen)}
