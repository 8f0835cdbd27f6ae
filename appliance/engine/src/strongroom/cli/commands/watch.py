"""`strongroom watch`: follow a run of the director until it has ended."""

from __future__ import annotations

import argparse

from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import run_exit_code, tell_run
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom watch 3f2a91c0
  strongroom watch 3f2a91c0 --json

Shows the log as it is written, and the counts as a live line. The exit code is that of the job.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run."""
    parser.add_argument("run_id", metavar="RUN", help="its id or the beginning of it")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Follow it."""
    from strongroom.cli.client.client import open_director
    from strongroom.cli.client.run_watch import watch_run

    with open_director(arguments) as director:
        found = watch_run(director, arguments.run_id, terminal)
    tell_run(found, terminal)
    return run_exit_code(found)
