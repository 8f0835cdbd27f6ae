"""The charts of a suite: lines where conditions are numbers, else bars; all of them in one file."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final

from strongroom.measure.charts import Series, bar_chart, line_chart, standalone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.measure.suites.result import Row, SuiteResult

# How far the least that may be called as fast as the best is from it.
NEAR: Final = 1.1
_TITLE_HEIGHT: Final = 26
_GAP: Final = 18
_FIGURE: Final = re.compile(
    r'<figcaption>(?P<title>.*?)</figcaption><svg viewBox="0 0 (?P<width>\d+) (?P<height>\d+)"'
    r"[^>]*>(?P<drawn>.*)</svg>",
    re.DOTALL,
)
_BAR: Final = re.compile(
    r'<rect class="bar" x="(?P<x>\d+)" y="(?P<y>\d+)" width="(?P<width>[\d.]+)"'
)
_BEST_COLOUR: Final = "#b45309"


def charts(result: SuiteResult) -> list[str]:
    """Figures of HTML."""
    groups = result.groups().items()
    if any(row.is_best for row in result.rows):
        return [_judged_bars(f"{group}, seconds", rows) for group, rows in groups]
    if any(row.line for row in result.rows):
        drawn = ((group, _lines_of(rows)) for group, rows in groups)
        return [
            line_chart(f"{group}, seconds", result.axis, lines, _seconds)
            for group, lines in drawn
            if lines
        ]
    lines = []
    for group, rows in groups:
        points = _points(rows)
        if len(points) == len(dict(points)) > 0:
            lines.append(Series(group, points))
    if lines:
        return [line_chart(f"{result.title}, seconds", result.axis, lines, _seconds)]
    bars = [
        (f"{row.group}: {row.condition}", row.median_seconds) for row in result.rows if row.seconds
    ]
    return [bar_chart(f"{result.title}, seconds", bars, _two_digits)]


def chart_file(result: SuiteResult) -> str:
    """All charts as one SVG, one below the other, each under its title."""
    figures = charts(result)
    if len(figures) == 1:
        return standalone(figures[0])
    drawn = []
    width = height = 0
    for figure in figures:
        found = _FIGURE.search(figure)
        assert found is not None
        drawn.append(
            f'<text x="8" y="{height + 18}" font-weight="bold">{found["title"]}</text>'
            f'<g transform="translate(0,{height + _TITLE_HEIGHT})">{found["drawn"]}</g>'
        )
        width = max(width, int(found["width"]))
        height += _TITLE_HEIGHT + int(found["height"]) + _GAP
    label = escape(result.title)
    return standalone(
        f'<figure><figcaption>{label}</figcaption><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{label}">{"".join(drawn)}</svg></figure>'
    )


def _seconds(value: float) -> str:
    return f"{value:g} s"


def _points(rows: Sequence[Row]) -> list[tuple[float, float]]:
    return [(row.place, row.median_seconds) for row in rows if row.place is not None]


def _lines_of(rows: Sequence[Row]) -> list[Series]:
    """Those of more than one point."""
    names = dict.fromkeys(row.line for row in rows if row.line)
    found = (Series(name, _points([row for row in rows if row.line == name])) for name in names)
    return [series for series in found if len(series.points) > 1]


def _judged_bars(title: str, rows: Sequence[Row]) -> str:
    """Bars with the best marked, and a line where what may still be called near to it ends."""

    def name(row: Row) -> str:
        return f"{row.condition} (best)" if row.is_best else row.condition

    figure = bar_chart(title, [(name(row), row.median_seconds) for row in rows], _two_digits)
    bars = list(_BAR.finditer(figure))
    best = next((number for number, row in enumerate(rows) if row.is_best), None)
    if best is None:
        return figure
    end = float(bars[best]["x"]) + float(bars[best]["width"]) * NEAR
    bottom = int(bars[-1]["y"]) + 26
    line = (
        f'<line x1="{end:.1f}" x2="{end:.1f}" y1="0" y2="{bottom}" stroke="{_BEST_COLOUR}" '
        f'stroke-dasharray="4 3"><title>{NEAR - 1:.0%} more than the best</title></line>'
    )
    marked = bars[best][0].replace('class="bar"', f'class="bar" style="fill:{_BEST_COLOUR}"')
    return figure.replace(bars[best][0], marked, 1).replace("</svg>", f"{line}</svg>", 1)


def _two_digits(value: float) -> str:
    return f"{value:.2f} s"
