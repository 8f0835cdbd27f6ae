"""`strongroom runs`: runs of jobs, the newest first."""

from __future__ import annotations

import argparse
from itertools import islice

from strongroom.base import clock
from strongroom.base.errors import EXIT_DONE
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import write_runs
from strongroom.cli.options import REPEATED, number
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom runs
  strongroom runs --client web1 --state failed --state incomplete
  strongroom runs --job nightly --last 500 --json
"""
_STATES = ("queued", "waiting", "running", "done", "incomplete", "failed", "cancelled")
_KINDS = ("backup", "restore", "verify", "estimate", "copy", "admin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters."""
    parser.set_defaults(lists=True)
    parser.add_argument("--job", metavar="NAME", help="only those of this job")
    parser.add_argument("--client", metavar="NAME", help="only those of this client")
    parser.add_argument("--kind", choices=_KINDS, help="only those of this kind")
    parser.add_argument(
        "--state", **REPEATED, choices=_STATES, metavar="STATE",
        help=f"only those in this state (several: any of them): {', '.join(_STATES)}",
    )  # fmt: skip
    parser.add_argument("--last", type=number(1), default=50, metavar="N",
                        help="how many (default: 50)")  # fmt: skip
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch and show."""
    from strongroom.cli.client.client import open_director

    with open_director(arguments) as director:
        pages = director.pages(
            "/runs",
            job=arguments.job,
            client=arguments.client,
            kind=arguments.kind,
            state=arguments.state,
            limit=min(arguments.last, 1000),
        )
        found = list(islice(pages, arguments.last))
    for one in found:
        terminal.emit({"type": "run", **one})
    write_runs(terminal, found, clock.utc_text(clock.now_ns()))
    if not found:
        terminal.line("no runs that you may see")
    return EXIT_DONE
