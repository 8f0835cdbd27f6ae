"""Tables as text: aligned columns under headings, no lines drawn, the last column not padded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strongroom.cli.terminal import Terminal

_GAP = "  "


class Column(NamedTuple):
    """A heading, and whether its column is aligned to the right (numbers)."""

    heading: str
    to_the_right: bool = False


def write_table(
    terminal: Terminal, columns: Sequence[Column], rows: Iterable[Sequence[str]]
) -> None:
    """Write `rows` under the headings of `columns`; empty columns are left out."""
    kept_rows = list(rows)
    filled = [number for number in range(len(columns)) if any(row[number] for row in kept_rows)]
    if not filled:
        return
    lines = [[columns[number].heading for number in filled]]
    lines += [[row[number] for number in filled] for row in kept_rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    right = [columns[number].to_the_right for number in filled]
    for line in lines:
        cells = [
            cell.rjust(width) if to_the_right else cell.ljust(width)
            for cell, width, to_the_right in zip(line, widths, right, strict=True)
        ]
        terminal.line(_GAP.join(cells).rstrip())
