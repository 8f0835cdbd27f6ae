"""Global options of every command: repository, keys, output; read once, at the edge.

Command-line options win over the environment, of which only STRONGROOM_REPOSITORY,
STRONGROOM_DIRECTOR, STRONGROOM_PASSWORD (or _FILE, or _COMMAND) and the usual places of the cache
and of the user's own settings (XDG_CACHE_HOME, XDG_CONFIG_HOME, HOME) are read, and, for tests with
failing stores, STRONGROOM_STORE_FAULTS (strongroom.engine.stores.faults has its syntax). Nothing
deeper reads options or environment.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, NamedTuple

from strongroom.base.errors import UsageError
from strongroom.cli.options import rate

if TYPE_CHECKING:
    from strongroom.engine.stores.shared_counts import Traffic
    from strongroom.net.control.messages import TlsMode


GLOBAL_OPTIONS_TITLE = "options of every command"
USUAL_CONFIGURATION = "/etc/strongroom"


class Settings(NamedTuple):
    """The resolved global options; None where not set."""

    repository: str | None
    password: str | None
    password_file: str | None
    password_command: str | None
    key_file: str | None
    cache_folder: bytes | None  # None: keep no cache
    as_json: bool
    quiet: bool
    verbose: int
    store_faults: str | None = None
    director: str | None = None
    configuration_folder: bytes | None = None  # the user's own; None: there is no such place
    identity_folder: str | None = None  # our certificate, for a storage daemon
    tls_mode: TlsMode = "tls"
    limit_upload: int = 0  # bytes a second; 0: no limit
    limit_download: int = 0
    # Of the stores behind a network that the command has opened.
    traffic: list[Traffic] | None = None


def add_global_options(parser: argparse.ArgumentParser, default: object = None) -> None:
    """Give `parser` the options every command takes.

    `default` is argparse.SUPPRESS for the parsers of sub-commands, so that they keep the options
    given before the sub-command.
    """
    from strongroom.engine.knobs.table import TLS_MODE_DEFAULT, TLS_MODES, TLS_OPTION

    group = parser.add_argument_group(GLOBAL_OPTIONS_TITLE)
    add = group.add_argument
    add(
        "-r",
        "--repo",
        metavar="PLACE",
        default=default,
        help="the repository: a folder, ssh://HOST/PATH, sftp://HOST/PATH, s3://BUCKET/PREFIX, "
        "strongroom://HOST:PORT, or unix:SOCKET of a storage daemon (else $STRONGROOM_REPOSITORY)",
    )
    add(
        "--password-file",
        metavar="FILE",
        default=default,
        help="read the passphrase from the first line of FILE (else $STRONGROOM_PASSWORD_FILE, "
        "$STRONGROOM_PASSWORD_COMMAND or $STRONGROOM_PASSWORD, else ask on a terminal)",
    )
    add(
        "--password-command",
        metavar="COMMAND",
        default=default,
        help="read the passphrase from the first line that COMMAND prints; it gets no shell",
    )
    add(
        "--key-file",
        metavar="FILE",
        default=default,
        help="open with an exported put key instead of a passphrase",
    )
    add(
        "--json",
        action="store_true",
        default=default or False,
        help="write JSON, one object a line",
    )
    add(
        "-q",
        "--quiet",
        action="store_true",
        default=default or False,
        help="print errors and warnings only",
    )
    add(
        "-v",
        "--verbose",
        action="count",
        default=default or 0,
        help="print more; twice for still more",
    )
    add(
        "--cache-dir",
        metavar="FOLDER",
        type=os.fsencode,
        default=default,
        help="keep the cache in FOLDER (else in $XDG_CACHE_HOME/strongroom)",
    )
    add("--no-cache", action="store_true", default=default or False, help="keep no cache")
    add(
        "--limit-upload",
        metavar="RATE",
        type=rate,
        default=default or 0,
        help="write to the repository with at most RATE a second: 20mb counts in 1000, 20m in 1024",
    )
    add(
        "--limit-download",
        metavar="RATE",
        type=rate,
        default=default or 0,
        help="read from the repository with at most RATE a second",
    )
    # Commands that use the director have this option already, with the same meaning.
    if "--identity" not in parser._option_string_actions:  # noqa: SLF001
        add(
            "--identity",
            metavar="FOLDER",
            default=default,
            help="the folder of our certificate, for --repo strongroom://",
        )
    add(
        TLS_OPTION.flag,
        choices=TLS_MODES,
        default=default or TLS_MODE_DEFAULT,
        help=TLS_OPTION.help,
    )


def read_settings(arguments: argparse.Namespace, environment: MutableMapping[str, str]) -> Settings:
    """Resolve the global options from `arguments` and `environment`.

    Takes the passphrase, and how to get it, out of `environment`, so that no command the engine
    starts inherits it. Raises UsageError where the environment states several passphrases.
    """
    secret = _secret_of_environment(environment)
    if arguments.password_file or arguments.password_command or arguments.key_file:
        secret = _Secret(None, arguments.password_file, arguments.password_command)
    elif sum(map(bool, secret)) > 1:
        names = ("", "_FILE", "_COMMAND")
        stated = [
            f"$STRONGROOM_PASSWORD{name}" for name, one in zip(names, secret, strict=True) if one
        ]
        raise UsageError(f"{' and '.join(stated)} exclude each other; unset all but one")
    return Settings(
        repository=arguments.repo or environment.get("STRONGROOM_REPOSITORY") or None,
        password=secret.password,
        password_file=secret.file,
        password_command=secret.command,
        key_file=arguments.key_file,
        cache_folder=_cache_folder(arguments, environment),
        director=environment.get("STRONGROOM_DIRECTOR") or None,
        configuration_folder=_user_folder(environment, "XDG_CONFIG_HOME", ".config"),
        as_json=arguments.json,
        quiet=arguments.quiet,
        verbose=arguments.verbose,
        store_faults=environment.get("STRONGROOM_STORE_FAULTS"),
        identity_folder=arguments.identity,
        tls_mode=arguments.tls,
        limit_upload=arguments.limit_upload,
        limit_download=arguments.limit_download,
        traffic=[] if arguments.verbose else None,
    )


class _Secret(NamedTuple):
    """How the passphrase is stated: itself, by a file, by a command; None where not."""

    password: str | None
    file: str | None
    command: str | None


def _secret_of_environment(environment: MutableMapping[str, str]) -> _Secret:
    """Take the passphrase out of `environment`; an empty file or command is none."""
    password = environment.pop("STRONGROOM_PASSWORD", None)
    file = environment.pop("STRONGROOM_PASSWORD_FILE", None) or None
    command = environment.pop("STRONGROOM_PASSWORD_COMMAND", None) or None
    return _Secret(password, file, command)


def _cache_folder(
    arguments: argparse.Namespace, environment: MutableMapping[str, str]
) -> bytes | None:
    if arguments.no_cache:
        return None
    if folder := arguments.cache_dir:
        return bytes(folder)
    return _user_folder(environment, "XDG_CACHE_HOME", ".cache")


def _user_folder(environment: MutableMapping[str, str], variable: str, usual: str) -> bytes | None:
    # The XDG rule: a relative path in the variable counts as unset.
    if (base := environment.get(variable, "")).startswith("/"):
        return os.fsencode(os.path.join(base, "strongroom"))
    if home := environment.get("HOME"):
        return os.fsencode(os.path.join(home, usual, "strongroom"))
    return None
