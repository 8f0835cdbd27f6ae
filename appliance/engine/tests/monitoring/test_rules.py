"""The alerts: valid, each tried where it fires and where it does not, and each in the runbook."""

from __future__ import annotations

import re
import subprocess

from kit.project import DOCUMENTS, MONITORING, ROLES
from kit.prometheus_server import needs_prometheus
from strongroom.daemons.metric_table.table import METRICS

RULES = ROLES / "monitoring" / "files" / "rules" / "strongroom.yml"
CASES = MONITORING / "rules_test.yml"
RUNBOOK = DOCUMENTS / "guides" / "runbook.md"


def alerts() -> list[str]:
    return re.findall(r"^ +- alert: (\w+)$", RULES.read_text(), re.MULTILINE)


def promtool(*words: str) -> None:
    done = subprocess.run(
        ["promtool", *words], cwd=MONITORING, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
def test_the_rules_are_valid() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))


@needs_prometheus
def test_alerts_fire_when_they_should_and_only_then() -> None:
    promtool("test", "rules", str(CASES))


def test_each_alert_has_a_case_where_it_fires_and_one_where_it_does_not() -> None:
    text = CASES.read_text()
    fires = set(re.findall(r"alertname: (\w+)\n +exp_alerts:\n", text))
    is_silent = set(re.findall(r"alertname: (\w+), exp_alerts: \[\]", text))
    assert len(alerts()) > 15
    assert fires == is_silent == set(alerts())


def test_each_alert_has_a_section_in_the_runbook() -> None:
    sections = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert sections == alerts()
    anchors = re.findall(
        r"runbook_url: https://example.org/strongroom/runbook.html#(\w+)", RULES.read_text()
    )
    assert anchors == [name.lower() for name in alerts()]


def test_alerts_ask_for_metrics_that_there_are() -> None:
    names = set(re.findall(r"\bstrongroom_[a-z_]+\b", RULES.read_text()))
    assert len(names) > 20
    assert names <= METRICS.keys()
