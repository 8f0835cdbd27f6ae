"""`strongroom status`: the state of the director."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom import clock
from strongroom.cli.console.expiries import warn_of_endings, write_expiries
from strongroom.cli.console.place import add_director_options
from strongroom.cli.console.problems import untold_endings, write_problems
from strongroom.cli.console.view import local_time, moment_ns, short_id, write_runs
from strongroom.cli.quantities import duration_text
from strongroom.cli.table import Column, write_table
from strongroom.clock import SECOND_NS
from strongroom.errors import EXIT_DONE
from strongroom.printable import printable

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom status
  strongroom status --director https://backup.example --token-file ~/.config/strongroom/token
  strongroom status --check                   for Nagios and the like: one line, exit code 0 to 3
  strongroom status --json

Shows what is wrong first (failed, late, expiring, full), then running and waiting runs, the last
results, jobs due within a day, warnings, and when certificates and tokens end.
"""
_DUE_COLUMNS = (
    Column("DUE"),
    Column("JOB"),
    Column("CLIENT"),
    Column("LEVEL"),
    Column("POOL"),
    Column("PRIORITY", to_the_right=True),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the check and the director."""
    parser.add_argument(
        "--check",
        action="store_true",
        help="one line of text; exit code 0 when nothing is wrong, 1 for warnings, 2 for errors, "
        "3 when the director gives no answer or something else prevents the check",
    )
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch and show; with --check only judge."""
    if arguments.check:
        from strongroom.cli.console.status_check import check_status

        return check_status(arguments, terminal)
    from strongroom.cli.console.client import open_director

    with open_director(arguments) as director:
        status = director.get("/status")
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
    warn_of_endings(terminal, untold_endings(status))
    for title, runs in (("running and waiting", status["active"]), ("ended", status["recent"])):
        terminal.line()
        terminal.line(f"{title}:" if runs else f"{title}: nothing")
        write_runs(terminal, runs, status["now"])
    terminal.line()
    zone = clock.local_zone_text()
    terminal.line(f"due within a day ({zone}):" if status["due"] else "due within a day: nothing")
    rows = [
        [local_time(due["due"]), printable(due["job"]), printable(due["client"]),
         printable(due["level"]),
         printable(due["pool"]), str(due["priority"])]
        for due in status["due"]
    ]  # fmt: skip
    write_table(terminal, _DUE_COLUMNS, rows)
    write_expiries(terminal, status["expiries"])
    for active in status["active"]:
        if active["message"]:
            terminal.detail(f"{short_id(active['id'])}: {printable(active['message'])}")
    return EXIT_DONE
