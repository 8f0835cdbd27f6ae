"""`strongroom log`: the log of a run of the director."""

from __future__ import annotations

import argparse

from strongroom.base.errors import EXIT_DONE
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import run_line
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom log 3f2a91c0
  strongroom log 3f2a91c0 --json

`strongroom watch` shows the log of a run under way as it is written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run."""
    parser.add_argument("run_id", metavar="RUN", help="its id or the beginning of it")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show it."""
    from strongroom.cli.client.client import named, open_director
    from strongroom.cli.client.run_watch import tell_line

    with open_director(arguments) as director:
        found = director.get(f"/runs/{named(arguments.run_id)}")
        for line in director.pages(f"/runs/{found['id']}/log"):
            tell_line(line, terminal)
    terminal.message_line(run_line(found))
    return EXIT_DONE
