"""`strongroom notify`: test the director's notices, list what is wrong."""

from __future__ import annotations

import argparse
import os

from strongroom.base.errors import EXIT_DONE, NoticeError, UnknownNameError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.cli.client.place import add_director_options, asks_director
from strongroom.cli.client.view import ApiObject, local_time
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom notify test
  strongroom notify test Standard/mail
  strongroom notify list
  strongroom notify retry

Where no director is named, `test` is about the Messages of /etc/strongroom/machine.conf, or of
--config (see `strongroom schedule`).

DESTINATION is the name of a Notify block of the director's configuration, with or without the name
of its Messages resource. `test` sends at once and waits for the answer of the server; the exit code
is 68 if a destination does not accept the test. `retry` sends again the messages that failed.
"""
_COLUMNS = ("SINCE", "SEVERITY", "EVENT", "WHAT", "WHAT TO DO")
_DEAD_COLUMNS = ("GIVEN UP", "DESTINATION", "SUBJECT", "ERROR")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add test, list and retry."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    test = actions.add_parser("test", help="send a test and wait for the answer")
    test.add_argument(
        "destination",
        metavar="DESTINATION",
        nargs="?",
        default="",
        help="only the Notify block of this name (else all of them)",
    )
    listing = actions.add_parser("list", help="list problems, and messages that were not delivered")
    listing.set_defaults(run=_list, lists=True)
    retry = actions.add_parser("retry", help="send again what could not be delivered")
    retry.set_defaults(run=_retry)
    test.add_argument(
        "--config",
        metavar="FOLDER",
        help="test what the machine.conf in FOLDER says, not the director",
    )
    test.add_argument("--user", action="store_true", help="that of the present user")
    test.set_defaults(run=_test)
    for one in (test, listing, retry):
        add_director_options(one)


def _test(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Send tests, by the director or to the destinations of a machine without daemons."""
    if arguments.config or not asks_director(arguments):
        from strongroom.cli.schedule.machine import usual_folder
        from strongroom.config.filesets import MACHINE_FILE

        folder = usual_folder(arguments.settings.configuration_folder, user=arguments.user)
        if arguments.config or os.path.exists(os.path.join(folder, MACHINE_FILE)):
            _test_machine(arguments.config or folder, arguments.destination, terminal)
            return EXIT_DONE
    from strongroom.cli.client.client import open_director

    with open_director(arguments) as director:
        sent = director.post("/notices/test", {"destination": arguments.destination})
    _show_tests(sent["items"], terminal)
    return EXIT_DONE


def _retry(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.cli.client.client import open_director

    with open_director(arguments) as director:
        count = director.post("/notices/retry")["messages"]
    terminal.emit({"type": "retried", "messages": count})
    terminal.line(f"{counted(count, 'message')} queued again")
    return EXIT_DONE


def _test_machine(path: str, destination: str, terminal: Terminal) -> None:
    """Send a test to the destinations of a machine without daemons."""
    from strongroom.cli.schedule.machine import read_machine
    from strongroom.cli.schedule.notices import send_tests

    sent = send_tests(read_machine(path), destination)
    if not sent:
        raise UnknownNameError(
            "there is no such destination: a Messages resource has Notify blocks, and their names"
        )
    _show_tests([{"destination": name, "error": error} for name, error in sent], terminal)


def _show_tests(found: list[ApiObject], terminal: Terminal) -> None:
    failures = 0
    for one in found:
        terminal.emit({"type": "notice-test", **one})
        name, error = printable(one["destination"]), printable(one["error"])
        terminal.line(f"{name}: {error or 'sent'}")
        failures += bool(error)
    if failures:
        raise NoticeError(f"{failures} of {len(found)} tests could not be sent")


def _list(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.cli.client.client import open_director

    with open_director(arguments) as director:
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
    terminal.line("problems now:" if rows else "everything is OK")
    write_table(terminal, _COLUMNS, rows)
    if found["waiting"]:
        terminal.line(f"{counted(found['waiting'], 'message')} in the queue")
    dead = [
        [local_time(one["failed"]), printable(one["destination"]), printable(one["subject"]),
         printable(one["error"])]
        for one in found["dead"]
    ]  # fmt: skip
    if dead:
        terminal.line("could not be delivered:")
        write_table(terminal, _DEAD_COLUMNS, dead)
    return EXIT_DONE
