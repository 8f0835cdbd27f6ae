"""`strongroom accept`: accept a backup of far less than usual."""

from __future__ import annotations

import argparse

from strongroom.base.errors import EXIT_DONE
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import tell_run
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom accept 3f2a91c0

A backup with a tenth of the usual files or bytes, of a named path that is empty now, or without a
disk that was mounted is `incomplete`, and its snapshot displaces no other. If that is intended
(the data was moved), accept the run: it counts as successful, also those of its job after it, and
the next ones are compared with it.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs."""
    parser.add_argument("runs", metavar="RUN", nargs="+", help="its id or the beginning of it")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Accept them; the first that holds as much as usual is an error."""
    from strongroom.cli.client.client import named, open_director

    with open_director(arguments) as director:
        for run_id in arguments.runs:
            found = director.post(f"/runs/{named(run_id)}/accept")
            tell_run(found, terminal)
    return EXIT_DONE
