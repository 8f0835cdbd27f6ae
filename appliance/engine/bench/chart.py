"""Wall clock as an SVG chart: a panel for each row and step, a bar for each program.

Every panel has a scale of its own, since a start takes milliseconds and a million files minutes;
the seconds stand at each bar.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from bench.figures import OURS, PEERS, PLAIN, Figures
from bench.report import seconds_text

if TYPE_CHECKING:
    from collections.abc import Mapping

STEPS = ("first", "unchanged", "changed", "restore", "prune")
TITLES = {
    "first": "first backup",
    "unchanged": "unchanged",
    "changed": "1% changed",
    "restore": "restore",
    "prune": "forget, prune",
}
COLOURS = {
    OURS: "#0f766e",
    "restic": "#64748b",
    "borg": "#94a3b8",
    "rustic": "#cbd5e1",
    "bacula": "#e2e8f0",
    "floor": "#fcd34d",
}
MARGIN = 24
LABEL_WIDTH = 150
PANEL_WIDTH = 196
PANEL_GAP = 16
BAR_HEIGHT = 14
BAR_GAP = 4
VALUE_WIDTH = 46
HEAD_HEIGHT = 92
ROW_GAP = 22


def _text(x: float, y: float, content: str, size: int = 12, **attributes: str) -> str:
    extra = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}"{extra}>{escape(content)}</text>'


def _rectangle(x: float, y: float, width: float, height: float, colour: str, corner: int) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" '
        f'rx="{corner}" fill="{colour}"/>'
    )


def _bars(figures: Figures, step: str) -> list[tuple[str, float]]:
    """(name, seconds) of each bar; of several floors the highest, the nearest to the work."""
    bars = [
        (name, figures[name, step].wall_seconds)
        for name in (OURS, *PEERS, *PLAIN)
        if (name, step) in figures
    ]
    floors = [
        figure.wall_seconds
        for (name, of), figure in figures.items()
        if of == step and name.startswith("floor")
    ]
    return [*bars, ("floor", min(floors))] if floors else bars


def _panel(x: float, y: float, bars: list[tuple[str, float]]) -> list[str]:
    longest = max(seconds for _, seconds in bars)
    drawn = []
    for number, (name, seconds) in enumerate(bars):
        top = y + number * (BAR_HEIGHT + BAR_GAP)
        width = max(1.5, (PANEL_WIDTH - VALUE_WIDTH) * seconds / longest)
        drawn.append(_rectangle(x, top, width, BAR_HEIGHT, COLOURS[name], 2))
        weight = "700" if name == OURS else "400"
        drawn.append(_text(x + width + 5, top + 11, seconds_text(seconds), 11, font_weight=weight))
    return drawn


def _legend(names: set[str]) -> list[str]:
    drawn = []
    x = float(MARGIN + LABEL_WIDTH)
    for name, colour in COLOURS.items():
        if name not in names:
            continue
        drawn.append(_rectangle(x, 44, 12, 12, colour, 2))
        label = "bare floor" if name == "floor" else name
        drawn.append(_text(x + 17, 54, label))
        x += 40 + 7 * len(label)
    return drawn


def chart(figures_by_row: Mapping[str, Figures], titles: Mapping[str, str]) -> str:
    """The chart of all rows that have one of the steps; `titles` names the rows."""
    panels = {
        row: {step: bars for step in STEPS if (bars := _bars(figures, step))}
        for row, figures in figures_by_row.items()
    }
    panels = {row: steps for row, steps in panels.items() if set(steps) - {"unchanged"}}
    steps = [step for step in STEPS if any(step in row for row in panels.values())]
    drawn: list[str] = []
    names: set[str] = set()
    y = float(HEAD_HEIGHT)
    for row, bars_by_step in panels.items():
        most = max(len(bars) for bars in bars_by_step.values())
        height = most * (BAR_HEIGHT + BAR_GAP)
        for line, words in enumerate(_wrapped(titles[row])):
            drawn.append(_text(MARGIN, y + 12 + 16 * line, words, 13, font_weight="600"))
        for column, step in enumerate(steps):
            if step in bars_by_step:
                x = MARGIN + LABEL_WIDTH + column * (PANEL_WIDTH + PANEL_GAP)
                drawn += _panel(x, y, bars_by_step[step])
                names |= {name for name, _ in bars_by_step[step]}
        y += height + ROW_GAP
    for column, step in enumerate(steps):
        x = MARGIN + LABEL_WIDTH + column * (PANEL_WIDTH + PANEL_GAP)
        drawn.append(_text(x, HEAD_HEIGHT - 12, TITLES[step], 13, font_weight="600"))
    width = 2 * MARGIN + LABEL_WIDTH + len(steps) * (PANEL_WIDTH + PANEL_GAP) - PANEL_GAP
    drawn.insert(0, _text(MARGIN, 32, "Seconds, shorter is better", 18, font_weight="700"))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {y:g}" '
        f'width="{width:g}" height="{y:g}" font-family="system-ui, sans-serif" fill="#0f172a">'
    )
    ground = _rectangle(0, 0, width, y, "#ffffff", 8)
    return "\n".join([head, ground, *drawn, *_legend(names), "</svg>\n"])


def _wrapped(title: str, limit: int = 20) -> list[str]:
    lines = [""]
    for word in title.split():
        joined = f"{lines[-1]} {word}".strip()
        if len(joined) <= limit:
            lines[-1] = joined
        else:
            lines.append(word)
    return [line for line in lines if line]
