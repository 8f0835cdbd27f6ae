"""`strongroom serve`: a repository for another machine, over ssh."""

from __future__ import annotations

import argparse
import os

from strongroom.base.errors import EXIT_DONE, UsageError
from strongroom.cli.terminal import Terminal

EPILOG = """\
examples:
  strongroom serve --stdio --path /srv/repository
  strongroom serve --append-only --path /srv/repository

ssh starts the first on the host of a place such as ssh://backup@vault.example.com/srv/repository.
The second is for ~/.ssh/authorized_keys there, in one line before the key of a machine that may
add backups and nothing else:
  restrict,command="strongroom serve --append-only --path /srv/repository" ssh-ed25519 AAAA...
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--path", metavar="DIR", required=True, help="the folder of the repository")
    parser.add_argument(
        "--append-only",
        action="store_true",
        help="let the other machine read and add; it removes and replaces nothing",
    )
    # There is no other way yet; the option says what the command does to its standard streams.
    parser.add_argument(
        "--stdio", action="store_true", help="speak over standard input and output (it always does)"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until the other side leaves. Raises StoreError, RepositoryExistsError, UsageError."""
    from strongroom.engine.stores.place import FolderLocation, place_of
    from strongroom.service.service_manager import begin_log
    from strongroom.storage.standard_streams import serve_standard_streams

    if not isinstance(place_of(arguments.path), FolderLocation):
        raise UsageError("--path is a folder of this machine")
    if os.isatty(0):
        raise UsageError("serve is started by ssh, for another machine; see `strongroom serve -h`")
    begin_log(verbose=arguments.verbose)
    folder = os.path.abspath(os.fsencode(arguments.path))
    serve_standard_streams(folder, append_only=arguments.append_only)
    return EXIT_DONE
