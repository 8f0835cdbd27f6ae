"""Charts of the benchmark as files of SVG: panels of bars, and the charts of a page as one file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final

from strongroom.cli.measure.charts import bar_chart

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

_MARGIN: Final = 24
_LABEL_WIDTH: Final = 150
_PANEL_WIDTH: Final = 196
_PANEL_GAP: Final = 16
_BAR_HEIGHT: Final = 14
_BAR_GAP: Final = 4
_VALUE_WIDTH: Final = 46
_HEAD_HEIGHT: Final = 92
_ROW_GAP: Final = 22
_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_STANDALONE_STYLE: Final = (
    "svg{background:#fff;font:12px system-ui,sans-serif}text{fill:#0f172a}.grid{stroke:#e2e8f0}"
    ".bar{fill:#0f766e}.line{fill:none;stroke-width:2}"
    + "".join(
        f".line.s{number}{{stroke:{colour}}}.dot.s{number}{{fill:{colour}}}"
        for number, colour in enumerate(
            ("#0f766e", "#b45309", "#6d28d9", "#be123c", "#1d4ed8", "#4d7c0f")
        )
    )
)


def panels(
    rows: Sequence[tuple[str, Mapping[str, Sequence[tuple[str, float]]]]],
    columns: Mapping[str, str],
    colours: Mapping[str, str],
    text: Callable[[float], str],
) -> str:
    """A file with a panel for each row and column, and in it a bar for each (name, seconds).

    rows: the title of each, and the bars by column. columns: their titles. colours: of the names;
    the first is ours. Every panel has its own scale, since a start takes milliseconds and a
    million files minutes; `text` of the seconds is at each bar.
    """
    shown = [column for column in columns if any(column in panels for _, panels in rows)]
    places = {
        column: _MARGIN + _LABEL_WIDTH + number * (_PANEL_WIDTH + _PANEL_GAP)
        for number, column in enumerate(shown)
    }
    drawn: list[str] = []
    names: set[str] = set()
    y = float(_HEAD_HEIGHT)
    for title, bars_by_column in rows:
        for line, words in enumerate(_wrapped(title)):
            drawn.append(_text(_MARGIN, y + 12 + 16 * line, words, 13, font_weight="600"))
        for column, bars in bars_by_column.items():
            drawn += _panel(places[column], y, bars, colours, text)
            names |= {name for name, _ in bars}
        most = max(map(len, bars_by_column.values()))
        y += most * (_BAR_HEIGHT + _BAR_GAP) + _ROW_GAP
    for column, x in places.items():
        drawn.append(_text(x, _HEAD_HEIGHT - 12, columns[column], 13, font_weight="600"))
    width = 2 * _MARGIN + _LABEL_WIDTH + len(shown) * (_PANEL_WIDTH + _PANEL_GAP) - _PANEL_GAP
    drawn.insert(0, _text(_MARGIN, 32, "Seconds, shorter is better", 18, font_weight="700"))
    head = (
        f'<svg xmlns="{_NAMESPACE}" viewBox="0 0 {width:g} {y:g}" '
        f'width="{width:g}" height="{y:g}" font-family="system-ui, sans-serif" fill="#0f172a">'
    )
    ground = _rectangle(0, 0, width, y, "#ffffff", 8)
    legend = _legend({name: colour for name, colour in colours.items() if name in names})
    return "\n".join([head, ground, *drawn, *legend, "</svg>\n"])


def chart_file(title: str, figures: Sequence[str]) -> str:
    """Charts of a page as one SVG, one below the other, each under its title."""
    if len(figures) == 1:
        return _standalone(figures[0])
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
    label = escape(title)
    return _standalone(
        f'<figure><figcaption>{label}</figcaption><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{label}">{"".join(drawn)}</svg></figure>'
    )


def bars_beside_best(
    title: str, bars: Sequence[tuple[str, float]], best: int, text: Callable[[float], str]
) -> str:
    """Bars with the best marked, and a line where what may still be called near to it ends."""
    figure = bar_chart(title, bars, text)
    drawn = list(_BAR.finditer(figure))
    end = float(drawn[best]["x"]) + float(drawn[best]["width"]) * NEAR
    bottom = int(drawn[-1]["y"]) + 26
    line = (
        f'<line x1="{end:.1f}" x2="{end:.1f}" y1="0" y2="{bottom}" stroke="{_BEST_COLOUR}" '
        f'stroke-dasharray="4 3"><title>{NEAR - 1:.0%} more than the best</title></line>'
    )
    marked = drawn[best][0].replace('class="bar"', f'class="bar" style="fill:{_BEST_COLOUR}"')
    return figure.replace(drawn[best][0], marked, 1).replace("</svg>", f"{line}</svg>", 1)


def _standalone(figure: str) -> str:
    """The chart of a figure as its own file, light on any ground."""
    begin, end = figure.index("<svg "), figure.index("</svg>") + len("</svg>")
    chart = figure[begin:end].replace("<svg ", f'<svg xmlns="{_NAMESPACE}" ', 1)
    place = chart.index(">") + 1
    return f"{chart[:place]}<style>{_STANDALONE_STYLE}</style>{chart[place:]}\n"


def _text(x: float, y: float, content: str, size: int = 12, **attributes: str) -> str:
    extra = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{extra}>{escape(content)}</text>'


def _rectangle(x: float, y: float, width: float, height: float, colour: str, corner: int) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" '
        f'rx="{corner}" fill="{colour}"/>'
    )


def _panel(
    x: float,
    y: float,
    bars: Sequence[tuple[str, float]],
    colours: Mapping[str, str],
    text: Callable[[float], str],
) -> list[str]:
    longest = max(seconds for _, seconds in bars)
    ours = next(iter(colours))
    drawn = []
    for number, (name, seconds) in enumerate(bars):
        top = y + number * (_BAR_HEIGHT + _BAR_GAP)
        width = max(1.5, (_PANEL_WIDTH - _VALUE_WIDTH) * seconds / longest)
        drawn.append(_rectangle(x, top, width, _BAR_HEIGHT, colours[name], 2))
        weight = "700" if name == ours else "400"
        drawn.append(_text(x + width + 5, top + 11, text(seconds), 11, font_weight=weight))
    return drawn


def _legend(colours: Mapping[str, str]) -> list[str]:
    drawn = []
    x = float(_MARGIN + _LABEL_WIDTH)
    for name, colour in colours.items():
        drawn.append(_rectangle(x, 44, 12, 12, colour, 2))
        drawn.append(_text(x + 17, 54, name))
        x += 40 + 7 * len(name)
    return drawn


def _wrapped(title: str, limit: int = 20) -> list[str]:
    lines = [""]
    for word in title.split():
        joined = f"{lines[-1]} {word}".strip()
        if len(joined) <= limit:
            lines[-1] = joined
        else:
            lines.append(word)
    return [line for line in lines if line]
