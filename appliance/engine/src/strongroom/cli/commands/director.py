"""`strongroom director`: the daemon that plans jobs, keeps the catalog and answers the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.errors import EXIT_DONE

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom director --config /etc/strongroom --check       only say whether it could start
  strongroom director --config /etc/strongroom --foreground

SIGHUP has it read its configuration again, without cutting runs; SIGTERM ends it, and runs on
agents go on. Its certificate comes from `strongroom ca issue NAME --role director`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where the configuration is, and what to do with it."""
    parser.add_argument(
        "--config", metavar="FOLDER", default="/etc/strongroom", help="the tree or file"
    )
    parser.add_argument("--check", action="store_true", help="say all that is wrong, and end")
    # It never leaves the foreground; service managers of all kinds may say so nevertheless.
    parser.add_argument(
        "--foreground", action="store_true", help="stay in the foreground (it always does)"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until told to stop. Raises ConfigurationError, UsageError, OperatingSystemError."""
    if arguments.check:
        from strongroom.cli.daemon_checks import tell_faults
        from strongroom.daemons.director.checking import check_director

        settings, look = check_director(arguments.config)
        if exit_code := tell_faults(terminal, look):
            return exit_code
        places = ", ".join(f"{address} port {port}" for address, port in settings.addresses)
        terminal.emit({"type": "director", "name": settings.name, "addresses": places})
        terminal.line(f"director {settings.name} would listen on {places}")
        return EXIT_DONE
    import asyncio
    import logging

    from strongroom.daemons.director.daemon import DirectorDaemon
    from strongroom.daemons.service_manager import begin_log

    begin_log(verbose=arguments.verbose)
    # Its lines say nothing that ours do not; what goes wrong there is shown.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    asyncio.run(DirectorDaemon(arguments.config).run())
    return EXIT_DONE
