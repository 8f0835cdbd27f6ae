"""`strongroom status`: the state of the director."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import EXIT_DONE
from strongroom.base.printable import printable
from strongroom.base.quantities import duration_text
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import (
    ApiObject,
    local_time,
    moment_ns,
    short_id,
    unreported_endings,
    write_problems,
    write_runs,
)
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal

_COLUMNS: Final = ("ENDS", "WHAT", "NAME")
_COPY_COLUMNS: Final = ("POOL", "COPIED TO", ">WAITING", "BEHIND", "NEWEST COPY")
# All of them with --verbose: a thousand agents have a thousand certificates.
_SHOWN: Final = 8


def warn_of_endings(terminal: Terminal, expiries: Sequence[ApiObject]) -> None:
    """A line for each that ends soon, or has ended, with what to do."""
    for one in expiries:
        if one["soon"]:
            day, what, name = _cells(one)
            terminal.line(f"warning: {what} {name} ends on {day}: {printable(one['remedy'])}")


def write_expiries(terminal: Terminal, expiries: Sequence[ApiObject]) -> None:
    """A table of what ends first, and how many more there are."""
    shown = expiries if terminal.verbose else expiries[:_SHOWN]
    terminal.line()
    title = "certificates and tokens end"
    terminal.line(f"{title}:" if shown else f"{title}: none known")
    rows = [_cells(one) for one in shown]
    write_table(terminal, _COLUMNS, rows)
    if more := len(expiries) - len(shown):
        terminal.line(f"and {more} later ones (--verbose)")


def write_copies(terminal: Terminal, copies: Sequence[ApiObject], now: str) -> None:
    """A table of the pools with Copy To; nothing without one. An older director has none."""
    if not copies:
        return
    terminal.line()
    terminal.line("second copies:")
    rows = []
    for one in copies:
        behind = "-"
        if one["behind_since"]:
            behind = duration_text((moment_ns(now) - moment_ns(one["behind_since"])) / SECOND_NS)
        newest = local_time(one["copied"]) if one["copied"] else "never"
        names = [printable(one["pool"]), printable(one["storage"])]
        rows.append([*names, str(one["waiting"]), behind, newest])
    write_table(terminal, _COPY_COLUMNS, rows)


def _cells(one: ApiObject) -> list[str]:
    name = f"{printable(one['name'])} {printable(one['id'])}".rstrip()
    return [printable(one["ends"][:10]), printable(one["kind"]), name]


EPILOG = """\
examples:
  strongroom status
  strongroom status --director https://backup.example --token-file ~/.config/strongroom/token
  strongroom status --check                   for Nagios and the like: one line, exit code 0 to 3
  strongroom status --json

Shows problems first (failed, late, expiring, full), then running and waiting runs, the last
results, jobs due within a day, warnings, how far second copies are behind, and when certificates
and tokens end.
"""
_MOST_DUE = 100
_DUE_COLUMNS = ("DUE", "JOB", "CLIENT", "LEVEL", "POOL", ">PRIORITY")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the check and the director."""
    parser.add_argument(
        "--check",
        action="store_true",
        help="one line of text; exit code 0 when everything is OK, 1 for warnings, 2 for errors, "
        "3 when the director does not answer or the check fails",
    )
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch and show; with --check only judge."""
    if arguments.check:
        from strongroom.cli.client.status_check import check_status

        return check_status(arguments, terminal)
    from strongroom.cli.client.client import open_director

    with open_director(arguments) as director:
        # As JSON it is whole.
        status = director.get("/status", limit=None if terminal.as_json else _MOST_DUE)
    terminal.emit({"type": "status", **status})
    up_seconds = (moment_ns(status["now"]) - moment_ns(status["started"])) / SECOND_NS
    terminal.line(
        f"director {printable(status['name'])}, version {printable(status['version'])}, up "
        f"{duration_text(up_seconds)}, time zone {printable(status['time_zone'])}; "
        f"{status['clients_connected']} of {status['clients']} clients connected"
    )
    write_problems(terminal, status["problems"])
    for warning in status["warnings"]:
        terminal.line(f"warning: {printable(warning)}")
    warn_of_endings(terminal, unreported_endings(status))
    for title, runs in (("running and waiting", status["active"]), ("ended", status["recent"])):
        terminal.line()
        terminal.line(f"{title}:" if runs else f"{title}: nothing")
        write_runs(terminal, runs, status["now"])
    terminal.line()
    zone = clock.local_zone_text()
    terminal.line(f"due within a day ({zone}):" if status["due"] else "due within a day: none")
    rows = [
        [local_time(due["due"]), printable(due["job"]), printable(due["client"]),
         printable(due["level"]),
         printable(due["pool"]), str(due["priority"])]
        for due in status["due"]
    ]  # fmt: skip
    write_table(terminal, _DUE_COLUMNS, rows)
    if len(rows) >= _MOST_DUE:
        terminal.line(
            f"only the first {_MOST_DUE} of these; `strongroom jobs` has the next of each"
        )
    write_copies(terminal, status.get("copies", ()), status["now"])
    write_expiries(terminal, status["expiries"])
    for active in status["active"]:
        if active["message"]:
            terminal.detail(f"{short_id(active['id'])}: {printable(active['message'])}")
    return EXIT_DONE
