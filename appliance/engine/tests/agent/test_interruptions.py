"""Cancel, kill, restart, lost connections: nothing half done, nothing lost, nothing sent twice."""

from __future__ import annotations

import os
import signal
import time
import uuid
from pathlib import Path

import pytest

from kit.agent_site import CLIENT, DIRECTOR, AgentSite
from kit.small_director import SmallDirector
from strongroom.engine.knobs.settings import KnobSettings
from strongroom.net.control.messages import Cancel, Script, SetBandwidth, StartBackup, StartEstimate

SLOW_BYTES_PER_SECOND = 100 << 10
SLOW_FILES = 12


def fill(site: AgentSite, files: int, size_bytes: int = 1 << 20) -> None:
    for number in range(files):
        (site.source / str(number)).write_bytes(os.urandom(size_bytes))


def slow_backup(site: AgentSite, **fields: object) -> StartBackup:
    """A backup that takes minutes unless its limit is lifted."""
    fill(site, SLOW_FILES)
    return site.backup(
        maximum_bytes_per_second=SLOW_BYTES_PER_SECOND,
        tuning=KnobSettings(compression="none", shards=1),
        **fields,
    )


def temporary_files(site: AgentSite) -> list[Path]:
    """What writers left that never had a name."""
    known = {"config", "keys", "packs", "index", "snapshots", "leases", "tombstones"}
    return [
        path
        for path in site.repository.rglob("*")
        if path.is_file() and len(path.name) not in (32, 64) and path.name not in known
    ]


def await_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_cancelled_backup_ends_within_a_second_and_leaves_nothing(agent: AgentSite) -> None:
    request = slow_backup(agent)
    agent.director.send(request)
    agent.director.progress(request.run_id)
    processes = agent.job_processes()
    before = time.monotonic()
    agent.director.send(Cancel(run_id=request.run_id))
    ended = agent.director.ended(request.run_id)
    elapsed_seconds = time.monotonic() - before
    assert (ended.status, ended.error_id) == ("cancelled", "interrupted")
    # A second by itself; a busy machine gets a few more. The backup would have taken two minutes.
    assert elapsed_seconds < 15
    await_gone(processes)
    assert agent.snapshots() == []
    assert temporary_files(agent) == []
    assert list((agent.repository / "leases").iterdir()) == []


def test_a_waiting_run_can_be_cancelled_and_the_next_takes_its_place(site: AgentSite) -> None:
    site.director.maximum_concurrent_runs = 1
    site.start_connected()
    first, second, third = slow_backup(site), site.backup(), site.backup()
    for request in (first, second, third):
        site.director.send(request)
    site.director.progress(first.run_id)
    site.director.send(Cancel(run_id=second.run_id))
    assert site.director.ended(second.run_id).status == "cancelled"
    assert site.director.sequences(third.run_id) == []
    site.director.send(SetBandwidth(run_id=first.run_id, maximum_bytes_per_second=0))
    assert site.director.ended(first.run_id).status == "done"
    assert site.director.ended(third.run_id).status == "done"


def test_runs_at_once_do_not_disturb_each_other(agent: AgentSite) -> None:
    slow = slow_backup(agent)
    agent.director.send(slow)
    agent.director.progress(slow.run_id)
    quick = StartEstimate(run_id=uuid.uuid4().hex, job="other", fileset=agent.fileset())
    agent.director.send(quick)
    assert agent.director.ended(quick.run_id).status == "done"
    agent.director.send(Cancel(run_id=slow.run_id))
    assert agent.director.ended(slow.run_id).status == "cancelled"


def test_the_bandwidth_of_a_run_can_be_changed(agent: AgentSite) -> None:
    request = slow_backup(agent)
    agent.director.send(request)
    agent.director.progress(request.run_id)
    before = time.monotonic()
    agent.director.send(SetBandwidth(run_id=request.run_id, maximum_bytes_per_second=0))
    ended = agent.director.ended(request.run_id)
    # It would have taken two minutes.
    assert (ended.status, ended.summary["stored_bytes"] > SLOW_FILES << 20) == ("done", True)
    assert time.monotonic() - before < 60


def test_the_agents_own_limit_holds_whatever_the_director_asks(site: AgentSite) -> None:
    site.of_client = "Maximum Bandwidth Per Job = 2 mb/s"
    site.configure()
    site.start_connected()
    fill(site, 6)
    request = site.backup(tuning=KnobSettings(compression="none"))
    before = time.monotonic()
    site.director.send(request)
    site.director.started(request.run_id)
    site.director.send(SetBandwidth(run_id=request.run_id, maximum_bytes_per_second=0))
    assert site.director.ended(request.run_id).status == "done"
    assert time.monotonic() - before > 2


def test_a_job_that_runs_too_long_is_ended(agent: AgentSite) -> None:
    request = slow_backup(agent, maximum_run_seconds=2)
    agent.director.send(request)
    ended = agent.director.ended(request.run_id)
    assert (ended.status, ended.error_id) == ("cancelled", "time-limit")
    assert temporary_files(agent) == []


def test_a_killed_job_process_is_reported(agent: AgentSite) -> None:
    request = slow_backup(agent)
    agent.director.send(request)
    agent.director.progress(request.run_id)
    processes = agent.job_processes()
    os.kill(processes[0], signal.SIGKILL)
    ended = agent.director.ended(request.run_id)
    assert (ended.status, ended.error_id) == ("failed", "job-died")
    await_gone(processes)
    again = agent.backup()
    agent.director.send(again)
    assert agent.director.ended(again.run_id).status == "done"
    assert temporary_files(agent) == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_survives_the_end_of_the_agent(agent: AgentSite, number: int) -> None:
    # A pack is done with 32 MiB; two are filled at a time.
    fill(agent, 80)
    request = agent.backup(
        maximum_bytes_per_second=40 << 20, tuning=KnobSettings(compression="none", shards=1)
    )
    agent.director.send(request)
    stored: set[str] = set()
    while not stored:
        time.sleep(0.02)
        stored = {path.name for path in (agent.repository / "packs").rglob("?" * 64)}
    agent.director.send(
        SetBandwidth(run_id=request.run_id, maximum_bytes_per_second=SLOW_BYTES_PER_SECOND)
    )
    processes = agent.job_processes()
    agent.end(number)
    await_gone(processes)
    agent.start_connected()
    assert agent.director.hellos()[-1].runs == (request.run_id,)
    agent.director.send(SetBandwidth(run_id=request.run_id, maximum_bytes_per_second=0))
    ended = agent.director.ended(request.run_id)
    assert (ended.status, ended.error) == ("done", "")
    assert any("restarted" in line for line in agent.director.log(request.run_id))
    assert len(agent.snapshots()) == 1
    assert stored <= {path.name for path in (agent.repository / "packs").rglob("?" * 64)}
    assert ended.summary["new_bytes"] <= (80 - 30) << 20
    assert temporary_files(agent) == []


def test_reports_that_were_not_acknowledged_outlive_the_agent(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    agent.director.acknowledges = False
    request = agent.backup()
    agent.director.send(request)
    ended = agent.director.ended(request.run_id)
    first = agent.director.sequences(request.run_id)
    agent.end(signal.SIGKILL)
    agent.director.heard.clear()
    agent.start_connected()
    assert agent.director.hellos()[-1].runs == (request.run_id,)
    assert agent.director.ended(request.run_id) == ended
    assert agent.director.sequences(request.run_id) == first == sorted(first)
    agent.director.acknowledge_all(request.run_id)
    again = agent.backup()
    agent.director.acknowledges = True
    agent.director.send(again)
    agent.director.ended(again.run_id)
    assert f"{request.run_id}.journal" not in agent.journals()


def test_a_lost_connection_loses_no_report(agent: AgentSite) -> None:
    path = agent.script("talk", "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); done")
    fill(agent, 4)
    request = agent.backup(Script(command=path, when="after"))
    agent.director.send(request)
    agent.director.started(request.run_id)
    agent.director.drop()
    agent.director.await_connection(2)
    agent.director.drop()
    agent.director.await_connection(3)
    assert agent.director.ended(request.run_id).status == "done"
    sequences = sorted(set(agent.director.sequences(request.run_id)))
    assert sequences == list(range(1, len(sequences) + 1))
    lines = agent.director.log(request.run_id)
    assert [line for line in lines if line.startswith("line ")] == [
        f"line {number}" for number in range(400)
    ]


def test_a_run_goes_on_while_the_director_is_away(agent: AgentSite) -> None:
    fill(agent, 4)
    request = agent.backup()
    agent.director.send(request)
    agent.director.started(request.run_id)
    port = agent.director.port
    agent.director.close()
    deadline = time.monotonic() + 30
    while not agent.snapshots():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    agent.director = SmallDirector(agent.director_identity, DIRECTOR, port=port)
    assert agent.director.ended(request.run_id).status == "done"


def test_the_same_request_twice_is_one_run(agent: AgentSite) -> None:
    (agent.source / "a").write_text("a")
    agent.director.acknowledges = False
    request = agent.backup()
    agent.director.send(request)
    agent.director.send(request)
    agent.director.ended(request.run_id)
    agent.director.send(request)
    probe = StartEstimate(run_id=uuid.uuid4().hex, job="other", fileset=agent.fileset())
    agent.director.send(probe)
    agent.director.ended(probe.run_id)
    assert len(agent.snapshots()) == 1


def test_reload_follows_the_configuration_and_cuts_no_job(agent: AgentSite) -> None:
    request = slow_backup(agent)
    agent.director.send(request)
    agent.director.progress(request.run_id)
    assert agent.process is not None
    agent.of_director = "Allowed Job Command = backup"
    agent.configure()
    agent.process.send_signal(signal.SIGHUP)
    agent.director.await_connection(2)
    refused = StartEstimate(run_id=uuid.uuid4().hex, job="other", fileset=agent.fileset())
    agent.director.send(refused)
    assert agent.director.ended(refused.run_id).error_id == "refused"
    agent.configuration.write_text("Client { Name = ")
    agent.process.send_signal(signal.SIGHUP)
    agent.director.send(SetBandwidth(run_id=request.run_id, maximum_bytes_per_second=0))
    assert agent.director.ended(request.run_id).status == "done"
    assert agent.director.hellos()[-1].name == CLIENT
