"""`strongroom storage`: the storage daemon."""

from __future__ import annotations

import argparse
import os

from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.cli.daemons import (
    add_configuration_option,
    add_daemon_options,
    begin_daemon,
    tell_faults,
)
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom storage --config /etc/strongroom --check       only check whether it could start
  strongroom storage --config /etc/strongroom --foreground
  strongroom storage --metrics                              metrics of the daemon on this machine
  strongroom storage --metrics --output FILE                FILE is replaced in one step
  strongroom storage --confirm-clock                        the machine's clock is correct

It serves the repository of each Device resource: to agents over the network, which may only add,
and for maintenance on a local socket:
  strongroom prune --repo unix:/run/strongroom-storage/storage.sock
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_configuration_option(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the metrics to FILE, which anybody may read, as node_exporter does",
    )
    which = parser.add_mutually_exclusive_group()
    add_daemon_options(parser, which)
    which.add_argument(
        "--metrics", action="store_true", help="print the metrics of the running daemon"
    )
    which.add_argument(
        "--confirm-clock",
        action="store_true",
        help="confirm that this machine's clock is correct although it jumped: Minimum "
        "Retention uses it again",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until stopped. Raises ConfigurationError, StoreError, PeerRefusedError."""
    if arguments.output and not arguments.metrics:
        raise UsageError("--output is for --metrics")
    if arguments.metrics or arguments.confirm_clock:
        from strongroom.storage.configuration import StorageConfiguration

        socket_path = StorageConfiguration(arguments.config).settings.socket_path.decode()
        if arguments.metrics:
            _tell_metrics(socket_path, arguments.output, terminal)
        else:
            _confirm_clock(socket_path, terminal)
        return EXIT_DONE
    from strongroom.storage.service import StorageService, check_storage

    if not arguments.check:
        StorageService(begin_daemon(arguments, check_storage)).run()
        return EXIT_DONE
    settings, look = check_storage(arguments.config)
    if exit_code := tell_faults(terminal, look):
        return exit_code
    devices = [name for name, _ in settings.repositories]
    terminal.emit({"type": "storage", "name": settings.name, "repositories": devices})
    terminal.line(f"storage daemon {settings.name} would serve {', '.join(devices)}")
    return EXIT_DONE


def _tell_metrics(socket_path: str, path: str | None, terminal: Terminal) -> None:
    from strongroom.net.identities.private_files import PUBLIC_MODE, write_file
    from strongroom.net.storage.place import open_socket, parse_place

    store = open_socket(parse_place(f"unix:{socket_path}"))
    try:
        text = store.metrics()
    finally:
        store.close()
    if path is None:
        terminal.document(text)
    else:
        # In a folder where others may write, as the agent may, a name that they know is a trap.
        write_file(os.path.abspath(os.fsencode(path)), text.encode(), PUBLIC_MODE)


def _confirm_clock(socket_path: str, terminal: Terminal) -> None:
    from strongroom.base.clock import utc_text
    from strongroom.net.storage.place import open_socket, parse_place
    from strongroom.net.storage.protocol import FrameType, decode

    store = open_socket(parse_place(f"unix:{socket_path}"))
    try:
        answer = store.client().ask(FrameType.CONFIRM_CLOCK, None)
    finally:
        store.close()
    before_ns, now_ns = decode(answer.header, tuple[int, int])
    terminal.emit({"type": "clock", "before_ns": before_ns, "now_ns": now_ns})
    terminal.line(f"Minimum Retention used {utc_text(before_ns)} and now uses {utc_text(now_ns)}")
