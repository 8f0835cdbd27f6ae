"""What `strongroom ca token` does: enrolment tokens of an authority."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from strongroom.base.clock import local_text, utc_text
from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.cli.passphrase import given_passphrase
from strongroom.cli.terminal import Terminal
from strongroom.net.identities.private_files import SECRET_MODE, write_file

if TYPE_CHECKING:
    from strongroom.net.identities.authority import Authority
    from strongroom.net.identities.enrolment_tokens import TokenUse

_GREATEST_LIFETIME_SECONDS: Final = 30 * 86400


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


def token_fields(identifier: str, use: TokenUse) -> dict[str, object]:
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
