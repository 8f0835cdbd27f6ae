"""`strongroom director`: the daemon that plans jobs, keeps the catalog and answers the API."""

from __future__ import annotations

import argparse
import os

from strongroom.base.errors import EXIT_DONE
from strongroom.cli.daemon_checks import add_check_options, log_faults, tell_faults
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom director --config /etc/strongroom --check       only check whether it could start
  strongroom director --config /etc/strongroom --foreground

SIGHUP reloads the configuration without interrupting runs; SIGTERM ends the director, while runs on
agents continue. Its certificate comes from `strongroom ca issue NAME --role director`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--config", metavar="FOLDER", default="/etc/strongroom", help="the tree or file"
    )
    add_check_options(parser)
    # It never leaves the foreground; the option exists for service managers that pass it.
    parser.add_argument(
        "--foreground", action="store_true", help="stay in the foreground (it always does)"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until stopped. Raises ConfigurationError, UsageError, OperatingSystemError."""
    if arguments.check:
        from strongroom.director.checking import check_director
        from strongroom.net.channels.listening import shown_place

        settings, look = check_director(arguments.config)
        if exit_code := tell_faults(terminal, look):
            return exit_code
        places = ", ".join(shown_place(*place) for place in settings.addresses)
        terminal.emit({"type": "director", "name": settings.name, "addresses": places})
        terminal.line(f"director {settings.name} would listen on {places}")
        return EXIT_DONE
    import asyncio
    import logging

    from strongroom.base.interpreter import leave_present_folder
    from strongroom.director.daemon import DirectorDaemon
    from strongroom.service.service_manager import begin_log

    arguments.config = os.path.abspath(arguments.config)
    leave_present_folder()
    begin_log(verbose=arguments.verbose)
    if arguments.check_first:
        from strongroom.director.checking import check_director

        log_faults(check_director, arguments.config)
    # Its lines only repeat ours; its errors are shown.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    asyncio.run(DirectorDaemon(arguments.config).run())
    return EXIT_DONE
