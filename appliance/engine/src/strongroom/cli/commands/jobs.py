"""`strongroom jobs`: the jobs of the director, their next run, and the result of their last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strongroom import clock
from strongroom.cli.console.place import add_director_options
from strongroom.cli.console.view import local_time
from strongroom.cli.table import Column, write_table
from strongroom.errors import EXIT_DONE
from strongroom.printable import printable

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom jobs
  strongroom jobs --client web1
  strongroom jobs --json

`strongroom runs` lists what each of them did.
"""
_COLUMNS = (
    Column("JOB"),
    Column("KIND"),
    Column("LEVEL"),
    Column("CLIENT"),
    Column("FILESET"),
    Column("SCHEDULE"),
    Column("POOL"),
    Column("NEXT"),
    Column("LAST"),
    Column("ENDED"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters."""
    parser.add_argument("--client", metavar="NAME", help="only those of this client")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch and show."""
    from strongroom.cli.console.client import open_director

    with open_director(arguments) as director:
        found = [
            job for job in director.pages("/jobs") if arguments.client in (None, job["client"])
        ]
    for job in found:
        terminal.emit({"type": "job", **job})
    write_table(terminal, _COLUMNS, [_row(job) for job in found])
    if not found:
        terminal.line("no jobs that you may see")
    return EXIT_DONE


def _next_time(job: dict[str, Any]) -> str:
    return f"{local_time(job['next_due'])} {clock.local_zone_text()}" if job["next_due"] else ""


def _row(job: dict[str, Any]) -> list[str]:
    last = job["last_run"]
    return [
        printable(job["name"]),
        job["kind"],
        job["level"],
        printable(job["client"]),
        printable(job["fileset"]),
        printable(job["schedule"]),
        printable(job["pool"]),
        _next_time(job) if job["enabled"] else "disabled",
        last["state"] if last else "never",
        local_time(last["ended"]) if last else "",
    ]
