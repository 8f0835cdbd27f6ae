"""Global options of every command: repository, keys, output; read once, at the edge.

Command-line options win over the environment, of which only STRONGROOM_REPOSITORY,
STRONGROOM_DIRECTOR, STRONGROOM_PASSWORD and the usual places of the cache and of the user's own
settings (XDG_CACHE_HOME, XDG_CONFIG_HOME, HOME) are read, and, for tests with failing stores,
STRONGROOM_STORE_FAULTS (its syntax: strongroom.stores.faults). Nothing deeper in the engine reads
options or environment.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from strongroom.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import MutableMapping

    from strongroom.net.control.messages import TlsMode


GLOBAL_OPTIONS_TITLE = "options of every command"


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


def add_global_options(parser: argparse.ArgumentParser, default: object = None) -> None:
    """Give `parser` the options every command takes.

    `default` is argparse.SUPPRESS for the parsers of sub-commands, so that they keep the options
    given before the sub-command.
    """
    from strongroom.knobs.table import TLS_MODE_DEFAULT, TLS_MODES, TLS_OPTION

    group = parser.add_argument_group(GLOBAL_OPTIONS_TITLE)
    add = group.add_argument
    add(
        "-r",
        "--repo",
        metavar="PLACE",
        default=default,
        help="the repository: a folder, strongroom://HOST:PORT, or unix:SOCKET of a storage "
        "daemon (else $STRONGROOM_REPOSITORY)",
    )
    add(
        "--password-file",
        metavar="FILE",
        default=default,
        help="read the passphrase from the first line of FILE (else $STRONGROOM_PASSWORD, "
        "else ask on a terminal)",
    )
    add(
        "--password-command",
        metavar="COMMAND",
        default=default,
        help="read the passphrase from the output of COMMAND",
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
        default=default,
        help="keep the cache in FOLDER (else in $XDG_CACHE_HOME/strongroom)",
    )
    add("--no-cache", action="store_true", default=default or False, help="keep no cache")
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

    Takes the passphrase out of `environment`, so that no command the engine starts inherits it.
    Raises UsageError for a `--repo` without a value, which `--repo "$UNSET"` of a script is: it
    must not become another repository.
    """
    if arguments.repo == "":
        raise UsageError("--repo is empty; leave it out to use $STRONGROOM_REPOSITORY")
    password = environment.pop("STRONGROOM_PASSWORD", None)
    told_otherwise = arguments.password_file or arguments.password_command or arguments.key_file
    return Settings(
        repository=arguments.repo or environment.get("STRONGROOM_REPOSITORY") or None,
        password=None if told_otherwise else password,
        password_file=arguments.password_file,
        password_command=arguments.password_command,
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
    )


def _cache_folder(
    arguments: argparse.Namespace, environment: MutableMapping[str, str]
) -> bytes | None:
    if arguments.no_cache:
        return None
    if arguments.cache_dir:
        return os.fsencode(arguments.cache_dir)
    return _user_folder(environment, "XDG_CACHE_HOME", ".cache")


def _user_folder(environment: MutableMapping[str, str], variable: str, usual: str) -> bytes | None:
    # The XDG rule: a relative path in the variable counts as unset.
    if (base := environment.get(variable, "")).startswith("/"):
        return os.fsencode(os.path.join(base, "strongroom"))
    if home := environment.get("HOME"):
        return os.fsencode(os.path.join(home, usual, "strongroom"))
    return None
