"""`strongroom bandwidth`: change the bandwidth limit of a run."""

from __future__ import annotations

import argparse

from strongroom.base.errors import EXIT_DONE
from strongroom.base.quantities import size_text
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import run_line
from strongroom.cli.options import rate
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom bandwidth 3f2a91c0 20mb/s
  strongroom bandwidth 3f2a91c0 none

The limit holds until the run ends, across restarts of director and agent. A limit in the agent's
own configuration holds as well.
"""
_RATE_HELP = (
    "bytes per second as in the configuration: 20mb/s or 500kb/s count in 1000, 20m/s or 500k/s in "
    "1024, `/s` may be left out, a bare number is bytes, 1m 512k add up; none or 0: no limit"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the run and the limit."""
    parser.add_argument("run_id", metavar="RUN", help="its id or the beginning of it")
    parser.add_argument("rate", metavar="RATE", type=rate, help=_RATE_HELP)
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Change it."""
    from strongroom.cli.client.client import named, open_director

    most = arguments.rate
    with open_director(arguments) as director:
        found = director.post(
            f"/runs/{named(arguments.run_id)}/bandwidth", {"maximum_bytes_per_second": most}
        )
    terminal.emit({"type": "run", **found})
    limit = f"at most {size_text(most)}/s" if most else "without a limit"
    terminal.line(f"{run_line(found)}, from now on {limit}")
    return EXIT_DONE
