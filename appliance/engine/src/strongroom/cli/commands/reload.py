"""`strongroom reload`: make the director read its configuration again."""

from __future__ import annotations

import argparse

from strongroom.base.errors import EXIT_DONE
from strongroom.cli.client.place import add_director_options
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom reload

Active runs are not affected. If the new configuration has errors, the present one stays in force,
and the exit code is 40. What has changed but is in force only after a restart of the director is
named, here and in `strongroom status` until then: addresses, folders, keys, the catalog.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the director."""
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Reload, and print warnings."""
    from strongroom.cli.client.client import open_director

    with open_director(arguments) as director:
        report = director.post("/reload")
    terminal.emit({"type": "reload", **report})
    for warning in report["warnings"]:
        terminal.warn(warning)
    for directive in report["restart_needed"]:
        terminal.warn(f"{directive}: changed, but in force only after a restart of the director")
    rest = ", except what needs a restart" if report["restart_needed"] else ""
    terminal.line(f"the new configuration is in force{rest}")
    return EXIT_DONE
