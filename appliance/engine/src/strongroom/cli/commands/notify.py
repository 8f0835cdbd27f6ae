"""`strongroom notify`: test the director's notices, list what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.cli.console.place import add_director_options
from strongroom.cli.console.view import local_time
from strongroom.cli.table import Column, write_table
from strongroom.errors import EXIT_DONE, NoticeError
from strongroom.printable import printable

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.console.client import DirectorClient
    from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom notify test
  strongroom notify test Standard/mail
  strongroom notify list
  strongroom notify retry

DESTINATION is the name of a Notify block of the director's configuration, with or without the name
of its Messages resource. `test` sends at once and waits for the answer of the server; the exit code
is 68 if a destination does not take the test. `retry` sends again what had been given up.
"""
_COLUMNS = tuple(Column(name) for name in ("SINCE", "SEVERITY", "EVENT", "WHAT", "WHAT TO DO"))
_DEAD_COLUMNS = tuple(Column(name) for name in ("GIVEN UP", "DESTINATION", "SUBJECT", "ERROR"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add test, list and retry."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    test = actions.add_parser("test", help="send a test and wait for the answer")
    test.add_argument(
        "destination",
        metavar="DESTINATION",
        nargs="?",
        default="",
        help="only the Notify block of this name (else all of them)",
    )
    for one in (
        test,
        actions.add_parser("list", help="list what is wrong, and what was not delivered"),
        actions.add_parser("retry", help="send again what could not be delivered"),
    ):
        add_director_options(one)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Do the action."""
    from strongroom.cli.console.client import open_director

    with open_director(arguments) as director:
        if arguments.action == "test":
            _test(director, arguments.destination, terminal)
        elif arguments.action == "retry":
            count = director.post("/notices/retry")["messages"]
            terminal.emit({"type": "retried", "messages": count})
            terminal.line(f"{count} messages are sent again")
        else:
            _list(director, terminal)
    return EXIT_DONE


def _test(director: DirectorClient, destination: str, terminal: Terminal) -> None:
    found = director.post("/notices/test", {"destination": destination})["items"]
    failures = 0
    for one in found:
        terminal.emit({"type": "notice-test", **one})
        name, error = printable(one["destination"]), printable(one["error"])
        terminal.line(f"{name}: {error or 'sent'}")
        failures += bool(error)
    if failures:
        raise NoticeError(f"{failures} of {len(found)} tests could not be sent")


def _list(director: DirectorClient, terminal: Terminal) -> None:
    found = director.get("/notices")
    for incident in found["incidents"]:
        terminal.emit({"type": "incident", **incident})
    for letter in found["dead"]:
        terminal.emit({"type": "dead-letter", **letter})
    rows = [
        [local_time(one["since"]), one["severity"], one["event"], printable(one["title"]),
         printable(one["remedy"])]
        for one in found["incidents"]
    ]  # fmt: skip
    terminal.line("wrong now:" if rows else "nothing is wrong")
    write_table(terminal, _COLUMNS, rows)
    if found["waiting"]:
        terminal.line(f"{found['waiting']} messages wait to be sent")
    dead = [
        [local_time(one["failed"]), printable(one["destination"]), printable(one["subject"]),
         printable(one["error"])]
        for one in found["dead"]
    ]  # fmt: skip
    if dead:
        terminal.line("could not be delivered:")
        write_table(terminal, _DEAD_COLUMNS, dead)
