"""What the dashboards are made of: queries, panels, variables, links.

Panels take their data source from the variable `datasource`. Queries are written without the matchers
that every selector has, which are added here: of which director, or of which machines' node_exporter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grafana_foundation_sdk.builders import common, dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    GraphDrawStyle,
    StackingMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
DIRECTOR = 'job=~"$job", instance=~"$instance"'
NODE = 'job=~"$node_job", instance=~"$node"'
TAG = "strongroom"
CLIENT_LINK = "/d/strongroom-client?${datasource:queryparam}&var-client=${__data.fields.client}&${__url_time_range}"
GREEN, AMBER, RED = "green", "orange", "red"
YES = {"0": "no", "1": "yes"}

_METRIC = re.compile(r"\b((?:strongroom|node)_[a-zA-Z0-9_]+|up)\b(\{)?")
# Metrics that node_exporter hands on, from files or of its own.
_OF_NODE = re.compile(r"node_|strongroom_storage_|strongroom_agent_")
_OF_DIRECTOR = ("agent_connected", "agent_clock_ahead_seconds", "agent_ktls_wanted", "agent_info")


def with_matchers(expression: str) -> str:
    """A query whose selectors say which scrape jobs and instances they are about."""

    def complete(found: re.Match[str]) -> str:
        name, has_more = found[1], found[2]
        is_node = _OF_NODE.match(name) and name.removeprefix("strongroom_") not in _OF_DIRECTOR
        matchers = NODE if is_node else DIRECTOR
        return f"{name}{{{matchers}{', ' if has_more else '}'}"

    return _METRIC.sub(complete, expression)


@dataclass(frozen=True)
class Query:
    """A query and the legend of its series."""

    expression: str
    legend: str = ""

    @property
    def text(self) -> str:
        """The query with its matchers."""
        return with_matchers(self.expression)


def above(amber: float, red: float) -> dashboard.ThresholdsConfig:
    """Amber from a value on, red from a higher one on."""
    return _thresholds((None, GREEN), (amber, AMBER), (red, RED))


def below(amber: float, red: float) -> dashboard.ThresholdsConfig:
    """Amber below a value, red below a lower one."""
    return _thresholds((None, RED), (red, AMBER), (amber, GREEN))


def plain() -> dashboard.ThresholdsConfig:
    """No value is better than another."""
    return _thresholds((None, GREEN))


def number(
    title: str,
    description: str,
    unit: str,
    thresholds: dashboard.ThresholdsConfig,
    *queries: Query,
    width: int = 4,
    texts: dict[str, str] | None = None,
) -> stat.Panel:
    """One value, or one for each series."""
    panel = stat.Panel().thresholds(thresholds).color_mode(BigValueColorMode.VALUE)
    panel = panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    if texts:
        panel = panel.mappings([_mapping(texts)])
    return _panel(panel, title, description, unit, queries, width, 4, instant=True)


def curves(
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    width: int = 12,
    stacked: bool = False,
    bars: bool = False,
    thresholds: dashboard.ThresholdsConfig | None = None,
) -> timeseries.Panel:
    """Values over time."""
    panel = timeseries.Panel().fill_opacity(30 if stacked else 8).min(0)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    if bars:
        panel = panel.draw_style(GraphDrawStyle.BARS)
    if thresholds is not None:
        panel = panel.thresholds(thresholds)
    return _panel(panel, title, description, unit, queries, width, 8)


def heat(title: str, description: str, unit: str, query: Query, width: int = 12) -> heatmap.Panel:
    """How many series have which value, over time."""
    panel = heatmap.Panel().calculate(True).show_legend()
    panel = panel.y_axis(heatmap.YAxisConfig().unit(unit))
    return _panel(panel, title, description, unit, (query,), width, 8)


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, unit, texts in place of values, and from where on it is amber and red.

    Where red is below amber, lower values are worse.
    """

    name: str
    query: Query
    unit: str
    thresholds: tuple[float, float] | None = None
    texts: tuple[tuple[str, str], ...] = ()


def rows(
    title: str,
    description: str,
    labels: Sequence[str],
    columns: Sequence[Column],
    *,
    first: Sequence[str],
    width: int = 24,
    link: str = "",
    is_ascending: bool = False,
) -> table.Panel:
    """A table: a row for each set of labels. first: columns that it is sorted by, greatest first."""
    panel = table.Panel().sort_by(
        [common.TableSortByFieldState().display_name(name).desc(not is_ascending) for name in first]
    )
    names = {f"Value #{_reference(number)}": one.name for number, one in enumerate(columns)}
    if len(columns) == 1:
        names["Value"] = columns[0].name
    order = {name: number for number, name in enumerate((*labels, *names))}
    # Names of metrics go first: rows that differ in one would not be merged.
    for name, options in (
        ("filterFieldsByName", {"include": {"names": [*labels, *names]}}),
        ("merge", {}),
        ("organize", {"indexByName": order, "renameByName": names}),
    ):
        panel = panel.with_transformation(DataTransformerConfig(id_val=name, options=options))
    for one in columns:
        panel = panel.override_by_name(one.name, _of_column(one))
    if link:
        parts_of_it = {"title": "Show this client", "url": link}
        panel = panel.override_by_name("client", [DynamicConfigValue("links", [parts_of_it])])
    queries = [one.query for one in columns]
    return _panel(panel, title, description, "short", queries, width, 10, instant=True, is_table=True)


def new_dashboard(uid: str, title: str, description: str) -> dashboard.Dashboard:
    """An empty one, with the variables and links that all have."""
    return (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .readonly()
        .time("now-7d", "now")
        .refresh("1m")
        .timezone("browser")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(variable("job", "Job", "label_values(strongroom_director_info, job)"))
        .with_variable(
            variable("instance", "Instance", 'label_values(strongroom_director_info{job=~"$job"}, instance)')
        )
        .link(
            dashboard.DashboardLink("Strongroom")
            .type(DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(False)
            .include_vars(True)
            .keep_time(True)
        )
    )


def filled(board: dashboard.Dashboard, panels: Sequence[dashboard.Row | Any]) -> dashboard.Dashboard:
    """The dashboard with these rows and panels, in order."""
    for panel in panels:
        board = board.with_row(panel) if isinstance(panel, dashboard.Row) else board.with_panel(panel)
    return board


def with_nodes(board: dashboard.Dashboard, jobs_query: str, nodes_query: str) -> dashboard.Dashboard:
    """The dashboard with the variables of which machines' node_exporter it shows."""
    return board.with_variable(variable("node_job", "Node job", jobs_query)).with_variable(
        variable("node", "Node", nodes_query)
    )


def variable(name: str, label: str, query: str, *, is_multi: bool = True) -> dashboard.QueryVariable:
    """A variable with the values of a label."""
    made = (
        dashboard.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
    if is_multi:
        made = made.multi(True).include_all(True)
        # All jobs and instances of a director; all nodes are those of the list, not every machine's node_exporter.
        if name not in ("node_job", "node"):
            made = made.all_value(".+")
        made = made.current(VariableOption(text="All", value="$__all"))
    return made


def _panel(
    panel: Any,
    title: str,
    description: str,
    unit: str,
    queries: Sequence[Query],
    width: int,
    height: int,
    *,
    instant: bool = False,
    is_table: bool = False,
) -> Any:
    panel = panel.title(title).description(description).unit(unit).datasource(SOURCE)
    panel = panel.span(width).height(height)
    for place, query in enumerate(queries):
        target = prometheus.Dataquery().expr(query.text).ref_id(_reference(place)).datasource(SOURCE)
        target = target.instant() if instant else target.range()
        if query.legend:
            target = target.legend_format(query.legend)
        if is_table:
            target = target.format(PromQueryFormat.TABLE)
        panel = panel.with_target(target)
    return panel


def _of_column(column: Column) -> list[DynamicConfigValue]:
    found = [DynamicConfigValue("unit", column.unit)]
    if column.thresholds is not None:
        amber, red = column.thresholds
        steps = [(None, GREEN), (amber, AMBER), (red, RED)]
        if red < amber:
            steps = [(None, RED), (red, AMBER), (amber, GREEN)]
        parts_of_it = [{"value": value, "color": color} for value, color in steps]
        found.append(DynamicConfigValue("thresholds", {"mode": "absolute", "steps": parts_of_it}))
        found.append(DynamicConfigValue("custom.cellOptions", {"type": "color-background"}))
    if column.texts:
        found.append(DynamicConfigValue("mappings", [_mapping(dict(column.texts))]))
    return found


def _mapping(texts: dict[str, str]) -> Any:
    from grafana_foundation_sdk.models.dashboard import ValueMap, ValueMappingResult

    return ValueMap(options={value: ValueMappingResult(text=text) for value, text in texts.items()})


def _thresholds(*steps: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    made = [Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(made)


def _reference(place: int) -> str:
    return chr(ord("A") + place)
