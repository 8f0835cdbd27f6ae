"""Tables as text: aligned columns under headings, no lines drawn, the last column not padded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from strongroom.cli.terminal import Terminal

_GAP = "  "


def write_table(terminal: Terminal, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write `rows` under `headings`; empty columns are left out.

    A column whose heading begins with `>` is aligned to the right (numbers).
    """
    kept_rows = list(rows)
    filled = [number for number in range(len(headings)) if any(row[number] for row in kept_rows)]
    if not filled:
        return
    right = [headings[number].startswith(">") for number in filled]
    lines = [[headings[number].removeprefix(">") for number in filled]]
    lines += [[row[number] for number in filled] for row in kept_rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.rjust(width) if to_the_right else cell.ljust(width)
            for cell, width, to_the_right in zip(line, widths, right, strict=True)
        ]
        terminal.line(_GAP.join(cells).rstrip())
