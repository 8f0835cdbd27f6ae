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
            what = f"{one['kind']} {printable(one['name'])} {one['id']}".rstrip()
            day = one["ends"][:10]
            terminal.line(f"warning: {what} ends on {day}: {printable(one['remedy'])}")


def write_expiries(terminal: Terminal, expiries: Sequence[dict[str, Any]]) -> None:
    """A table of what ends first, and how many more there are."""
    shown = expiries if terminal.verbose else expiries[:_SHOWN]
    terminal.line()
    title = "certificates and tokens end"
    terminal.line(f"{title}:" if shown else f"{title}: none known")
    rows = [
        [one["ends"][:10], one["kind"], f"{printable(one['name'])} {one['id']}".rstrip()]
        for one in shown
    ]
    write_table(terminal, _COLUMNS, rows)
    if more := len(expiries) - len(shown):
        terminal.line(f"and {more} later ones (--verbose)")
