"""What ends when, as `status` shows it: certificates, tokens, the authority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strongroom.cli.table import Column, write_table
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.cli.terminal import Terminal

_COLUMNS: Final = (Column("ENDS"), Column("WHAT"), Column("NAME"))
# All of them with --verbose: a thousand agents have a thousand certificates.
_SHOWN: Final = 8


def warn_of_endings(terminal: Terminal, expiries: Sequence[dict[str, Any]]) -> None:
    """A line for each that ends soon, or has ended, with what to do."""
    for one in expiries:
        if one["soon"]:
            day, what, name = _cells(one)
            terminal.line(f"warning: {what} {name} ends on {day}: {printable(one['remedy'])}")


def write_expiries(terminal: Terminal, expiries: Sequence[dict[str, Any]]) -> None:
    """A table of what ends first, and how many more there are."""
    shown = expiries if terminal.verbose else expiries[:_SHOWN]
    terminal.line()
    title = "certificates and tokens end"
    terminal.line(f"{title}:" if shown else f"{title}: none known")
    rows = [_cells(one) for one in shown]
    write_table(terminal, _COLUMNS, rows)
    if more := len(expiries) - len(shown):
        terminal.line(f"and {more} later ones (--verbose)")


def _cells(one: dict[str, Any]) -> list[str]:
    name = f"{printable(one['name'])} {printable(one['id'])}".rstrip()
    return [printable(one["ends"][:10]), printable(one["kind"]), name]
