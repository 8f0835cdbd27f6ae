"""`strongroom director`: the daemon that plans jobs, keeps the catalog and answers the API."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from strongroom.base.errors import EXIT_DONE
from strongroom.cli.daemons import (
    add_configuration_option,
    add_daemon_options,
    begin_daemon,
    tell_faults,
)
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.config.settings.director import DirectorSettings
    from strongroom.service.preflight import Preflight

EPILOG = """\
examples:
  strongroom director --config /etc/strongroom --check       only check whether it could start
  strongroom director --config /etc/strongroom --foreground

SIGHUP reloads the configuration without interrupting runs; SIGTERM ends the director, while runs on
agents continue. Its certificate comes from `strongroom ca issue NAME --role director`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_configuration_option(parser)
    add_daemon_options(parser)


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until stopped. Raises ConfigurationError, UsageError, OperatingSystemError."""
    if arguments.check:
        from strongroom.net.channels.listening import shown_place

        settings, look = _check(arguments.config)
        if exit_code := tell_faults(terminal, look):
            return exit_code
        places = ", ".join(shown_place(*place) for place in settings.addresses)
        terminal.emit({"type": "director", "name": settings.name, "addresses": places})
        terminal.line(f"director {settings.name} would listen on {places}")
        return EXIT_DONE
    import asyncio

    from strongroom.director.daemon import DirectorDaemon

    asyncio.run(DirectorDaemon(begin_daemon(arguments, _check, repeats="alembic")).run())
    return EXIT_DONE


def _check(path: str) -> tuple[DirectorSettings, Preflight]:
    from strongroom.director.checking import check_director

    return check_director(path)
