"""Real daemons and a real Prometheus: every metric is there, and every query has a value."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from kit.daemon_process import wait_for
from kit.memory_folder import memory_folder
from kit.prometheus_server import needs_prometheus
from monitoring.dashboards import NAMES, Target, as_asked, load, targets
from monitoring.rules import expressions, selectors
from monitoring.watched_house import House, watched_house
from strongroom.service.metric_table.table import METRICS

pytestmark = needs_prometheus

PATIENCE_SECONDS = 300.0
HAS_KERNEL_TLS = os.path.exists("/proc/net/tls_stat")
# They need what this house does not have: quotas, notices that are sent, a second store.
NOT_HERE = {
    "strongroom_storage_quota_bytes",
    "strongroom_notices_sent_total",
    "strongroom_notices_failed_total",
    "strongroom_copy_waiting_snapshots",
    "strongroom_copy_lag_seconds",
}


@pytest.fixture(scope="module")
def watched() -> Iterator[House]:
    with memory_folder() as folder, watched_house(folder) as house:
        yield house


def fault(series: list[dict[str, Any]], labels: frozenset[str]) -> str:
    """What is wrong with the answer to a query; "" for nothing."""
    if not series:
        return "empty"
    for one in series:
        if not math.isfinite(float(one["value"][1])):
            return f"not finite: {one}"
        if missing := labels - set(one["metric"]):
            return f"without {missing}: {one}"
    return ""


def test_every_query_of_every_dashboard_has_values_during_a_backup(watched: House) -> None:
    waiting: dict[Target, str] = dict.fromkeys(targets(), "")
    assert len(waiting) > 70
    for one in list(waiting):
        # /proc/net/tls_stat is there where the kernel's module tls is loaded. Valid it must be.
        if "kernel_tls" in one.expression and not HAS_KERNEL_TLS:
            watched.monitoring.query(as_asked(one.expression, "web1"))
            del waiting[one]

    def ask() -> bool:
        watched.write_storage_metrics()
        watched.is_running()
        for one in list(waiting):
            found = watched.monitoring.query(as_asked(one.expression, "web1"))
            waiting[one] = fault(found, one.labels)
            if not waiting[one]:
                del waiting[one]
        return not waiting

    wait_for(
        ask, lambda: "\n".join(f"{text}: {one}" for one, text in waiting.items()), PATIENCE_SECONDS
    )


def test_every_rule_is_evaluated_and_what_it_asks_for_is_there(watched: House) -> None:
    rules = expressions()
    wait_for(
        # What fires during this is a job that fails (it is meant to), and nothing else.
        lambda: (
            {one["name"]: one["health"] for one in watched.monitoring.rules()}
            | {"strongroom:backup_known:hours": "ok"}
            == dict.fromkeys(rules, "ok")
        ),
        lambda: str(watched.monitoring.rules()),
        PATIENCE_SECONDS,
    )
    waiting = {one for text in rules.values() for one in selectors(text)}
    # Recorded once in an hour; its own selector is among the others.
    waiting -= {"strongroom:backup_known:hours"}
    # Of conditions there is one here, that of the job that fails.
    conditions = {one for one in waiting if one.startswith("strongroom_incidents{")}
    assert all("event=" in one for one in conditions)
    waiting = waiting - conditions | {
        'strongroom_incidents{job="strongroom-director", event="job-failed"}'
    }
    assert len(waiting) > 25

    def ask() -> bool:
        watched.write_storage_metrics()
        waiting.difference_update(one for one in set(waiting) if watched.monitoring.query(one))
        return not waiting

    wait_for(ask, lambda: str(sorted(waiting)), PATIENCE_SECONDS)
    fires = {one["name"] for one in watched.monitoring.rules() if one.get("alerts")}
    assert fires == {"StrongroomBackupFailed"}


def test_every_variable_has_values(watched: House) -> None:
    watched.write_storage_metrics()
    for name in NAMES:
        for variable in load(name)["templating"]["list"]:
            if variable["type"] != "query":
                continue
            selector, _, label = (
                variable["query"].removeprefix("label_values(")[:-1].rpartition(", ")
            )
            wait_for(
                lambda label=label, selector=selector: bool(
                    watched.monitoring.label_values(label, as_asked(selector, "web1"))
                ),
                lambda variable=variable: variable["query"],
                PATIENCE_SECONDS,
            )


def test_every_metric_of_the_table_is_exported_and_scraped(watched: House) -> None:
    waiting = {
        name
        for name in METRICS
        if name not in NOT_HERE and (HAS_KERNEL_TLS or "kernel_tls" not in name)
    }

    def ask() -> bool:
        watched.write_storage_metrics()
        watched.is_running()
        for name in list(waiting):
            found = watched.monitoring.query(name)
            if found:
                waiting.discard(name)
                labels = set(METRICS[name].labels)
                assert all(
                    set(one["metric"]) - {"__name__", "job", "instance"} <= labels for one in found
                )
        return not waiting

    wait_for(ask, lambda: str(sorted(waiting)), PATIENCE_SECONDS)


def test_the_examples_of_the_table_are_valid_queries(watched: House) -> None:
    for metric in METRICS.values():
        if metric.query:
            watched.monitoring.query(metric.query)


def test_promtool_has_nothing_to_say_about_the_metrics(watched: House) -> None:
    url = f"https://127.0.0.1:{watched.house.director_port}/metrics"
    agent = watched.monitoring.textfiles / "strongroom-agent.prom"
    # Its agent may only have begun.
    wait_for(agent.exists, lambda: watched.house.director.log)
    for text in (
        watched.house.api().get(url).text,
        watched.write_storage_metrics(),
        agent.read_text(),
    ):
        done = subprocess.run(
            ["promtool", "check", "metrics"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_client_that_sleeps_is_still_seen(watched: House) -> None:
    house = watched.house
    assert house.agents["web2"].stop() == 0
    wait_for(
        lambda: bool(watched.monitoring.query('strongroom_agent_connected{client="web2"} == 0')),
        lambda: house.director.log,
    )
    assert watched.monitoring.query('strongroom_backup_last_run_status{client="web2"} == 2')
    house.start_agent("web2")
