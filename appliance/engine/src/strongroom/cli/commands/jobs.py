"""`strongroom jobs`: the jobs of the director, their next run, and the result of their last."""

from __future__ import annotations

import argparse

from strongroom.base import clock
from strongroom.base.errors import EXIT_DONE
from strongroom.base.printable import printable
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import ApiObject, local_time, show_listing
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom jobs
  strongroom jobs --client web1
  strongroom jobs --json

`strongroom runs` lists what each of them did.
"""
_COLUMNS = (
    "JOB",
    "KIND",
    "LEVEL",
    "CLIENT",
    "FILESET",
    "SCHEDULE",
    "POOL",
    "NEXT",
    "LAST",
    "ENDED",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters."""
    parser.set_defaults(lists=True)
    parser.add_argument("--client", metavar="NAME", help="only those of this client")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch and show."""
    from strongroom.cli.client.client import PAGE_SIZE, open_director

    with open_director(arguments) as director:
        found = list(director.pages("/jobs", client=arguments.client, limit=PAGE_SIZE))
    show_listing(terminal, "job", found, _COLUMNS, _row)
    return EXIT_DONE


def _next_time(job: ApiObject) -> str:
    return f"{local_time(job['next_due'])} {clock.local_zone_text()}" if job["next_due"] else ""


def _row(job: ApiObject) -> list[str]:
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
        last["state"] if last else "no run yet",
        local_time(last["ended"]) if last else "",
    ]
