"""`strongroom init`: make a repository and its first passphrase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.cli.access import open_store, repository_place
from strongroom.cli.passphrase import choose_passphrase, given_passphrase
from strongroom.content.ciphers import CIPHER_NAMES, NONE, parse_encryption
from strongroom.errors import (
    EXIT_DONE,
    ObjectMissingError,
    RepositoryExistsError,
    RepositoryNotFoundError,
    UsageError,
)
from strongroom.printable import printable
from strongroom.repo.repository import Repository
from strongroom.stores.capabilities import HoldsReserve
from strongroom.stores.local import LocalStore
from strongroom.stores.local_place import require_own_folder

if TYPE_CHECKING:
    import argparse

    from strongroom.cli.terminal import Terminal
    from strongroom.stores.store import Store

EPILOG = """\
examples:
  strongroom init --repo /mnt/backup/repository
  strongroom init --repo /mnt/backup/repository --password-file /root/passphrase --label laptop
  strongroom init --repo /tmp/test --encryption none
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a new repository."""
    parser.add_argument(
        "--encryption",
        choices=("auto", *(CIPHER_NAMES[cipher] for cipher in sorted(CIPHER_NAMES, reverse=True))),
        default="auto",
        help="auto takes aes-256-gcm where the processor has instructions for it, else "
        "chacha20-poly1305; none lets everybody with access to the store read everything",
    )
    parser.add_argument(
        "--label", metavar="TEXT", default="", help="a note beside the passphrase (`key list`)"
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make the repository; RepositoryExistsError where there is one."""
    if arguments.settings.key_file:
        raise UsageError("a new repository gets a new key; give a passphrase, not --key-file")
    place = repository_place(arguments)
    encrypted = parse_encryption(arguments.encryption) != NONE
    store = open_store(place, arguments.settings)
    try:
        _require_vacant(store)
        passphrase = given_passphrase(arguments.settings, terminal)
        if passphrase is None and encrypted:
            passphrase = choose_passphrase("passphrase for the new repository")
        repository = Repository.create(
            store, passphrase, encryption=arguments.encryption, label=arguments.label
        )
        if (reserve := store.capability(HoldsReserve)) is not None:
            reserve.make_reserve()
        _report(repository, terminal, has_passphrase=passphrase is not None)
    finally:
        store.close()
    return EXIT_DONE


def _require_vacant(store: Store) -> None:
    """Check before asking for a passphrase."""
    if isinstance(store, LocalStore):
        require_own_folder(store.location)
    try:
        store.info("config", "config")
    except (ObjectMissingError, RepositoryNotFoundError):
        return
    raise RepositoryExistsError(
        f"there is a repository at {printable(store.location)} already; nothing was changed"
    )


def _report(repository: Repository, terminal: Terminal, *, has_passphrase: bool) -> None:
    location = printable(repository.store.location)
    terminal.emit(
        {
            "type": "repository",
            "id": repository.config.id,
            "location": repository.store.location,
            "encryption": repository.config.encryption,
            "has_passphrase": has_passphrase,
        }
    )
    terminal.line(f"repository {repository.config.id} is ready at {location}")
    if repository.encrypted:
        terminal.line(f"encryption: {repository.config.encryption}")
    else:
        terminal.warn(
            "THIS REPOSITORY IS NOT ENCRYPTED: anybody with access to it can read every file"
        )
    if has_passphrase:
        terminal.line()
        terminal.line("Keep the passphrase where it survives the loss of this machine:")
        terminal.line("without it nothing can be restored.")
    terminal.line()
    terminal.line("For a machine that only adds backups export a put key, which cannot read them:")
    terminal.line(f"  strongroom key export-put put.key --repo {location}")
