"""`strongroom browse`: look through snapshots as in a file manager, mark files, restore them."""

from __future__ import annotations

import argparse
import sys

from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.cli.client.place import add_director_options
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom browse
  strongroom browse --client web1
  strongroom browse --client web1 --snapshot 3f2a91c0

Type to jump to a name. Enter opens, Backspace goes up, Space or Insert marks, F5 restores what is
marked (else what the cursor is on), F7 finds by name, F8 and F9 show the same place in the snapshot
before and after, Escape leaves, F10 ends. For scripts use `strongroom restore --client`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the filters and the first snapshot."""
    parser.add_argument("--client", metavar="NAME", help="only snapshots of this client")
    parser.add_argument("--job", metavar="NAME", help="only snapshots of this job")
    parser.add_argument("--snapshot", metavar="ID", help="begin in this snapshot")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Show the browser; gives the exit code."""
    if terminal.as_json or not (sys.stdin.isatty() and terminal.output.isatty()):
        raise UsageError("browse needs a terminal; for scripts use `strongroom restore`")
    from strongroom.cli.client.browser.position import SnapshotPosition
    from strongroom.cli.client.browser.program import Browser
    from strongroom.cli.client.browser.snapshots import new_screens
    from strongroom.cli.client.client import open_director

    with open_director(arguments) as director:
        place = SnapshotPosition(director, arguments.client or "", arguments.job or "")
        begin = place.snapshot(arguments.snapshot) if arguments.snapshot else None
        browser = Browser(place, new_screens(begin))
        browser.run()
    if browser.failure is not None:
        raise browser.failure
    for line in browser.farewell:
        terminal.line(line)
    return EXIT_DONE
