"""`strongroom client`: remove a client from the director."""

from __future__ import annotations

import argparse

from strongroom.base.errors import EXIT_DONE
from strongroom.base.printable import printable
from strongroom.cli.client.place import add_director_options
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom client remove web1

Its certificates are revoked, its runs are cancelled, and its file in the director's configuration
is removed. Its snapshots stay as long as they would otherwise. A client whose resources are among
those of others is removed from the configuration by hand first.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    removing = actions.add_parser("remove", help="revoke, stop and unconfigure a client")
    removing.add_argument("name", metavar="CLIENT", help="the client's name")
    add_director_options(removing)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Remove the client."""
    from strongroom.cli.client.client import named, open_director

    with open_director(arguments) as director:
        removed = director.delete(f"/clients/{named(arguments.name)}")
    terminal.emit({"type": "removed_client", **removed})
    for done in removed["done"]:
        terminal.line(done)
    terminal.line(f"{printable(removed['name'])} is no longer a client; its snapshots stay")
    return EXIT_DONE
