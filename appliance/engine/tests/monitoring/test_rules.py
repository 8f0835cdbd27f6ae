"""The alerts: valid, each tried where it fires and where it does not, and each in the runbook."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

from kit.project import DOCUMENTS, MONITORING
from kit.prometheus_server import needs_prometheus
from monitoring.rules import RULES
from strongroom.config.values.notice_events import ALERT_OF_OTHERS, CONDITIONS
from strongroom.service.metric_table.table import DAEMONS, METRICS

CASES = MONITORING / "rules_test.yml"
RUNBOOK = DOCUMENTS / "guides" / "monitor.md"


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


@needs_prometheus
def test_no_machine_ends_an_alert_with_what_its_node_exporter_tells(tmp_path: Path) -> None:
    """A file there may hold any names, also those of the director, and several of each."""
    asked = set(re.findall(r"\bstrongroom_[a-z_]+\b", RULES.read_text()))
    names = {one.name for metrics in DAEMONS["Director"].values() for one in metrics} & asked
    assert len(names) > 15
    told = 'job="strongroom-node", instance="evil:9100", backup_job="web1", client="web1"'
    # All as text: 0x60 is sixty times nothing, and no number.
    cases = yaml.load(CASES.read_text(), Loader=yaml.BaseLoader)
    cases["rule_files"] = [str(RULES)]
    for case in cases["tests"]:
        case["input_series"] += [
            {
                "series": f'{name}{{{told}, event="storage-unreachable", twice="{number}"}}',
                # One in five minutes, until what is tried.
                "values": f"1x{12 * int(case['alert_rule_test'][0]['eval_time'].rstrip('h'))}",
            }
            for name in sorted(names)
            for number in range(2)
        ]
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(cases))
    promtool("test", "rules", str(tmp_path / "cases.yml"))


def test_each_alert_has_a_case_where_it_fires_and_one_where_it_does_not() -> None:
    text = CASES.read_text()
    fires = set(re.findall(r"alertname: (\w+)\n +exp_alerts:\n", text))
    is_silent = set(re.findall(r"alertname: (\w+), exp_alerts: \[\]", text))
    assert len(alerts()) > 15
    assert fires == is_silent == set(alerts())


def test_each_alert_has_a_section_in_the_runbook() -> None:
    sections = re.findall(r"^### (Strongroom\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert sections == alerts()
    anchors = re.findall(
        r"runbook_url: https://example.org/strongroom/runbook.html#(\w+)", RULES.read_text()
    )
    assert anchors == [name.lower() for name in alerts()]


def test_alerts_ask_for_metrics_that_there_are() -> None:
    names = set(re.findall(r"\bstrongroom_[a-z_]+\b", RULES.read_text()))
    assert len(names) > 20
    assert names <= METRICS.keys()


def test_what_the_director_tells_is_marked_so_that_alertmanager_does_not_tell_it_too() -> None:
    told = {alert for kind in CONDITIONS.values() for alert in kind.alerts or (ALERT_OF_OTHERS,)}
    groups = yaml.safe_load(RULES.read_text())["groups"]
    marked = {
        rule["alert"]
        for group in groups
        for rule in group["rules"]
        if rule.get("labels", {}).get("director_tells") == "yes"
    }
    assert marked == told


def test_what_has_no_alert_of_its_own_is_in_the_one_of_all_others() -> None:
    (rule,) = (
        rule
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
        if rule.get("alert") == ALERT_OF_OTHERS
    )
    (events,) = re.findall(r'event=~"([^"]+)"', rule["expr"])
    assert events.split("|") == [name for name, kind in CONDITIONS.items() if not kind.alerts]
