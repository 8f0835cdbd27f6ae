"""`strongroom agent`: the daemon that runs jobs on this machine, how it joins, its certificate."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from strongroom.base.errors import EXIT_DONE, UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.cli.daemons import (
    add_configuration_option,
    add_daemon_options,
    begin_daemon,
    tell_faults,
)
from strongroom.cli.settings import USUAL_CONFIGURATION
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.agent.joining import Wanted
    from strongroom.agent.settings import AgentSettings
    from strongroom.net.identities.identity import Identity

EPILOG = """\
examples:
  strongroom agent join https://vault.example.org:9101 --token-file web.token    then it runs
  strongroom agent show --effective --json                settings of the running agent
  strongroom agent rejoin --name web2 --token-file web2.token   on a copy of web1
  strongroom agent leave                                  then: strongroom client remove web1
  strongroom agent --config /etc/strongroom --check       only check whether it could start
  strongroom agent --config /etc/strongroom --foreground
  strongroom agent enrol --director https://vault.example.org:9101 \\
      --token-file /root/web1.token --fingerprint 3f2a...
  strongroom agent renew --config /etc/strongroom         now, not when it is due

The token is one of `strongroom ca token`, which holds the fingerprint of the authority. enrol
fetches the agent's certificate and its put key; join does all else as well: configuration, owners,
and the service where systemd runs.
"""

VARIABLE = "STRONGROOM_JOIN_TOKEN"
AGENT_UNITS = ("strongroom-agent-restore.socket", "strongroom-agent.service")
_GREATEST_TOKEN_BYTES = 4096
_STANDARD_INPUT = ("-",)
_KNOBS = ("KNOB", "VALUE", "UNIT", "FROM")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options, and the actions."""
    add_daemon_options(parser)
    parser.set_defaults(run=_serve)
    actions = parser.add_subparsers(
        title="actions", metavar="ACTION", help="without one: run the agent"
    )
    joining = actions.add_parser("join", help="make this machine an agent: all in one step")
    joining.add_argument("director", metavar="URL", help="such as https://vault:9101")
    joining.add_argument(
        "--token", metavar="TOKEN", help=f"others can see it in `ps`; else ${VARIABLE}"
    )
    joining.add_argument("--token-file", metavar="FILE", help="`-` reads standard input")
    _add_name(joining)
    joining.add_argument(
        "--ca-fingerprint",
        metavar="HEX",
        default="",
        help="SHA-256 of the authority (it is in the token)",
    )
    joining.add_argument(
        "--state",
        metavar="FOLDER",
        default="/var/lib/strongroom/agent",
        help="folder of its data (%(default)s)",
    )
    joining.add_argument("--no-start", action="store_true", help="do not touch services")
    joining.set_defaults(run=_join)
    leaving = actions.add_parser("leave", help="undo join: certificate, keys, configuration")
    leaving.add_argument("--no-stop", action="store_true", help="do not touch services")
    leaving.set_defaults(run=_leave)
    rejoining = actions.add_parser("rejoin", help="this machine is a copy: make it another client")
    rejoining.add_argument("--token", metavar="TOKEN", help=f"to join at once; else ${VARIABLE}")
    rejoining.add_argument("--token-file", metavar="FILE", help="`-` reads standard input")
    rejoining.add_argument("--name", metavar="NAME", help="its new name (default: the host's)")
    rejoining.add_argument("--no-start", action="store_true", help="do not touch services")
    rejoining.set_defaults(run=_rejoin)
    showing = actions.add_parser("show", help="show the running agent: settings, runs, connections")
    showing.add_argument(
        "--effective", action="store_true", help="every setting, and where its value comes from"
    )
    showing.set_defaults(run=_show_running)
    enrolling = actions.add_parser("enrol", help="get the certificate of this machine")
    enrolling.add_argument("--director", metavar="URL", help="such as https://vault:9101")
    enrolling.add_argument(
        "--director-name",
        metavar="NAME",
        help="name of the director (default: the configuration's, or its certificate's)",
    )
    enrolling.add_argument("--token-file", metavar="FILE", help="`-` reads standard input")
    enrolling.add_argument(
        "--fingerprint", metavar="HEX", help="SHA-256 of the authority (it is in the token)"
    )
    _add_name(enrolling)
    enrolling.add_argument(
        "--into", metavar="FOLDER", help="folder for the certificate (default: as configured)"
    )
    enrolling.set_defaults(run=_enrol)
    renewing = actions.add_parser("renew", help="renew the certificate of this machine")
    renewing.set_defaults(run=_renew)
    add_configuration_option(parser, joining, leaving, rejoining, showing, enrolling, renewing)


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="name of the client (default: the configuration's, or the host's)",
    )


def _serve(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.agent.service import check_agent, serve

    if not arguments.check:
        serve(begin_daemon(arguments, check_agent, repeats="websockets"))
        return EXIT_DONE
    settings, look = check_agent(arguments.config)
    if exit_code := tell_faults(terminal, look):
        return exit_code
    _show(settings, terminal)
    return EXIT_DONE


def _join(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.agent.joining import Wanted

    wanted = Wanted(
        url=arguments.director,
        token=_token_to_join(arguments),
        name=arguments.name or "",
        fingerprint=arguments.ca_fingerprint,
        configuration=os.path.abspath(arguments.config),
        state=os.path.abspath(arguments.state),
    )
    return _become_agent(wanted, terminal, touches_services=not arguments.no_start)


def _become_agent(wanted: Wanted, terminal: Terminal, *, touches_services: bool) -> int:
    from strongroom.agent.joining import join
    from strongroom.cli.services import has_systemd, start_services

    # The agent reads its configuration as another user; what is secret gets its own mode.
    os.umask(0o022)
    joined = join(wanted, socket.gethostname())
    changed = joined.changed
    starts = has_systemd() and touches_services
    if starts:
        changed = changed + start_services(AGENT_UNITS, reload=bool(changed))
    terminal.emit(
        {
            "type": "joined",
            "name": joined.name,
            "director": joined.director,
            "not_after": joined.identity.not_after.isoformat(),
            "changed": changed,
        }
    )
    for one in changed:
        terminal.line(one)
    already = "" if changed else " already"
    terminal.line(
        f"{printable(joined.name)} is{already} an agent of Director {printable(joined.director)}"
    )
    if not starts:
        terminal.line(
            "start it with: strongroom agent --foreground, or the service strongroom-agent"
        )
    return EXIT_DONE


def _leave(arguments: argparse.Namespace, terminal: Terminal) -> int:
    configuration = os.path.abspath(arguments.config)
    _be_no_agent(configuration, terminal, touches_services=not arguments.no_stop)
    terminal.line("this machine is no longer an agent; on the appliance: strongroom client remove")
    return EXIT_DONE


def _be_no_agent(configuration: str, terminal: Terminal, *, touches_services: bool) -> None:
    from strongroom.agent.joining import leave
    from strongroom.cli.services import has_systemd, stop_services

    changed = []
    if has_systemd() and touches_services:
        changed += stop_services(AGENT_UNITS)
    changed += leave(configuration)
    terminal.emit({"type": "left", "changed": changed})
    for one in changed:
        terminal.line(one)


def _rejoin(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.agent.joining import USUAL_STATE, Wanted, give_up
    from strongroom.agent.settings import load_settings

    configuration = os.path.abspath(arguments.config)
    settings = load_settings(configuration)
    token = _token_to_join(arguments)
    name: str = arguments.name or socket.gethostname()
    if token and name == settings.name:
        raise UsageError(f"{printable(name)} is the name of the original; give another with --name")
    director = give_up(settings)
    _be_no_agent(configuration, terminal, touches_services=not arguments.no_start)
    url = f"https://{director.address}:{director.port}"
    if not token:
        terminal.line(
            f"this machine is no longer {printable(settings.name)}; next: strongroom agent join "
            f"{url} --token-file FILE --name NAME"
        )
        return EXIT_DONE
    wanted = Wanted(url, token, name, "", configuration, USUAL_STATE)
    return _become_agent(wanted, terminal, touches_services=not arguments.no_start)


def _show_running(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.agent.settings import load_settings
    from strongroom.agent.status import ask_status

    settings = load_settings(arguments.config)
    _show_status(ask_status(settings.working_folder), terminal, is_whole=arguments.effective)
    return EXIT_DONE


def _show_status(status: Mapping[str, Any], terminal: Terminal, *, is_whole: bool) -> None:
    """Show it. is_whole: with all knobs of the agent, and of its runs."""
    shown = dict(status)
    if not is_whole:
        del shown["knobs"]
        for run in (*shown["runs"], *shown["ended"]):
            run.pop("knobs", None)
    terminal.emit(shown)
    terminal.line(f"agent {printable(status['name'])}, version {printable(status['version'])}")
    # An agent of an older version does not say it.
    if refused := status.get("configuration_refused"):
        terminal.warn(
            f"its files have changed, and it refused to read them again: {printable(refused)}"
        )
    for one in status["directors"]:
        state = "connected" if one["connected"] else "not connected"
        place = f"{one['address']}:{one['port']}" if one["dials"] else "which dials"
        terminal.line(f"Director {printable(one['name'])}, {printable(place)}: {state}")
    for run in status["runs"]:
        terminal.line(
            f"runs {printable(run['job'])}, a {run['kind']}, {run['processes']} processes"
        )
    if is_whole:
        terminal.line()
        _show_knobs(status["knobs"], terminal)
        for run in (*status["runs"], *status["ended"]):
            if run.get("knobs"):
                terminal.line()
                terminal.line(f"job {printable(run['job'])}, TLS mode {run['tls']['mode']}:")
                _show_knobs(run["knobs"], terminal)


def _show_knobs(knobs: Mapping[str, Any], terminal: Terminal) -> None:
    rows = [
        [name, printable(str(one["value"])), one.get("unit", ""), printable(one["source"])]
        for name, one in knobs.items()
    ]
    write_table(terminal, _KNOBS, rows)


def _token_to_join(arguments: argparse.Namespace) -> str:
    if arguments.token and arguments.token_file:
        raise UsageError("give the token with --token or --token-file, not with both")
    text: str = arguments.token or os.environ.get(VARIABLE, "")
    if arguments.token_file or text in _STANDARD_INPUT:
        return _read_token(arguments.token_file or text)
    return text.strip()


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
    for option in ("director", "token_file"):
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
    from strongroom.agent.enrolment import enrol
    from strongroom.net.identities.enrolment_tokens import fingerprint_in

    token = _read_token(arguments.token_file)
    fingerprint = arguments.fingerprint or fingerprint_in(token)
    identity, director = enrol(arguments.director, name, token, fingerprint, folder, directors)
    if os.geteuid() == 0 and os.path.exists(arguments.config):
        from strongroom.agent.restore_authority import keep_restore_authority

        keep_restore_authority(arguments.config, identity.authority_pem, fingerprint)
    _emit_identity(identity, director, folder, terminal)
    whose = f" of Director {printable(director)}" if director else ""
    terminal.line(
        f"{printable(identity.name)} is now an agent{whose}; certificate in {printable(folder)}, "
        f"good until {identity.not_after:%Y-%m-%d}, renewed automatically before that"
    )
    return EXIT_DONE


def _renew(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.agent.enrolment import renew
    from strongroom.agent.settings import load_settings

    settings = load_settings(arguments.config)
    for director in settings.directors.values():
        if director.address:
            identity = renew(director, settings.identity_folder)
            _emit_identity(identity, director.name, settings.identity_folder, terminal)
            terminal.line(f"the certificate is good until {identity.not_after:%Y-%m-%d}")
            return EXIT_DONE
    raise UsageError("no Director resource has an Address, so the certificate cannot be renewed")


def _emit_identity(identity: Identity, director: str, folder: str, terminal: Terminal) -> None:
    terminal.emit(
        {
            "type": "identity",
            "name": identity.name,
            "director": director,
            "folder": folder,
            "not_after": identity.not_after.isoformat(),
        }
    )


def _configured(path: str) -> AgentSettings | None:
    """The configuration, if there is one yet."""
    if path == USUAL_CONFIGURATION and not os.path.exists(path):
        return None
    from strongroom.agent.settings import load_settings

    return load_settings(path)


def _read_token(path: str) -> str:
    """The first line of a file. Raises UsageError."""
    with (
        os_errors(f"cannot read the token {printable(path)}"),
        open(0 if path == "-" else path, encoding="ascii", errors="replace") as file,
    ):
        token = file.read(_GREATEST_TOKEN_BYTES).split("\n", 1)[0].strip()
    if not token:
        place = "on standard input" if path == "-" else f"in {printable(path)}"
        raise UsageError(f"there is no token {place}; `strongroom ca token` makes one")
    return token
