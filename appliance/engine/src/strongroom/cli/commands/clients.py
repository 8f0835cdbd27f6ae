"""`strongroom clients`: the clients of the director and the state of their agents."""

from __future__ import annotations

import argparse

from strongroom.base.errors import EXIT_DONE
from strongroom.base.printable import printable
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import ApiObject, local_time, show_listing
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom clients
  strongroom clients web1 --verbose
  strongroom clients --json

A client is connected while its agent holds a connection to the director.
"""
_COLUMNS = (
    "CLIENT",
    "STATE",
    "ADDRESS",
    "VERSION",
    "TLS",
    ">RUNNING",
    ">QUEUED",
    "LAST SEEN",
    "LAST BACKUP",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the clients."""
    parser.set_defaults(lists=True)
    parser.add_argument("names", metavar="CLIENT", nargs="*", help="only these")
    add_director_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Fetch and show."""
    from strongroom.cli.client.client import PAGE_SIZE, named, open_director

    with open_director(arguments) as director:
        if arguments.names:
            found = [director.get(f"/clients/{named(name)}") for name in arguments.names]
        else:
            found = list(director.pages("/clients", limit=PAGE_SIZE))
    show_listing(terminal, "client", found, _COLUMNS, _row)
    for client in found:
        _tell_more(client, terminal)
    return EXIT_DONE


def _row(client: ApiObject) -> list[str]:
    state = "connected" if client["connected"] else "offline"
    return [
        printable(client["name"]),
        state if client["enabled"] else "disabled",
        printable(client["address"]),
        printable(client["version"]),
        client["tls_mode"],
        str(client["running"]),
        str(client["queued"]),
        local_time(client["last_seen"]),
        local_time(client["last_backup"]),
    ]


def _tell_more(client: ApiObject, terminal: Terminal) -> None:
    name = printable(client["name"])
    if abs(client["clock_ahead_seconds"]) > 60:
        terminal.warn(f"the clock of {name} is {client['clock_ahead_seconds']:.0f} s ahead of ours")
    if client["enrolled"]:
        terminal.detail(
            f"{name}: enrolled {local_time(client['enrolled'])}, certificate "
            f"{client['certificate_serial']}, {printable(client['platform'])}, "
            f"{client.get('workers') or 'unknown'} workers, "
            f"{', '.join(client['features']) or 'no features'}"
        )
