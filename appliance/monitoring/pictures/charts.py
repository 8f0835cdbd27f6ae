"""Curves and heat maps as SVG."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING

from pictures.units import text_of

if TYPE_CHECKING:
    from pictures.prometheus import Series

COLOURS = ("#3274d9", "#37872d", "#e0752d", "#8f3bb8", "#c4162a", "#1f9e9e", "#b8860b", "#5a6b7b", "#e35ea6", "#7a5230")
LEFT, BOTTOM, TOP = 76, 18, 6


def curves(series: list[Series], unit: str, width: int, height: int, *, stacked: bool, bars: bool) -> str:
    """Lines, areas or bars over time."""
    times = sorted({at for one in series for at, _ in one.points})
    begin, end = times[0], max(times[-1], times[0] + 1)
    base: dict[float, float] = {}
    drawn: list[list[tuple[float, float, float]]] = []
    for one in series:
        line = []
        for at, value in one.points:
            below = base.get(at, 0.0) if stacked else 0.0
            line.append((at, below, below + value))
            if stacked:
                base[at] = below + value
        drawn.append(line)
    top = max((upper for line in drawn for _, _, upper in line), default=1.0) * 1.05 or 1.0
    frame = Frame(begin, end, top, unit, width, height)
    parts = [frame.axes()]
    for number, line in enumerate(drawn):
        colour = COLOURS[number % len(COLOURS)]
        if bars:
            thick = max(1.0, (width - LEFT) / max(1, len(times)) * 0.7)
            parts += [
                f'<rect x="{frame.x(at) - thick / 2:.1f}" y="{frame.y(upper):.1f}" width="{thick:.1f}" '
                f'height="{frame.y(lower) - frame.y(upper):.1f}" fill="{colour}"/>'
                for at, lower, upper in line
            ]
            continue
        there = " ".join(f"{frame.x(at):.1f},{frame.y(upper):.1f}" for at, _, upper in line)
        back = " ".join(f"{frame.x(at):.1f},{frame.y(lower):.1f}" for at, lower, _ in reversed(line))
        parts.append(f'<polygon points="{there} {back}" fill="{colour}" opacity="{0.35 if stacked else 0.08}"/>')
        parts.append(f'<polyline points="{there}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
    return frame.picture("".join(parts))


def heat(series: list[Series], unit: str, width: int, height: int) -> str:
    """How many series have which value, over time."""
    points = [point for one in series for point in one.points]
    begin, end = min(at for at, _ in points), max(at for at, _ in points)
    top = max(value for _, value in points) * 1.05 or 1.0
    frame = Frame(begin, max(end, begin + 1), top, unit, width, height)
    across, up = 60, 12
    counts: dict[tuple[int, int], set[int]] = {}
    for number, one in enumerate(series):
        for at, value in one.points:
            x = min(across - 1, int((at - begin) / max(1.0, end - begin) * across))
            counts.setdefault((x, min(up - 1, int(max(0.0, value) / top * up))), set()).add(number)
    most = max(len(found) for found in counts.values())
    wide, high = (width - LEFT) / across, (height - TOP - BOTTOM) / up
    cells = [
        f'<rect x="{LEFT + x * wide:.1f}" y="{height - BOTTOM - (y + 1) * high:.1f}" width="{wide:.1f}" '
        f'height="{high:.1f}" fill="#1f60c4" opacity="{0.25 + 0.75 * len(found) / most:.2f}"/>'
        for (x, y), found in counts.items()
    ]
    return frame.picture("".join(cells) + frame.axes())


class Frame:
    """The place of a picture: from (time, value) to where that is."""

    def __init__(self, begin: float, end: float, top: float, unit: str, width: int, height: int) -> None:
        self._begin, self._end, self._top, self._unit = begin, end, top, unit
        self._width, self._height = width, height

    def x(self, at: float) -> float:
        """From the left."""
        return LEFT + (at - self._begin) / (self._end - self._begin) * (self._width - LEFT - 4)

    def y(self, value: float) -> float:
        """From above."""
        return self._height - BOTTOM - value / self._top * (self._height - BOTTOM - TOP)

    def axes(self) -> str:
        """Lines and texts."""
        parts = []
        for number in range(5):
            value = self._top * number / 4
            y = self.y(value)
            parts.append(f'<line x1="{LEFT}" x2="{self._width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dcdfe3"/>')
            text = escape(text_of(value, self._unit))
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        for number in range(1, 5):
            at = self._begin + (self._end - self._begin) * number / 5
            text = time.strftime("%H:%M:%S", time.gmtime(at))
            parts.append(f'<text x="{self.x(at):.1f}" y="{self._height - 4}" text-anchor="middle">{text}</text>')
        return "".join(parts)

    def picture(self, inside: str) -> str:
        """The whole."""
        return f'<svg width="{self._width}" height="{self._height}">{inside}</svg>'
