"""The file of figures that node_exporter takes along."""

from __future__ import annotations

import os
import signal
import stat
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import strongroom
from kit.agent_site import CLIENT, DIRECTOR, PATIENCE_SECONDS, AgentSite
from kit.ports import free_port
from strongroom.agent.settings import load_settings
from strongroom.base import clock
from strongroom.base.errors import ConfigurationError
from strongroom.net.control.messages import StartEstimate

NIGHTLY = (("backup_job", "nightly"), ("director", DIRECTOR), ("kind", "backup"))
OF_DIRECTOR = (("director", DIRECTOR),)


@pytest.fixture
def file(site: AgentSite) -> Path:
    """Where the agent of `site` leaves its figures."""
    folder = site.folder / "textfiles"
    folder.mkdir()
    site.of_client = f'Metrics File = "{folder}/strongroom.prom"'
    site.configure()
    return folder / "strongroom.prom"


def figures(file: Path) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples by name (without the prefix) and sorted labels."""
    if not file.exists():
        return {}
    return {
        (sample.name.removeprefix("strongroom_agent_"), tuple(sorted(sample.labels.items()))):
        sample.value
        for family in text_string_to_metric_families(file.read_text())
        for sample in family.samples
    }  # fmt: skip


def run(site: AgentSite, message: Any) -> Any:
    site.director.send(message)
    return site.director.ended(message.run_id)


def await_figure(file: Path, name: str, labels: Any, value: Any = None) -> float:
    """Wait until a figure is there, and as it is to be."""
    end = clock.elapsed_seconds() + PATIENCE_SECONDS
    while (found := figures(file).get((name, labels))) is None or value not in (None, found):
        assert clock.elapsed_seconds() < end, figures(file)
        time.sleep(0.05)
    return found


def test_runs_are_told_with_their_results_and_counts(site: AgentSite, file: Path) -> None:
    (site.source / "a").write_bytes(os.urandom(5000))
    site.start_connected()
    first = run(site, site.backup())
    await_figure(file, "last_run_status", NIGHTLY, 0)
    found = figures(file)
    assert found["last_run_files", NIGHTLY] == 1
    assert found["last_run_bytes", NIGHTLY] == 5000
    assert found["last_run_stored_bytes", NIGHTLY] == first.summary["stored_bytes"] > 5000
    assert found["last_run_problems", NIGHTLY] == 0
    assert found["last_run_used_parent", NIGHTLY] == 0
    assert found["last_run_timestamp_seconds", NIGHTLY] == pytest.approx(first.time_ns / 1e9)
    assert found["last_run_duration_seconds", NIGHTLY] > 0
    assert found["parent_cache_listings", ()] == 1
    assert found["parent_cache_bytes", ()] > 0
    second = run(site, site.backup(parent=first.snapshot))
    await_figure(file, "last_run_used_parent", NIGHTLY, 1)
    assert figures(file)["last_run_bytes", NIGHTLY] == 5000
    lost = site.target()
    failed = run(site, site.backup(storage=type(lost)(address="/nowhere", port=0, server_name="")))
    assert failed.status == "failed"
    await_figure(file, "last_run_status", NIGHTLY, 2)
    found = figures(file)
    assert found["last_success_timestamp_seconds", NIGHTLY] == pytest.approx(second.time_ns / 1e9)
    assert ("last_run_bytes", NIGHTLY) not in found


def test_the_file_is_for_all_to_read_and_nothing_else_is_left(site: AgentSite, file: Path) -> None:
    site.start_connected()
    await_figure(file, "up", (), 1)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    version = {("client", CLIENT), ("version", strongroom.__version__)}
    assert any(name == "build_info" and version == set(labels) for name, labels in figures(file))
    assert figures(file)["certificate_expiry_timestamp_seconds", ()] > 0
    assert site.end() == 0
    assert figures(file)["up", ()] == 0
    assert figures(file)["director_connected", OF_DIRECTOR] == 0
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_figures_of_runs_outlive_the_agent(site: AgentSite, file: Path) -> None:
    site.start_connected()
    ended = run(site, site.backup())
    await_figure(file, "last_run_status", NIGHTLY, 0)
    site.director.acknowledge_all(ended.run_id)
    site.end(signal.SIGKILL)
    file.unlink()
    site.start_connected()
    estimate = StartEstimate(run_id=uuid.uuid4().hex, job="count", fileset=site.fileset())
    run(site, estimate)
    labels = (("backup_job", "count"), ("director", DIRECTOR), ("kind", "estimate"))
    await_figure(file, "last_run_status", labels, 0)
    at = figures(file)["last_success_timestamp_seconds", NIGHTLY]
    assert at == pytest.approx(ended.time_ns / 1e9)


def test_a_damaged_record_of_runs_costs_only_their_figures(site: AgentSite, file: Path) -> None:
    (site.folder / "working").mkdir()
    (site.folder / "working" / "last-runs.json").write_text("[{")
    site.start_connected()
    assert run(site, site.backup()).status == "done"
    await_figure(file, "last_run_status", NIGHTLY, 0)


def test_a_passive_agent_tells_the_same(site: AgentSite, file: Path) -> None:
    site.listens_at = free_port()
    site.configure()
    site.start()
    await_figure(file, "director_connected", OF_DIRECTOR, 0)
    site.director.dial(site.listens_at)
    site.director.await_connection()
    run(site, site.backup())
    await_figure(file, "last_run_status", NIGHTLY, 0)
    await_figure(file, "director_connected", OF_DIRECTOR, 1)


def test_what_cannot_be_written_is_told_and_disturbs_no_run(site: AgentSite, file: Path) -> None:
    file.mkdir()
    site.start_connected()
    for _ in range(2):
        assert run(site, site.backup()).status == "done"
    assert site.end() == 0
    assert site.messages.read_text().count("metrics cannot be written") == 1


def test_a_file_that_is_no_longer_wanted_is_removed(site: AgentSite, file: Path) -> None:
    site.start_connected()
    await_figure(file, "up", (), 1)
    other = file.with_name("other.prom")
    site.of_client = f'Metrics File = "{other}"'
    site.configure()
    assert site.process is not None
    site.process.send_signal(signal.SIGHUP)
    await_figure(other, "up", (), 1)
    assert not file.exists()


@pytest.mark.parametrize("path", ["strongroom.prom", "/var/lib/strongroom.txt"])
def test_a_name_that_nobody_would_read_is_refused(site: AgentSite, path: str) -> None:
    site.of_client = f'Metrics File = "{path}"'
    site.configure()
    with pytest.raises(ConfigurationError, match=r"ends with \.prom"):
        load_settings(str(site.configuration))
