"""`strongroom ca`: the certificate authority of daemons and agents.

No secret appears on a command line: keys are written to files that only their owner may read, an
enrolment token to a new file (or to standard output with `-`), and the passphrase of the
authority's key is given as any other passphrase (--password-file and so on).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from strongroom import clock
from strongroom.cli.passphrase import choose_passphrase, given_passphrase
from strongroom.cli.table import Column, write_table
from strongroom.cli.times import parse_moment, time_text
from strongroom.clock import utc_text
from strongroom.errors import EXIT_DONE, UsageError
from strongroom.jobs.upkeep.retention import parse_duration
from strongroom.net.identities.peer import ROLES
from strongroom.net.identities.private_files import (
    PUBLIC_MODE,
    SECRET_MODE,
    give_tree,
    read_bounded,
    write_file,
)
from strongroom.printable import printable

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal
    from strongroom.net.identities.authority import Authority
    from strongroom.net.identities.authority_files import Issued
    from strongroom.net.identities.enrolment_tokens import TokenUse
    from strongroom.net.identities.peer import ClientOf

EPILOG = """\
examples:
  strongroom ca init --name "backup of the office" --owner strongroom-director
  strongroom ca issue vault-dir --role director --host vault.example.org \\
      --folder /var/lib/strongroom/director/identity --owner strongroom-director
  strongroom ca issue web1 --role agent --request web1.csr --out web1.pem
  strongroom ca token web1 --out web1.token               then on web1: strongroom agent enrol
  strongroom ca token --any-name --lifetime 15min --out -   for any new client
  strongroom ca token --group servers --names 'web*' --uses 100 --lifetime 7d --out web.token
                                       for 100 new clients, then on each: strongroom agent join
  strongroom ca token web1 --new-client --out web1.token    after a compromise of web1
  strongroom ca list
  strongroom ca revoke web1                               open connections end within seconds
  strongroom ca renew web1                                then on web1: strongroom agent renew
"""

DEFAULT_FOLDER = "/var/lib/strongroom/ca"
_GREATEST_REQUEST_BYTES = 16 << 10
_GREATEST_LIFETIME_SECONDS = 30 * 86400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    making = actions.add_parser("init", help="make an authority; done once")
    making.add_argument("--name", default="Strongroom", metavar="TEXT", help="its name")
    making.add_argument(
        "--encrypt-key",
        action="store_true",
        help="encrypt its key with a passphrase (--password-file and so on, else asked for), which "
        "the director needs too, to renew certificates",
    )
    making.add_argument(
        "--owner", metavar="USER", help="the owner of its folder: the director's user"
    )
    making.set_defaults(act=_init)
    issuing = actions.add_parser("issue", help="issue a certificate")
    issuing.add_argument("name", metavar="NAME", help="the client's or daemon's name")
    issuing.add_argument("--role", required=True, choices=ROLES, help="what it may act as")
    _add_host_option(issuing)
    issuing.add_argument(
        "--appliance-key",
        action="append",
        default=[],
        metavar="FILE",
        help="of an agent: the appliance key of a repository in which it is the client of this name"
        "; may be repeated",
    )
    issuing.add_argument(
        "--generation",
        type=int,
        default=0,
        metavar="NUMBER",
        help="of an agent: how often the name became a new client (default 0)",
    )
    issuing.add_argument("--days", type=float, metavar="NUMBER", help="how long it is valid")
    issuing.add_argument(
        "--folder", metavar="FOLDER", help="make a whole identity with a new key in FOLDER"
    )
    issuing.add_argument("--owner", metavar="USER", help="the owner of FOLDER")
    issuing.add_argument(
        "--request", metavar="FILE", help="issue for the key of a request (PEM) made elsewhere"
    )
    issuing.add_argument(
        "--out", metavar="FILE", help="write the certificate to FILE, else print it"
    )
    issuing.set_defaults(act=_issue)
    revoking = actions.add_parser(
        "revoke", help="revoke the certificates of a name; takes effect at once"
    )
    revoking.add_argument("name", metavar="NAME", help="of a client, a daemon or an operator")
    revoking.add_argument(
        "--issued-before",
        metavar="TIME",
        help="only what was issued before, such as 2026-11-01, or 2h ago: 2h",
    )
    revoking.set_defaults(act=_revoke)
    renewing = actions.add_parser(
        "renew", help="let the holder of a certificate renew it now, before it is due, once"
    )
    renewing.add_argument("name", metavar="NAME", help="of a client, a daemon or an operator")
    renewing.set_defaults(act=_renew)
    listing = actions.add_parser("list", help="list certificates and unused enrolment tokens")
    listing.add_argument("--all", action="store_true", help="expired and revoked ones as well")
    listing.set_defaults(act=_list)
    _add_token_action(actions.add_parser("token", help="make an enrolment token"))
    for action in (making, issuing, revoking, renewing, listing, actions.choices["token"]):
        action.add_argument(
            "--ca", metavar="FOLDER", default=DEFAULT_FOLDER, help=f"default {DEFAULT_FOLDER}"
        )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Do the action."""
    exit_code: int = arguments.act(arguments, terminal)
    return exit_code


def _add_token_action(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="the only name it is valid for")
    parser.add_argument(
        "--any-name", action="store_true", help="valid for any name that is not taken yet"
    )
    parser.add_argument(
        "--names",
        metavar="PATTERN",
        help="valid for names that are not taken yet and match, such as 'web*'",
    )
    parser.add_argument(
        "--uses", type=int, default=1, metavar="NUMBER", help="for how many names (default 1)"
    )
    parser.add_argument(
        "--group",
        metavar="NAME",
        help="a Client Group that JobDefs of the director name: clients that join get its jobs",
    )
    parser.add_argument("--role", default="agent", choices=ROLES, help="default agent")
    _add_host_option(parser)
    parser.add_argument(
        "--new-client",
        action="store_true",
        help="after a compromise: the name is another client from then on, with other keys, and "
        "its certificates before are revoked; else enrolling again gives the same client",
    )
    parser.add_argument("--lifetime", default="1h", metavar="TIME", help="default 1h")
    parser.add_argument(
        "--out", metavar="FILE", help="write it to the new file FILE; `-` prints it"
    )
    parser.add_argument("--withdraw", metavar="ID", help="withdraw an unused token instead")
    parser.set_defaults(act=_token)


def _add_host_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a DNS name or address under which it is reached; may be repeated",
    )


def _open(arguments: argparse.Namespace, terminal: Terminal) -> Authority:
    from strongroom.net.identities.authority import Authority

    return Authority(arguments.ca, given_passphrase(arguments.settings, terminal))


def _init(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.net.identities.authority import Authority

    passphrase = None
    if arguments.encrypt_key:
        passphrase = given_passphrase(arguments.settings, terminal)
        if passphrase is None:
            passphrase = choose_passphrase("passphrase of the authority's key")
    authority = Authority.create(arguments.ca, arguments.name, passphrase)
    if arguments.owner:
        give_tree(authority.folder, arguments.owner)
    terminal.emit(
        {
            "type": "authority",
            "folder": authority.folder,
            "fingerprint": authority.fingerprint,
            "encrypted": passphrase is not None,
        }
    )
    terminal.line(f"made a certificate authority in {printable(authority.folder)}")
    terminal.line(f"its fingerprint, to compare at enrolment: {authority.fingerprint}")
    return EXIT_DONE


def _issue(arguments: argparse.Namespace, terminal: Terminal) -> int:
    if bool(arguments.folder) == bool(arguments.request):
        raise UsageError("name either --folder, for a new identity, or --request")
    if arguments.folder and arguments.out:
        raise UsageError("--out needs --request; with --folder everything is written to the folder")
    if arguments.owner and not arguments.folder:
        raise UsageError("--owner needs --folder")
    if arguments.appliance_key and arguments.role != "agent":
        raise UsageError("--appliance-key is for agents: others are no clients of a repository")
    clients = [_client_of(file, arguments) for file in arguments.appliance_key]
    authority = _open(arguments, terminal)
    if arguments.folder:
        authority.issue_identity(
            arguments.folder,
            arguments.name,
            arguments.role,
            arguments.host,
            arguments.days,
            clients,
        )
        if arguments.owner:
            give_tree(os.fsencode(arguments.folder), arguments.owner)
    else:
        try:
            request = read_bounded(os.fsencode(arguments.request), _GREATEST_REQUEST_BYTES)
        except OSError as error:
            raise UsageError(
                f"cannot read {printable(arguments.request)}: {error.strerror}"
            ) from error
        certificate = authority.issue(
            request,
            arguments.name,
            arguments.role,
            arguments.host,
            arguments.days,
            clients=clients,
        )
        if arguments.out:
            write_file(os.path.abspath(os.fsencode(arguments.out)), certificate, PUBLIC_MODE)
        elif not arguments.json:
            terminal.document(certificate.decode("ascii"))
    entry = next(one for one in reversed(authority.issued()) if one.name == arguments.name)
    terminal.emit(_certificate_object(entry, revoked=False))
    if arguments.folder or arguments.out:
        place = printable(arguments.folder or arguments.out)
        until = time_text(entry.not_after_ns)
        terminal.line(f"issued {entry.role} {printable(entry.name)!r} until {until}: {place}")
    if not arguments.folder:
        revoked = os.fsdecode(authority.revoked_path)
        terminal.line(f"put {printable(revoked)} beside it: without that list nobody is trusted")
    return EXIT_DONE


def _client_of(file: str, arguments: argparse.Namespace) -> ClientOf:
    """Which client the name is in the repository of an appliance key."""
    from strongroom.cli.access import read_key_file
    from strongroom.net.identities.peer import ClientOf
    from strongroom.repo.keys.roles import ApplianceKey

    key = read_key_file(file)
    if not isinstance(key, ApplianceKey):
        raise UsageError(
            f"{printable(file)} is no appliance key; `strongroom key export-appliance` makes one"
        )
    return ClientOf(key.repository_id, key.client_id(arguments.name, arguments.generation))


def _revoke(arguments: argparse.Namespace, terminal: Terminal) -> int:
    before_ns = None
    if arguments.issued_before:
        before_ns = parse_moment(arguments.issued_before)
    revoked = _open(arguments, terminal).revoke(arguments.name, before_ns)
    for entry in revoked:
        terminal.emit(_certificate_object(entry, revoked=True))
        terminal.line(f"revoked {entry.role} {printable(entry.name)!r}, serial {entry.serial}")
    if not revoked:
        terminal.line("nothing to do: expired or revoked already")
    return EXIT_DONE


def _renew(arguments: argparse.Namespace, terminal: Terminal) -> int:
    for entry in _open(arguments, terminal).permit_renewal(arguments.name):
        terminal.emit(_certificate_object(entry, revoked=False))
        terminal.line(f"{entry.role} {printable(entry.name)!r} may now renew its certificate once")
    return EXIT_DONE


def _list(arguments: argparse.Namespace, terminal: Terminal) -> int:
    authority = _open(arguments, terminal)
    terminal.emit(
        {
            "type": "authority",
            "folder": authority.folder,
            "fingerprint": authority.fingerprint,
        }
    )
    terminal.line(f"fingerprint of the authority: {authority.fingerprint}")
    terminal.line()
    revoked = authority.revoked()
    now_ns = clock.now_ns()
    rows = []
    for entry in authority.issued():
        is_revoked = revoked.covers(entry.role, entry.name, entry.issued)
        state = "revoked" if is_revoked else "ended" if entry.not_after_ns < now_ns else "good"
        if state != "good" and not arguments.all:
            continue
        terminal.emit(_certificate_object(entry, revoked=is_revoked))
        until = time_text(entry.not_after_ns)
        rows.append(
            [printable(entry.name), entry.role, until, state if arguments.all else "", entry.serial]
        )
    _write_table(terminal, ["NAME", "ROLE", "UNTIL", "STATE", "SERIAL"], rows)
    token_rows = []
    for identifier, use in authority.tokens.unused():
        terminal.emit(
            {
                "type": "enrolment_token",
                **_token_fields(identifier, use),
            }
        )
        token_rows.append(
            [
                identifier,
                printable(use.name or use.pattern),
                use.role,
                printable(use.group),
                f"{use.uses_left} of {use.uses}",
                time_text(use.expires_ns),
            ]
        )
    if token_rows:
        terminal.line()
        _write_table(terminal, ["TOKEN", "FOR", "ROLE", "GROUP", "LEFT", "UNTIL"], token_rows)
    return EXIT_DONE


def _token(arguments: argparse.Namespace, terminal: Terminal) -> int:
    authority = _open(arguments, terminal)
    if arguments.withdraw:
        if not authority.tokens.withdraw(arguments.withdraw):
            raise UsageError("there is no unused token of this id; see `strongroom ca list`")
        terminal.emit({"type": "enrolment_token_withdrawn", "id": arguments.withdraw})
        terminal.line("the token is no longer valid")
        return EXIT_DONE
    if sum(map(bool, (arguments.name, arguments.any_name, arguments.names))) != 1:
        raise UsageError("name the client that the token is for, or give --names or --any-name")
    if not arguments.out:
        raise UsageError("give --out FILE for the token, or --out - to print it")
    lifetime = parse_duration(arguments.lifetime)
    if lifetime.months or not 0 < lifetime.seconds <= _GREATEST_LIFETIME_SECONDS:
        raise UsageError("a token is valid for up to 30 days: write for example 15min, 1h or 2d")
    prints = arguments.out == "-"
    if not prints and os.path.lexists(arguments.out):
        raise UsageError(f"{printable(arguments.out)} is there already; name a new file")
    token = authority.tokens.create(
        arguments.name or "",
        arguments.role,
        lifetime.seconds,
        arguments.host,
        new_client=arguments.new_client,
        pattern=arguments.names or "*",
        uses=arguments.uses,
        group=arguments.group or "",
    )
    secret: dict[str, object] = {}
    if not prints:
        path = os.path.abspath(os.fsencode(arguments.out))
        write_file(path, token.text.encode("ascii") + b"\n", SECRET_MODE)
    elif arguments.json:
        secret["token"] = token.text
    else:
        terminal.word(token.text)
    terminal.emit(
        {
            "type": "new_enrolment_token",
            **_token_fields(token.id, token.use),
            "fingerprint": authority.fingerprint,
            **secret,
        }
    )
    if not prints:
        uses = "one use" if token.use.uses == 1 else f"{token.use.uses} uses"
        terminal.line(
            f"wrote a token with {uses}, valid until {time_text(token.use.expires_ns)}, to "
            f"{printable(arguments.out)}"
        )
        terminal.line(f"the authority's fingerprint is {authority.fingerprint}")
    return EXIT_DONE


def _write_table(terminal: Terminal, headings: list[str], rows: list[list[str]]) -> None:
    write_table(terminal, [Column(heading) for heading in headings], rows)


def _token_fields(identifier: str, use: TokenUse) -> dict[str, object]:
    return {
        "id": identifier,
        "name": use.name,
        "names": use.pattern,
        "role": use.role,
        "group": use.group,
        "uses": use.uses,
        "uses_left": use.uses_left,
        "expires": utc_text(use.expires_ns),
    }


def _certificate_object(entry: Issued, *, revoked: bool) -> dict[str, object]:
    return {
        "type": "certificate",
        "serial": entry.serial,
        "name": entry.name,
        "role": entry.role,
        "issued": utc_text(entry.issued_ns),
        "not_after": utc_text(entry.not_after_ns),
        "revoked": revoked,
    }
