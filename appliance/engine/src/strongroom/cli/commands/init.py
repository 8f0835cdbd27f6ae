"""`strongroom init`: make a repository and its first passphrase."""

from __future__ import annotations

import argparse
import shlex

from strongroom.base.errors import (
    EXIT_DONE,
    DamageError,
    ObjectMissingError,
    RepositoryExistsError,
    RepositoryNotFoundError,
    UnknownFormatError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.cli.access import open_store, repository_place
from strongroom.cli.options import exact_seconds, stored_text
from strongroom.cli.passphrase import choose_passphrase, given_passphrase, warn_if_weak
from strongroom.cli.terminal import Terminal
from strongroom.engine.content.ciphers import CIPHER_NAMES, NONE, parse_encryption
from strongroom.engine.repository.configuration import MOST_LOCK_SECONDS, decode_config
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.capabilities import HoldsReserve
from strongroom.engine.stores.local import LocalStore
from strongroom.engine.stores.local_place import require_own_folder
from strongroom.engine.stores.object_lock import LOCK_MODES, LockRule
from strongroom.engine.stores.store import Store

EPILOG = """\
examples:
  strongroom init --repo /mnt/backup/repository
  strongroom init --repo /mnt/backup/repository --password-file /root/passphrase --label laptop
  strongroom init --repo /tmp/test --encryption none
  strongroom init --repo s3://my-bucket/web1 --lock-for 30d --lock-mode compliance
"""

_LEAST_LOCK_SECONDS = 86400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a new repository."""
    parser.add_argument(
        "--encryption",
        choices=("auto", *(CIPHER_NAMES[cipher] for cipher in sorted(CIPHER_NAMES, reverse=True))),
        default="auto",
        help="auto takes aes-256-gcm where the processor has instructions for it, else "
        "chacha20-poly1305; with none anyone with access to the store can read everything",
    )
    parser.add_argument(
        "--label",
        metavar="TEXT",
        default="",
        type=stored_text,
        help="a note for this passphrase (`key list`)",
    )
    parser.add_argument(
        "--lock-for",
        metavar="DURATION",
        type=exact_seconds,
        help="s3: only: no one can remove what is stored for this long (object lock), such as 30d; "
        "see `strongroom lock`",
    )
    parser.add_argument(
        "--lock-mode",
        choices=LOCK_MODES,
        help="governance: except who has the right s3:BypassGovernanceRetention; compliance: "
        "really no one, not even the owner of the bucket (default: governance)",
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Make the repository; RepositoryExistsError where there is one."""
    if arguments.settings.key_file:
        raise UsageError("a new repository gets a new key; give a passphrase, not --key-file")
    lock = _lock_rule(arguments)
    place = repository_place(arguments)
    encrypted = parse_encryption(arguments.encryption) != NONE
    store = open_store(place, arguments.settings)
    try:
        _require_vacant(store)
        passphrase = given_passphrase(arguments.settings, terminal)
        if passphrase is None and encrypted:
            passphrase = choose_passphrase("passphrase for the new repository")
        if passphrase is not None:
            warn_if_weak(passphrase, terminal)
        repository = Repository.create(
            store, passphrase, encryption=arguments.encryption, label=arguments.label, lock=lock
        )
        if (reserve := store.capability(HoldsReserve)) is not None:
            reserve.make_reserve()
        _report(repository, terminal, has_passphrase=passphrase is not None)
    finally:
        store.close()
    return EXIT_DONE


def _lock_rule(arguments: argparse.Namespace) -> LockRule | None:
    """How objects are to be locked. Raises UsageError."""
    if arguments.lock_for is None:
        if arguments.lock_mode is not None:
            raise UsageError("--lock-mode says how --lock-for locks; give both")
        return None
    if not _LEAST_LOCK_SECONDS <= arguments.lock_for <= MOST_LOCK_SECONDS:
        raise UsageError("--lock-for takes a number of days from 1 on (30d, 8w), not months")
    return LockRule(arguments.lock_for, arguments.lock_mode or "governance")


def _require_vacant(store: Store) -> None:
    """Check before asking for a passphrase. Raises RepositoryExistsError."""
    if isinstance(store, LocalStore):
        require_own_folder(store.location)
    try:
        stored = store.get("config", "config")
    except (ObjectMissingError, RepositoryNotFoundError):
        return
    place = printable(store.location)
    try:
        decode_config(stored)
    except DamageError as error:
        raise RepositoryExistsError(
            f"the file config at {place} is not that of a Strongroom repository, or is damaged; "
            "nothing was changed. Repositories of restic, borg and git have such a file, too. "
            "Choose an empty folder"
        ) from error
    except UnknownFormatError:
        pass  # it is one of a newer version
    raise RepositoryExistsError(
        f"{place} is already a repository; nothing was changed. Use it "
        f"(`strongroom snapshots --repo {shlex.quote(place)}`), or choose another folder"
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
            "lock_seconds": repository.config.lock_seconds,
            "lock_mode": repository.config.lock_mode,
        }
    )
    terminal.line(f"repository {repository.config.id} is ready at {location}")
    if repository.encrypted:
        terminal.line(f"encryption: {repository.config.encryption}")
    else:
        terminal.warn(
            "THIS REPOSITORY IS NOT ENCRYPTED: anyone with access to it can read every file"
        )
    rule = repository.config.lock_rule
    if rule is not None:
        terminal.line(
            f"object lock: {rule.mode}, {counted(rule.seconds // 86400, 'day')}; run "
            "`strongroom lock` every day to extend it for what snapshots use"
        )
    if has_passphrase:
        terminal.line()
        terminal.line("Keep a copy of the passphrase outside of this machine:")
        terminal.line("without it nothing can be restored.")
    terminal.line()
    terminal.line("A machine that should only add backups needs a put key, which cannot read them:")
    terminal.line(f"  strongroom key export-put put.key --repo {shlex.quote(location)}")
