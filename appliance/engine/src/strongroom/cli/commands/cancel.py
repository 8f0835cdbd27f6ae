"""`strongroom cancel`: end runs of the director."""

from __future__ import annotations

import argparse

from strongroom.base.errors import EXIT_DONE
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import tell_run
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom cancel 3f2a91c0
  strongroom cancel 3f2a91c0 77aa01d2

Data that a cancelled backup has stored is kept, and the next one does not send it again.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs."""
    parser.add_argument("runs", metavar="RUN", nargs="+", help="its id or the beginning of it")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """End them; the first that cannot be ended is an error."""
    from strongroom.cli.client.client import named, open_director

    with open_director(arguments) as director:
        for run_id in arguments.runs:
            found = director.post(f"/runs/{named(run_id)}/cancel")
            tell_run(found, terminal)
    return EXIT_DONE
