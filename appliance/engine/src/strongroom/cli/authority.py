"""What `strongroom ca` does: the authority, its certificates, enrolment tokens."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from strongroom.base import clock
from strongroom.base.clock import local_text, utc_text
from strongroom.base.errors import EXIT_DONE, UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.cli.passphrase import choose_passphrase, given_passphrase, warn_if_weak
from strongroom.cli.table import write_table
from strongroom.cli.terminal import JsonObject, Terminal
from strongroom.net.identities.private_files import (
    PUBLIC_MODE,
    SECRET_MODE,
    give_tree,
    read_bounded,
    write_file,
)

if TYPE_CHECKING:
    from strongroom.net.identities.authority import Authority
    from strongroom.net.identities.authority_files import Issued
    from strongroom.net.identities.enrolment_tokens import TokenUse
    from strongroom.net.identities.peer import ClientOf

_GREATEST_LIFETIME_SECONDS: Final = 30 * 86400
_GREATEST_REQUEST_BYTES: Final = 16 << 10


def make_authority(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make an authority where there is none."""
    from strongroom.net.identities.authority import Authority

    passphrase = None
    if arguments.encrypt_key:
        passphrase = given_passphrase(arguments.settings, terminal)
        if passphrase is None:
            passphrase = choose_passphrase("passphrase of the authority's key")
        warn_if_weak(passphrase, terminal)
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


def issue_certificate(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Issue a certificate, or make a whole identity."""
    if bool(arguments.folder) == bool(arguments.request):
        raise UsageError("name either --folder, for a new identity, or --request")
    if arguments.folder and arguments.out:
        raise UsageError("--out needs --request; with --folder everything is written to the folder")
    if arguments.owner and not arguments.folder:
        raise UsageError("--owner needs --folder")
    if arguments.appliance_key and arguments.role != "agent":
        raise UsageError("--appliance-key is only for agents")
    clients = [_client_of(file, arguments) for file in arguments.appliance_key]
    authority = open_authority(arguments, terminal)
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
        with os_errors(f"cannot read {printable(arguments.request)}"):
            request = read_bounded(os.fsencode(arguments.request), _GREATEST_REQUEST_BYTES)
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
        until = local_text(entry.not_after_ns)
        terminal.line(f"issued {entry.role} {printable(entry.name)!r} until {until}: {place}")
    if not arguments.folder:
        revoked = os.fsdecode(authority.revoked_path)
        terminal.line(
            f"put {printable(revoked)} beside it: without that list no certificate is trusted"
        )
    return EXIT_DONE


def _client_of(file: str, arguments: argparse.Namespace) -> ClientOf:
    """Which client the name is in the repository of an appliance key."""
    from strongroom.cli.access import read_key_file
    from strongroom.engine.repository.keys.roles import ApplianceKey
    from strongroom.net.identities.peer import ClientOf

    key = read_key_file(file)
    if not isinstance(key, ApplianceKey):
        raise UsageError(
            f"{printable(file)} is not an appliance key; make one with `strongroom key "
            "export-appliance`"
        )
    return ClientOf(key.repository_id, key.client_id(arguments.name, arguments.generation))


def revoke_name(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Revoke the certificates of a name."""
    authority = open_authority(arguments, terminal)
    revoked = authority.revoke(arguments.name, arguments.issued_before)
    for entry in revoked:
        terminal.emit(_certificate_object(entry, revoked=True))
        terminal.line(f"revoked {entry.role} {printable(entry.name)!r}, serial {entry.serial}")
    if not revoked:
        terminal.line("nothing to do: already expired or revoked")
    return EXIT_DONE


def permit_renewal(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Let the holder of a certificate renew it before it is due."""
    for entry in open_authority(arguments, terminal).permit_renewal(arguments.name):
        terminal.emit(_certificate_object(entry, revoked=False))
        terminal.line(f"{entry.role} {printable(entry.name)!r} may now renew its certificate once")
    return EXIT_DONE


def list_issued(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """List certificates and unused tokens."""
    authority = open_authority(arguments, terminal)
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
        until = local_text(entry.not_after_ns)
        rows.append(
            [printable(entry.name), entry.role, until, state if arguments.all else "", entry.serial]
        )
    write_table(terminal, ["NAME", "ROLE", "UNTIL", "STATE", "SERIAL"], rows)
    token_rows = []
    for identifier, use in authority.tokens.unused():
        terminal.emit(
            {
                "type": "enrolment_token",
                **token_fields(identifier, use),
            }
        )
        token_rows.append(
            [
                identifier,
                printable(use.name or use.pattern),
                use.role,
                printable(use.group),
                f"{use.uses_left} of {use.uses}",
                local_text(use.expires_ns),
            ]
        )
    if token_rows:
        terminal.line()
        write_table(terminal, ["TOKEN", "FOR", "ROLE", "GROUP", "LEFT", "UNTIL"], token_rows)
    return EXIT_DONE


def _certificate_object(entry: Issued, *, revoked: bool) -> JsonObject:
    return {
        "type": "certificate",
        "serial": entry.serial,
        "name": entry.name,
        "role": entry.role,
        "issued": utc_text(entry.issued_ns),
        "not_after": utc_text(entry.not_after_ns),
        "revoked": revoked,
    }


def open_authority(arguments: argparse.Namespace, terminal: Terminal) -> Authority:
    """The authority that the arguments name."""
    from strongroom.net.identities.authority import Authority

    return Authority(arguments.ca, given_passphrase(arguments.settings, terminal))


def make_token(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make an enrolment token, or withdraw one."""
    authority = open_authority(arguments, terminal)
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
    if not 0 < arguments.lifetime <= _GREATEST_LIFETIME_SECONDS:
        raise UsageError("a token is valid for up to 30 days: write for example 15min, 1h or 2d")
    prints = arguments.out == "-"
    if not prints and os.path.lexists(arguments.out):
        raise UsageError(f"{printable(arguments.out)} is there already; name a new file")
    token = authority.tokens.create(
        arguments.name or "",
        arguments.role,
        arguments.lifetime,
        arguments.host,
        new_client=arguments.new_client,
        pattern=arguments.names or "*",
        uses=arguments.uses,
        group=arguments.group or "",
    )
    secret: JsonObject = {}
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
            **token_fields(token.id, token.use),
            "fingerprint": authority.fingerprint,
            **secret,
        }
    )
    if not prints:
        uses = counted(token.use.uses, "use")
        terminal.line(
            f"wrote a token with {uses}, valid until {local_text(token.use.expires_ns)}, to "
            f"{printable(arguments.out)}"
        )
        terminal.line(f"the authority's fingerprint is {authority.fingerprint}")
    return EXIT_DONE


def token_fields(identifier: str, use: TokenUse) -> JsonObject:
    """What is shown of a token, without its secret."""
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
