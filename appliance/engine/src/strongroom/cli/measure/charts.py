"""Line and bar charts as SVG for a page, which gives the colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import Final, NamedTuple

WIDTH: Final = 640
HEIGHT: Final = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 20, 16, 44
_TICKS: Final = 5
_BAR_HEIGHT: Final = 22
_LETTER_WIDTH: Final = 7
_LABEL_LETTERS: Final = 64
_LEAST_BAR_ROOM: Final = 300
_VALUE_WIDTH: Final = 110
_LEGEND_ROW: Final = 20


class Series(NamedTuple):
    """A named line: (x, y) for each point, x >= 0."""

    name: str
    points: Sequence[tuple[float, float]]


def line_chart(
    title: str, x_title: str, series: Sequence[Series], y_text: Callable[[float], str]
) -> str:
    """Lines over a logarithmic x axis, with a legend. `title` is what a screen reader says.

    0 is where half of the least other value would.
    """
    xs = sorted({x for one in series for x, _ in one.points})
    nothing = min((x for x in xs if x), default=1.0) / 2
    most = _rounded_up(max((y for one in series for _, y in one.points), default=1.0))
    least = xs[0] or nothing
    span = math.log((xs[-1] or nothing) / least) or 1.0

    def place_x(x: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * math.log((x or nothing) / least) / span

    def place_y(y: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * y / most

    drawn = []
    for number in range(_TICKS + 1):
        value = most * number / _TICKS
        y = place_y(value)
        drawn.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        drawn.append(_text(_LEFT - 8, y + 4, y_text(value), "end"))
    drawn += [_text(place_x(x), HEIGHT - _BOTTOM + 18, f"{x:g}", "middle") for x in xs]
    drawn.append(_text((WIDTH + _LEFT) / 2, HEIGHT - 6, x_title, "middle"))
    for number, one in enumerate(series):
        points = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in one.points)
        drawn.append(f'<polyline class="line s{number}" points="{points}"/>')
        drawn += [
            f'<circle class="dot s{number}" cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="3.5">'
            f"<title>{escape(f'{one.name}, {x:g}: {y_text(y)}')}</title></circle>"
            for x, y in one.points
        ]
    legend, rows = _legend([one.name for one in series])
    return _figure(title, WIDTH, HEIGHT + rows * _LEGEND_ROW, drawn + legend)


def bar_chart(title: str, bars: Sequence[tuple[str, float]], text: Callable[[float], str]) -> str:
    """A bar for each (name, value)."""
    most = max((value for _, value in bars), default=0.0) or 1.0
    names = [_shortened(name) for name, _ in bars]
    left = _LETTER_WIDTH * max(map(len, names), default=0) + 12
    room = max(_LEAST_BAR_ROOM, WIDTH - left - _VALUE_WIDTH)
    drawn = []
    for number, (name, (_, value)) in enumerate(zip(names, bars, strict=True)):
        y = number * (_BAR_HEIGHT + 8)
        drawn.append(_text(left - 8, y + 16, name, "end"))
        width = max(1.5, room * value / most)
        drawn.append(
            f'<rect class="bar" x="{left}" y="{y}" width="{width:.1f}" '
            f'height="{_BAR_HEIGHT}" rx="3"/>'
        )
        drawn.append(_text(left + width + 8, y + 16, text(value), "start"))
    height = max(1, len(bars)) * (_BAR_HEIGHT + 8)
    return _figure(title, left + room + _VALUE_WIDTH, height, drawn)


def _legend(names: Sequence[str]) -> tuple[list[str], int]:
    """A swatch and a name for each line, below the chart, and how many rows they take."""
    drawn = []
    x, row = _LEFT, 0
    for number, name in enumerate(map(_shortened, names)):
        width = _LETTER_WIDTH * len(name) + 36
        if x > _LEFT and x + width > WIDTH:
            x, row = _LEFT, row + 1
        y = HEIGHT + row * _LEGEND_ROW + 12
        drawn.append(
            f'<rect class="dot s{number}" x="{x}" y="{y - 9}" width="10" height="10" rx="2"/>'
        )
        drawn.append(_text(x + 16, y, name, "start"))
        x += width
    return drawn, row + 1


def _figure(title: str, width: int, height: int, drawn: list[str]) -> str:
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
        + "".join(drawn)
        + "</svg></figure>"
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _shortened(name: str) -> str:
    return name if len(name) <= _LABEL_LETTERS else name[: _LABEL_LETTERS - 1] + "…"


def _rounded_up(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
