"""`strongroom estimate`: let the agent count what a job would back up."""

from __future__ import annotations

import argparse

from strongroom.base.quantities import counted, size_text
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import run_exit_code, run_line
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom estimate nightly-web1
  strongroom estimate nightly-web1 --listing

Only metadata is read, nothing is stored.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job."""
    parser.add_argument("job", metavar="JOB")
    parser.add_argument("--listing", action="store_true", help="list every file")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Count."""
    from strongroom.cli.client.client import open_director
    from strongroom.cli.client.run_watch import watch_run

    with open_director(arguments) as director:
        body = {"job": arguments.job, "listing": arguments.listing}
        queued = director.post("/estimates", body)
        found = watch_run(director, queued["id"], terminal, tells_log=arguments.listing)
    terminal.emit({"type": "run", **found})
    if found["state"] in ("done", "incomplete"):
        terminal.line(f"{counted(found['files'], 'file')}, {size_text(found['bytes'])}")
    else:
        terminal.line(run_line(found))
    return run_exit_code(found)
