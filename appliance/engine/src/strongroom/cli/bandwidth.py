"""`strongroom bandwidth`: change what a run under way may send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.cli.director_place import add_director_options
from strongroom.cli.director_view import run_line
from strongroom.cli.terminal import size_text
from strongroom.errors import EXIT_DONE, UsageError

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom bandwidth 3f2a91c0 10m
  strongroom bandwidth 3f2a91c0 none

RATE is bytes per second as sizes are written in the configuration (`500k`, `10m`), or `none`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which run, and how much."""
    parser.add_argument("run_id", metavar="RUN", help="its id or the beginning of it")
    parser.add_argument("rate", metavar="RATE")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Change it."""
    from strongroom.cli.director_client import named, open_director

    rate = _bytes_per_second(arguments.rate)
    with open_director(arguments) as director:
        found = director.post(
            f"/runs/{named(arguments.run_id)}/bandwidth", {"maximum_bytes_per_second": rate}
        )
    terminal.emit({"type": "run", **found})
    limit = f"at most {size_text(rate)}/s" if rate else "without a limit"
    terminal.line(f"{run_line(found)}, from now on {limit}")
    return EXIT_DONE


def _bytes_per_second(text: str) -> int:
    if text.lower() == "none":
        return 0
    from strongroom.config.measures import size_bytes

    rate = size_bytes(text)
    if not rate:
        raise UsageError(f"{text!r} is no rate of a byte per second or more; write 500k, 10m, none")
    return rate
