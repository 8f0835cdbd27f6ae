"""A dashboard as a page: the committed JSON, drawn with what a Prometheus answers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from pictures.charts import COLOURS, curves, heat
from pictures.units import text_of

if TYPE_CHECKING:
    from pictures.prometheus import Series, Source

CELL, ROW, GAP = 64, 34, 8
PLAIN = {"green": "#1b7a1b", "orange": "#b35c00", "red": "#c4162a"}
STYLE = """
body { margin: 0; font: 13px "DejaVu Sans", sans-serif; color: #1f2933; background: #f4f5f7; width: 1552px; }
h1 { font-size: 20px; margin: 12px 8px 2px; } p { margin: 0 8px 8px; color: #52606d; }
main { position: relative; }
section { position: absolute; background: #fff; border: 1px solid #dcdfe3; overflow: hidden; }
h2 { font-size: 13px; margin: 6px 8px 4px; } h3 { font-size: 15px; margin: 8px; }
.values { display: flex; flex-wrap: wrap; gap: 4px 18px; justify-content: center; }
.value { text-align: center; } .value b { display: block; } small { color: #52606d; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 4px 8px; border-top: 1px solid #dcdfe3; }
svg text { font-size: 10px; fill: #52606d; } .legend { padding: 0 8px; font-size: 11px; }
.legend i { display: inline-block; width: 12px; height: 3px; margin: 0 4px 3px 10px; }
"""


def page(board: dict[str, Any], source: Source) -> str:
    """HTML; its height is in the style of `main`."""
    drawn = [_panel(panel, source) for panel in board["panels"]]
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    note = "Drawn from the data of a real Prometheus by the project's own renderer, not by Grafana."
    return (
        f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><h1>{escape(board['title'])}</h1>"
        f"<p>{note}</p><main style='height:{rows * (ROW + GAP)}px'>{''.join(drawn)}</main>"
    )


def height_of(board: dict[str, Any]) -> int:
    """Of the page, in pixels."""
    return 70 + (ROW + GAP) * max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])


def _panel(panel: dict[str, Any], source: Source) -> str:
    at = panel["gridPos"]
    width, height = at["w"] * CELL - GAP, at["h"] * (ROW + GAP) - GAP
    place = f"left:{at['x'] * CELL + GAP}px;top:{at['y'] * (ROW + GAP)}px;width:{width}px;height:{height}px"
    if panel["type"] == "row":
        return f"<section style='{place};background:none;border:0'><h3>{escape(panel['title'])}</h3></section>"
    found = [one for target in panel["targets"] for one in source.series(target)]
    inside = _inside(panel, found, width, height) if found else "<div class=values>No data</div>"
    return f"<section style='{place}'><h2>{escape(panel['title'])}</h2>{inside}</section>"


def _inside(panel: dict[str, Any], found: list[Series], width: int, height: int) -> str:
    defaults = panel["fieldConfig"]["defaults"]
    unit = defaults["unit"]
    if panel["type"] == "stat":
        return _stat(defaults, found)
    if panel["type"] == "table":
        return _table(panel, found)
    if panel["type"] == "heatmap":
        y_unit = panel["options"]["yAxis"]["unit"]
        return heat(found, y_unit, width - 16, height - 40)
    custom = defaults.get("custom", {})
    stacked = custom.get("stacking", {}).get("mode") == "normal"
    bars = custom.get("drawStyle") == "bars"
    legend = "".join(
        f"<i style='background:{COLOURS[number % len(COLOURS)]}'></i>{escape(one.legend)}"
        for number, one in enumerate(found[:12])
    )
    chart = curves(found, unit, width - 16, height - 64, stacked=stacked, bars=bars)
    return f"{chart}<div class=legend>{legend}</div>"


def _stat(defaults: dict[str, Any], found: list[Series]) -> str:
    size = 26 if len(found) == 1 else 15
    values = [
        f"<div class=value><b style='font-size:{size}px;color:{_colour(defaults, one.last)}'>"
        f"{escape(_value_text(defaults, one.last))}</b><small>{escape(one.legend)}</small></div>"
        for one in found[:6]
    ]
    return f"<div class=values>{''.join(values)}</div>"


def _table(panel: dict[str, Any], found: list[Series]) -> str:
    """What the transformations of the panel make of the series: a row for each set of labels."""
    options = {one["id"]: one["options"] for one in panel["transformations"]}
    names = options["filterFieldsByName"]["include"]["names"]
    renamed = options["organize"]["renameByName"]
    only = panel["targets"][0]["refId"] if len(panel["targets"]) == 1 else ""
    labels = [name for name in names if name not in renamed]
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for one in found:
        key = tuple(one.labels.get(name, "") for name in labels)
        field = "Value" if one.query == only else f"Value #{one.query}"
        rows.setdefault(key, {})[renamed[field]] = one.last
    columns = list(dict.fromkeys(renamed[name] for name in names if name in renamed))
    settings = {
        one["matcher"]["options"]: {prop["id"]: prop["value"] for prop in one["properties"]}
        for one in panel["fieldConfig"]["overrides"]
    }
    ordered = list(rows.items())
    for sort in reversed(panel["options"]["sortBy"]):
        name, is_falling = sort["displayName"], sort.get("desc", False)
        place = labels.index(name) if name in labels else -1
        if place >= 0:
            ordered.sort(key=lambda row, place=place: row[0][place], reverse=is_falling)
        else:
            worst = float("-inf") if is_falling else float("inf")
            ordered.sort(key=lambda row, name=name, worst=worst: row[1].get(name, worst), reverse=is_falling)
    lines = [f"<tr>{''.join(f'<th>{escape(name)}' for name in (*labels, *columns))}</tr>"]
    for key, values in ordered:
        cells = [f"<td>{escape(word)}" for word in key]
        for name in columns:
            own = settings.get(name, {})
            if name not in values:
                cells.append("<td>")
                continue
            style = f" style='color:#fff;background:{_colour(own, values[name])}'" if "thresholds" in own else ""
            cells.append(f"<td{style}>{escape(_value_text(own, values[name]))}")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _value_text(settings: dict[str, Any], value: float) -> str:
    for mapping in settings.get("mappings", ()):
        if (found := mapping["options"].get(f"{value:g}")) is not None:
            return str(found["text"])
    return text_of(value, settings["unit"])


def _colour(settings: dict[str, Any], value: float) -> str:
    name = "green"
    for step in settings.get("thresholds", {}).get("steps", ()):
        if step.get("value") is None or value >= step["value"]:
            name = step["color"]
    return PLAIN[name]
