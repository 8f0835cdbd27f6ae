"""What Grafana's dashboard-linter asks of dashboards, and what ours are to have besides.

The names of its rules are at the tests that have them; target-promql-rule and
template-label-promql-rule are tried by a real Prometheus (test_real_prometheus.py), the rules about
logs do not apply. Where the linter itself is installed, it runs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest

from kit.project import MONITORING
from monitoring.dashboards import FOLDER, NAMES, load, panels

each = pytest.mark.parametrize("name", NAMES)
LINTER = shutil.which("dashboard-linter")
EXCEPTIONS = MONITORING / "dashboard-linter.yml"
COUNTER = re.compile(r"\w+_total\b")
SELECTOR = re.compile(r"\b((?:strongroom|node)_[a-zA-Z0-9_]+|up)\b(\{[^}]*\})?")
OF_DIRECTOR = 'job=~"$job", instance=~"$instance"'
OF_NODE = 'job=~"$node_job", instance=~"$node"'


def variables(name: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in load(name)["templating"]["list"]}


def expressions(name: str) -> list[str]:
    return [target["expr"] for panel in panels(name) for target in panel["targets"]]


# template-datasource-rule, panel-datasource-rule
@each
def test_the_data_source_is_a_variable(name: str) -> None:
    one = variables(name)["datasource"]
    assert (one["type"], one["query"], one["label"]) == ("datasource", "prometheus", "Data source")
    for panel in panels(name):
        for what in (panel, *panel["targets"]):
            assert what["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


# template-job-rule, template-instance-rule, template-on-time-change-reload-rule
@each
def test_variables_are_labelled_multiple_and_read_when_the_time_changes(name: str) -> None:
    for one in variables(name).values():
        assert one["label"]
        if one["type"] != "query":
            continue
        assert one["refresh"] == 2
        assert one["query"].startswith("label_values(")
        if one["name"] != "client" or name != "client":
            assert (one["multi"], one["includeAll"]) == (True, True)
            # All nodes are those with a storage daemon or this client, not every machine.
            every = "" if one["name"] in ("node", "node_job") else ".+"
            assert one.get("allValue", "") == every
    assert {"job", "instance"} <= variables(name).keys()


# panel-title-description-rule, panel-units-rule, panel-no-targets-rule
@each
def test_panels_have_title_description_unit_and_queries(name: str) -> None:
    titles = [panel["title"] for panel in panels(name)]
    assert len(titles) == len(set(titles))
    for panel in panels(name):
        assert panel["title"]
        assert panel["description"].endswith((".", "most.", "now."))
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))
        if panel["type"] == "stat":
            assert len(panel["fieldConfig"]["defaults"]["thresholds"]["steps"]) >= 1


# target-job-rule, target-instance-rule
@each
def test_every_selector_says_which_job_and_instance(name: str) -> None:
    for expression in expressions(name):
        found = SELECTOR.findall(re.sub(r'"[^"]*"', lambda m: m[0].replace("}", ""), expression))
        assert found
        for metric, matchers in found:
            assert OF_DIRECTOR in matchers or OF_NODE in matchers, (metric, expression)


# target-counter-agg-rule, target-rate-interval-rule
@each
def test_counters_are_rates_over_an_interval_that_fits(name: str) -> None:
    for expression in expressions(name):
        for counter in COUNTER.finditer(expression):
            before = expression[: counter.start()]
            assert re.search(r"(rate|increase|deriv)\($", before), expression
        for rate in re.findall(r"(?:\brate|\bderiv)\([^\[]*\[([^\]]*)\]", expression):
            assert rate in ("$__rate_interval", "7d"), expression


# uneditable-dashboard
@each
def test_dashboards_are_not_edited_in_place_and_lead_to_each_other(name: str) -> None:
    board = load(name)
    assert board["editable"] is False
    assert board["uid"] == f"strongroom-{name}"
    assert [one["type"] for one in board["links"]] == ["dashboards"]
    (runs,) = board["annotations"]["list"]
    assert runs["useValueForTime"]


def test_a_row_of_the_fleet_leads_to_its_client() -> None:
    table = next(panel for panel in panels("fleet") if panel["type"] == "table")
    links = [
        prop["value"][0]["url"]
        for override in table["fieldConfig"]["overrides"]
        for prop in override["properties"]
        if prop["id"] == "links"
    ]
    assert len(links) == 1
    assert links[0].startswith("/d/strongroom-client?")
    assert "var-client=${__data.fields.client}" in links[0]


@each
def test_tables_merge_rows_by_labels_alone(name: str) -> None:
    # Grafana merges rows that agree in all they share. A metric's name is a field of a row as well.
    for panel in panels(name):
        if panel["type"] == "table":
            steps = panel["transformations"]
            assert [one["id"] for one in steps] == ["filterFieldsByName", "merge", "organize"]
            kept = steps[0]["options"]["include"]["names"]
            assert not {"__name__", "Time", "instance", "job"} & set(kept)


@each
def test_panels_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in load(name)["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


@pytest.mark.skipif(LINTER is None, reason="github.com/grafana/dashboard-linter is not installed")
@each
def test_grafanas_own_linter_has_nothing_to_say(name: str) -> None:
    assert LINTER is not None
    done = subprocess.run(
        (LINTER, "lint", "--strict", "--config", EXCEPTIONS, FOLDER / f"{name}.json"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
