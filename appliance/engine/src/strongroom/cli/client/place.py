"""Which director a console command talks to, and as whom: options, environment, settings files.

In this order, each filling in what those before it left open:

    --director, --token-file, --identity, --authority
    $STRONGROOM_DIRECTOR
    ~/.config/strongroom/console.toml    director, token-file, identity, authority as above
    /etc/strongroom/console.conf, .d     a Console or Director resource, as of bconsole

A token or an identity is who we are; the authority is how we know the director.
"""

from __future__ import annotations

import argparse
import os
from urllib.parse import urlsplit

import msgspec

from strongroom.base.errors import UsageError
from strongroom.cli.settings import USUAL_CONFIGURATION, Settings

DEFAULT_PORT = 9101
GREATEST_TOKEN_BYTES = 4096
_CONSOLE_FILES = ("console.conf", "console.d", "bconsole.conf")


class DirectorAccess(msgspec.Struct, frozen=True):
    """Where the director is and how both sides prove who they are; "" where nothing was given.

    `identity`: a folder with certificate.pem, key.pem and authority.pem; `certificate` and `key`
    are the same as single files.
    """

    url: str = ""
    token_file: str = ""
    identity: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = ""

    def filled_from(self, other: DirectorAccess) -> DirectorAccess:
        """The same, what it leaves open taken from `other`."""
        return msgspec.structs.replace(
            self,
            **{
                name: getattr(self, name) or getattr(other, name) for name in self.__struct_fields__
            },
        )

    def token(self) -> str:
        """The token, "" without one. Raises UsageError."""
        if not self.token_file:
            return ""
        try:
            with open(self.token_file, encoding="ascii") as file:
                text = file.read(GREATEST_TOKEN_BYTES).strip()
        except OSError as error:
            raise UsageError(
                f"cannot read --token-file {self.token_file}: {error.strerror}"
            ) from error
        except UnicodeDecodeError:
            text = ""
        if len(text.split()) != 1 or not text.isprintable():
            raise UsageError(
                f"--token-file {self.token_file} holds no token: it must hold one word, as "
                "`strongroom token create` writes it"
            )
        return text


def add_director_options(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the options of every command that asks the director."""
    group = parser.add_argument_group(
        "which director", "Defaults are in ~/.config/strongroom/console.toml."
    )
    group.add_argument(
        "--director",
        metavar="URL",
        help=f"https://NAME[:PORT], port {DEFAULT_PORT} (else $STRONGROOM_DIRECTOR)",
    )
    group.add_argument("--token-file", metavar="FILE", help="authenticate with the token in FILE")
    group.add_argument(
        "--identity",
        metavar="FOLDER",
        help="authenticate with the certificate in FOLDER (certificate.pem, key.pem, "
        "authority.pem)",
    )
    group.add_argument(
        "--authority",
        metavar="FILE",
        help="the authority that must have issued the director's certificate (else "
        "authority.pem of --identity)",
    )


def asks_director(arguments: argparse.Namespace) -> bool:
    """Whether a command that inspects snapshots asks the director.

    It does if one is named; or if no repository is named, and settings name a director. What a
    repository held at a time (--at) only that itself can show.
    """
    settings: Settings = arguments.settings
    if getattr(arguments, "at", None) is not None:
        return False
    if arguments.director:
        return True
    if settings.repository:
        return False
    try:
        director_place(arguments)
    except UsageError:
        return False
    return True


def director_place(arguments: argparse.Namespace) -> DirectorAccess:
    """Settle where the director is. Raises UsageError, ConfigurationError."""
    settings: Settings = arguments.settings
    place = DirectorAccess(
        url=arguments.director or settings.director or "",
        token_file=arguments.token_file or "",
        identity=arguments.identity or "",
        authority=arguments.authority or "",
    )
    if settings.configuration_folder is not None:
        file = os.path.join(os.fsdecode(settings.configuration_folder), "console.toml")
        place = place.filled_from(_without_rival(place, read_console_settings(file)))
    if not place.url:
        place = place.filled_from(_without_rival(place, read_console_resource(USUAL_CONFIGURATION)))
    if not place.url:
        raise UsageError(
            "no director was named; use --director or $STRONGROOM_DIRECTOR, or write "
            '`director = "https://NAME"` to ~/.config/strongroom/console.toml'
        )
    return msgspec.structs.replace(place, url=normal_url(place.url))


def normal_url(text: str) -> str:
    """`https://HOST:PORT` of what the user wrote: also `HOST` or `HOST:PORT`. Raises UsageError."""
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise _no_director(text) from None
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/"):
        raise _no_director(text)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"https://{host}:{port}"


def read_console_settings(path: str) -> DirectorAccess:
    """What console.toml says; nothing when there is none. Raises UsageError."""
    import tomllib

    try:
        with open(path, "rb") as file:
            stated = tomllib.load(file)
    except FileNotFoundError:
        return DirectorAccess()
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    known = {"director": "url", "token-file": "token_file", "identity": "identity",
             "authority": "authority"}  # fmt: skip
    for name, value in stated.items():
        if name not in known or not isinstance(value, str):
            raise UsageError(f"{path}: `{name}`: known are {', '.join(known)}, all of them texts")
    home = os.path.dirname(path)
    values = {known[name]: value for name, value in stated.items()}
    for name in ("token_file", "identity", "authority"):
        if values.get(name):
            values[name] = os.path.join(home, os.path.expanduser(values[name]))
    return DirectorAccess(**values)


def read_console_resource(folder: str) -> DirectorAccess:
    """What the first Director resource of a console's configuration in `folder` says."""
    path = next(
        (path for name in _CONSOLE_FILES if os.path.exists(path := os.path.join(folder, name))), ""
    )
    if not path:
        return DirectorAccess()
    from strongroom.config.resolve import load
    from strongroom.config.settings.daemons import port_number

    console = load(path, component="console").console
    director = None if console is None else console.first("Director")
    if console is None or director is None:
        return DirectorAccess()
    owner = console.first("Console") or director
    address = director.text("address")
    shown = f"[{address}]" if ":" in address else address

    def of_both(name: str) -> str:
        return owner.text(name) or director.text(name)

    return DirectorAccess(
        url=f"https://{shown}:{port_number(director.value('port'))}",
        authority=of_both("tls_ca_certificate_file"),
        certificate=of_both("tls_certificate"),
        key=of_both("tls_key"),
    )


def _without_rival(place: DirectorAccess, other: DirectorAccess) -> DirectorAccess:
    """`other` without its way to say who we are where `place` has one already."""
    if place.token_file or place.identity:
        return msgspec.structs.replace(other, token_file="", identity="", certificate="", key="")
    return other


def _no_director(text: str) -> UsageError:
    return UsageError(f"{text!r} names no director; write https://NAME or https://NAME:PORT")
