"""`strongroom accept`: say that a backup of far less than usual is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.cli.console.place import add_director_options
from strongroom.cli.console.view import run_line
from strongroom.errors import EXIT_DONE

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom accept 3f2a91c0

A backup with a tenth of the usual files or bytes, of a named path that is empty now, or without a
disk that was mounted is `incomplete`, and its snapshot displaces no other. Where that is right (the
data was moved away), accept the run: it counts as a good one, also those of its job after it, and
the next ones are compared with it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs."""
    parser.add_argument("runs", metavar="RUN", nargs="+", help="its id or the beginning of it")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Accept them; the first that holds as much as usual is an error."""
    from strongroom.cli.console.client import named, open_director

    with open_director(arguments) as director:
        for run_id in arguments.runs:
            found = director.post(f"/runs/{named(run_id)}/accept")
            terminal.emit({"type": "run", **found})
            terminal.line(run_line(found))
    return EXIT_DONE
