"""What a running agent tells of itself, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strongroom.base.printable import printable
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal

_KNOBS = ("KNOB", "VALUE", "UNIT", "FROM")


def show_status(status: Mapping[str, Any], terminal: Terminal, *, is_whole: bool) -> None:
    """Show it. is_whole: with all knobs of the agent, and of its runs."""
    shown = dict(status)
    if not is_whole:
        del shown["knobs"]
        for run in (*shown["runs"], *shown["ended"]):
            run.pop("knobs", None)
    terminal.emit(shown)
    terminal.line(f"agent {printable(status['name'])}, version {printable(status['version'])}")
    # An agent of an older version does not say it.
    if refused := status.get("configuration_refused"):
        terminal.warn(
            f"its files have changed, and it refused to read them again: {printable(refused)}"
        )
    for one in status["directors"]:
        state = "connected" if one["connected"] else "not connected"
        place = f"{one['address']}:{one['port']}" if one["dials"] else "which dials"
        terminal.line(f"Director {printable(one['name'])}, {printable(place)}: {state}")
    for run in status["runs"]:
        terminal.line(
            f"runs {printable(run['job'])}, a {run['kind']}, {run['processes']} processes"
        )
    if is_whole:
        terminal.line()
        _show_knobs(status["knobs"], terminal)
        for run in (*status["runs"], *status["ended"]):
            if run.get("knobs"):
                terminal.line()
                terminal.line(f"job {printable(run['job'])}, TLS mode {run['tls']['mode']}:")
                _show_knobs(run["knobs"], terminal)


def _show_knobs(knobs: Mapping[str, Any], terminal: Terminal) -> None:
    rows = [
        [name, printable(str(one["value"])), one.get("unit", ""), printable(one["source"])]
        for name, one in knobs.items()
    ]
    write_table(terminal, _KNOBS, rows)
