"""`strongroom audit`: who changed what on the director, and who was denied."""

from __future__ import annotations

import argparse
from itertools import islice

from strongroom.base.errors import EXIT_DONE
from strongroom.base.printable import printable
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import local_time
from strongroom.cli.options import number
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom audit
  strongroom audit --who ann --last 1000 --json
"""
_COLUMNS = ("TIME", "WHO", "AS", "FROM", "ACTION", "OBJECT", "RESULT")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters."""
    parser.set_defaults(lists=True)
    parser.add_argument("--who", metavar="NAME", help="only actions of this user")
    parser.add_argument("--last", type=number(1), default=50, metavar="N",
                        help="how many (default: 50)")  # fmt: skip
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch and show, the newest first."""
    from strongroom.cli.client.client import open_director

    with open_director(arguments) as director:
        pages = director.pages("/audit", who=arguments.who, limit=min(arguments.last, 1000))
        found = list(islice(pages, arguments.last))
    for entry in found:
        terminal.emit({"type": "audit", **entry})
    rows = [
        [local_time(entry["time"]), *(printable(entry[name]) for name in
         ("who", "role", "address", "action", "object", "result"))]
        for entry in found
    ]  # fmt: skip
    write_table(terminal, _COLUMNS, rows)
    return EXIT_DONE
