"""`strongroom agent`: the daemon that runs jobs on this machine, and its certificate."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from strongroom.errors import EXIT_DONE, UsageError
from strongroom.printable import printable

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal
    from strongroom.daemons.agent.settings import AgentSettings

EPILOG = """\
examples:
  strongroom agent --config /etc/strongroom --check       only check whether it could start
  strongroom agent --config /etc/strongroom --foreground
  strongroom agent enrol --director https://vault.example.org:9101 \\
      --token-file /root/web1.token --fingerprint 3f2a...
  strongroom agent renew --config /etc/strongroom         now, not when it is due

The token is the single-use token of `strongroom ca token`; the fingerprint, which is not secret, is
shown by `strongroom ca list`. enrol fetches the agent's certificate and its put key.
"""

DEFAULT_CONFIGURATION = "/etc/strongroom"
_GREATEST_TOKEN_BYTES = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("enrol", "renew"),
        help="get or renew the certificate of this machine; without it: run the agent",
    )
    parser.add_argument("--config", metavar="FOLDER", help="the tree or file (/etc/strongroom)")
    # It never leaves the foreground; the option exists for service managers that pass it.
    parser.add_argument(
        "--foreground", action="store_true", help="stay in the foreground (it always does)"
    )
    parser.add_argument("--check", action="store_true", help="report every fault, and exit")
    enrolling = parser.add_argument_group("enrol")
    enrolling.add_argument("--director", metavar="URL", help="such as https://vault:9101")
    enrolling.add_argument(
        "--director-name",
        metavar="NAME",
        help="name of the director (default: the configuration's, or its certificate's)",
    )
    enrolling.add_argument("--token-file", metavar="FILE", help="`-` reads standard input")
    enrolling.add_argument("--fingerprint", metavar="HEX", help="SHA-256 of the authority")
    enrolling.add_argument(
        "--name",
        metavar="NAME",
        help="name of the client (default: the configuration's, or the host's)",
    )
    enrolling.add_argument(
        "--into", metavar="FOLDER", help="folder for the certificate (default: as configured)"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Run the agent, or enrol or renew."""
    if arguments.action == "enrol":
        return _enrol(arguments, terminal)
    from strongroom.daemons.agent.settings import load_settings

    path = arguments.config or DEFAULT_CONFIGURATION
    if arguments.action == "renew":
        return _renew(load_settings(path), terminal)
    if arguments.check:
        from strongroom.cli.daemon_checks import tell_faults
        from strongroom.daemons.agent.checking import check_agent

        settings, look = check_agent(path)
        if exit_code := tell_faults(terminal, look):
            return exit_code
        _show(settings, terminal)
        return EXIT_DONE
    import logging

    from strongroom.daemons.agent.service import serve
    from strongroom.daemons.service_manager import begin_log

    begin_log(verbose=arguments.verbose)
    # Its log lines only repeat ours.
    logging.getLogger("websockets").setLevel(logging.WARNING)
    serve(path)
    return EXIT_DONE


def _show(settings: AgentSettings, terminal: Terminal) -> None:
    for director in settings.directors.values():
        ways = []
        if director.dials:
            ways.append(f"dials {director.address}:{director.port}")
        if director.listens:
            ways.append("listens for it")
        terminal.line(f"agent {settings.name}, Director {director.name}: {', '.join(ways)}")
    terminal.emit(
        {
            "type": "agent",
            "name": settings.name,
            "directors": list(settings.directors),
            "identity": settings.identity_folder,
        }
    )


def _enrol(arguments: argparse.Namespace, terminal: Terminal) -> int:
    for option in ("director", "token_file", "fingerprint"):
        if not getattr(arguments, option):
            raise UsageError(f"to enrol, give --{option.replace('_', '-')}")
    name, folder = arguments.name, arguments.into
    directors: tuple[str, ...] = (arguments.director_name,) if arguments.director_name else ()
    if not (name and folder):
        configured = _configured(arguments.config)
        directors = directors or (tuple(configured.directors) if configured else ())
        name = name or (configured.name if configured else socket.gethostname())
        folder = folder or (configured.identity_folder if configured else None)
    if not folder:
        raise UsageError("give the folder for the certificate with --config or --into")
    from strongroom.daemons.agent.enrolment import enrol

    token = _read_token(arguments.token_file)
    identity, director = enrol(
        arguments.director, name, token, arguments.fingerprint, folder, directors
    )
    configuration = arguments.config or DEFAULT_CONFIGURATION
    if os.geteuid() == 0 and os.path.exists(configuration):
        from strongroom.daemons.agent.restore_authority import keep_restore_authority

        keep_restore_authority(configuration, identity.authority_pem)
    terminal.emit(
        {
            "type": "identity",
            "name": identity.name,
            "director": director,
            "folder": folder,
            "not_after": identity.not_after.isoformat(),
        }
    )
    whose = f" of Director {printable(director)}" if director else ""
    terminal.line(
        f"{printable(identity.name)} is now an agent{whose}; certificate in {printable(folder)}, "
        f"good until {identity.not_after:%Y-%m-%d}, renewed automatically before that"
    )
    return EXIT_DONE


def _renew(settings: AgentSettings, terminal: Terminal) -> int:
    from strongroom.daemons.agent.enrolment import renew

    for director in settings.directors.values():
        if director.address:
            identity = renew(director, settings.identity_folder)
            terminal.emit(
                {
                    "type": "identity",
                    "name": identity.name,
                    "director": director.name,
                    "folder": settings.identity_folder,
                    "not_after": identity.not_after.isoformat(),
                }
            )
            terminal.line(f"the certificate is good until {identity.not_after:%Y-%m-%d}")
            return EXIT_DONE
    raise UsageError("no Director resource has an Address, so the certificate cannot be renewed")


def _configured(path: str | None) -> AgentSettings | None:
    """The configuration, if there is one yet."""
    if path is None and not os.path.exists(DEFAULT_CONFIGURATION):
        return None
    from strongroom.daemons.agent.settings import load_settings

    return load_settings(path or DEFAULT_CONFIGURATION)


def _read_token(path: str) -> str:
    """The first line of a file. Raises UsageError."""
    try:
        with open(0 if path == "-" else path, encoding="ascii", errors="replace") as file:
            token = file.read(_GREATEST_TOKEN_BYTES).split("\n", 1)[0].strip()
    except OSError as error:
        raise UsageError(f"cannot read the token {printable(path)}: {error.strerror}") from error
    if not token:
        raise UsageError(f"there is no token in {printable(path)}")
    return token
