"""`strongroom run`: start a job now."""

from __future__ import annotations

import argparse

from strongroom.base.errors import EXIT_DONE, ConflictError
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import run_exit_code, run_line, short_id, tell_run
from strongroom.cli.options import number
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom run nightly-web1
  strongroom run nightly-web1 --level full --watch
  strongroom run nightly --client web2 --pool archive

The run is queued; it starts when the limits of director, client, storage and job allow.
With --watch the exit code is that of the job: 0 done, 3 some files could not be read, 21 a verify
found differences. It is 61 if the job does not start at all: duplicates of it are not allowed.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job and the overrides."""
    parser.add_argument("job", metavar="JOB")
    other = parser.add_argument_group("instead of the job's")
    other.add_argument("--level", choices=("full", "differential", "incremental"), default="")
    for name in ("client", "fileset", "storage", "pool"):
        other.add_argument(f"--{name}", metavar="NAME", default="")
    other.add_argument("--priority", type=number(), default=0, metavar="N",
                       help="lower starts first")  # fmt: skip
    parser.add_argument("-w", "--watch", action="store_true", help="follow it until it has ended")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Queue it, and with --watch wait for its end."""
    from strongroom.cli.client.client import open_director
    from strongroom.cli.client.run_watch import watch_run

    fields = ("job", "level", "client", "fileset", "storage", "pool", "priority")
    with open_director(arguments) as director:
        found = director.post("/runs", {name: getattr(arguments, name) for name in fields})
        if found["state"] == "cancelled":
            terminal.emit({"type": "run", **found})
            raise ConflictError(f"run {short_id(found['id'])} is not started: {found['reason']}")
        if not arguments.watch:
            tell_run(found, terminal)
            return EXIT_DONE
        terminal.message_line(run_line(found))
        found = watch_run(director, found["id"], terminal)
    tell_run(found, terminal)
    return run_exit_code(found)
