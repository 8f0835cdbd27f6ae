"""`strongroom token`: tokens of the director's API, for clients without a certificate."""

from __future__ import annotations

import argparse
import os
from typing import Self

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import EXIT_DONE, UsageError, os_errors
from strongroom.base.printable import printable
from strongroom.cli.client.place import add_director_options
from strongroom.cli.client.view import ApiObject, local_time, show_listing
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom token create prometheus --profile monitoring --output /etc/prometheus/strongroom.token
  strongroom token create ann --profile all --lifetime 30d --output ~/.config/strongroom/token
  strongroom token list
  strongroom token withdraw 4f1c02aa

NAME is a Console or User resource of the director, whose permissions the token has; with --profile
only those that the Profile allows as well. Without such a resource the token has the Profile's
permissions. The token ends when one of them is removed or renamed. The director stores a digest
only: a lost token must be replaced.
"""
_COLUMNS = ("TOKEN", "NAME", "PROFILE", "MADE", "EXPIRES", "LAST USED")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add create, list and withdraw."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    create = actions.add_parser("create", help="create a token and show it once")
    create.add_argument("name", metavar="NAME")
    create.add_argument(
        "--profile", metavar="NAME", default="", help="restrict the token to this Profile"
    )
    create.add_argument(
        "--lifetime", metavar="TIME", type=_lifetime_seconds, default="90d",
        help="lifetime: 12h, 90d, 1y, or `never` (default: 90d)",
    )  # fmt: skip
    create.add_argument(
        "-o", "--output", metavar="FILE", help="write it to FILE (new, mode 0600) instead"
    )
    create.set_defaults(run=_create)
    withdraw = actions.add_parser("withdraw", help="revoke a token at once")
    withdraw.add_argument("token_id", metavar="TOKEN", help="its id, as `list` shows it")
    withdraw.set_defaults(run=_withdraw)
    listing = actions.add_parser("list", help="list tokens")
    listing.set_defaults(run=_list, lists=True)
    for one in (create, listing, withdraw):
        add_director_options(one)


def _create(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.cli.client.client import open_director

    body = {
        "name": arguments.name,
        "profile": arguments.profile,
        "lifetime_seconds": arguments.lifetime,
    }
    with open_director(arguments) as director:
        with _TokenFile(arguments.output) as file:
            made = director.post("/tokens", body)
            file.keep(made["text"])
        _tell_new(made, arguments.output, terminal)
    return EXIT_DONE


def _withdraw(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.cli.client.client import named, open_director

    with open_director(arguments) as director:
        found = director.delete(f"/tokens/{named(arguments.token_id)}")
    terminal.emit({"type": "token", **found})
    terminal.line(f"token {found['id']} of {printable(found['name'])} is withdrawn")
    return EXIT_DONE


class _TokenFile:
    """The file for a new token, created first so that no token is made without it."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> Self:
        if self._path:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os_errors(f"cannot make {self._path}"):
                self._descriptor = os.open(self._path, flags, 0o600)
        return self

    def keep(self, text: str) -> None:
        """Write the token."""
        if self._descriptor >= 0:
            os.write(self._descriptor, text.encode("ascii") + b"\n")
            os.fsync(self._descriptor)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            if kind is not None and self._path:
                os.unlink(self._path)


def _list(arguments: argparse.Namespace, terminal: Terminal) -> int:
    from strongroom.cli.client.client import open_director

    with open_director(arguments) as director:
        found = list(director.pages("/tokens"))
    show_listing(terminal, "token", found, _COLUMNS, _row)
    return EXIT_DONE


def _row(token: ApiObject) -> list[str]:
    return [
        token["id"],
        printable(token["name"]),
        printable(token["profile"]),
        local_time(token["created"]),
        local_time(token["expires"]) or "never",
        local_time(token["last_used"]) or "never",
    ]


def _tell_new(made: ApiObject, path: str | None, terminal: Terminal) -> None:
    token = made["token"]
    until = local_time(token["expires"]) or "it is withdrawn"
    shown = {} if path else {"text": made["text"]}
    terminal.emit({"type": "token", **token, **shown})
    if path:
        terminal.line(f"token {token['id']} is in {path}, good until {until}")
    elif not terminal.as_json:
        terminal.word(made["text"])
        terminal.message_line(f"token {token['id']}, good until {until}; it is not shown again")


def _lifetime_seconds(text: str) -> int:
    if text == "never":
        return 0
    from strongroom.engine.prune.retention import parse_duration

    now_ns = clock.now_ns()
    seconds = (now_ns - parse_duration(text).before(now_ns)) // SECOND_NS
    if seconds < 60:
        raise UsageError("write at least a minute, or `never`")
    return seconds
