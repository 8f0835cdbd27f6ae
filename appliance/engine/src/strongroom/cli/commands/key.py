"""`strongroom key`: passphrases of a repository, and keys as files.

The restore key never changes; each passphrase wraps it once. So adding, removing or changing a
passphrase rewrites no data, and takes effect the next time the repository is opened.
"""

from __future__ import annotations

import argparse
import os
import socket

from strongroom.base.clock import local_text, utc_text
from strongroom.base.errors import EXIT_DONE, KeyRightError, UsageError, WrongKeyError
from strongroom.base.printable import printable
from strongroom.cli.access import (
    open_repository,
    open_store,
    read_key_file,
    repository_place,
)
from strongroom.cli.options import stored_text
from strongroom.cli.passphrase import (
    ask_passphrase,
    choose_passphrase,
    given_passphrase,
    passphrase_from_command,
    passphrase_from_file,
    warn_if_weak,
)
from strongroom.cli.table import write_table
from strongroom.cli.terminal import Terminal
from strongroom.engine.repository.keys.files import export_key
from strongroom.engine.repository.keys.roles import ApplianceKey, RestoreKey
from strongroom.engine.repository.keys.wrapping import unwrap_key
from strongroom.engine.repository.repository import Repository

EPILOG = """\
examples:
  strongroom key list
  strongroom key add --label "safe in the office"
  strongroom key change --new-password-file /root/new-passphrase
  strongroom key remove 3f2a
  strongroom key export-put /etc/strongroom/put.key       for this machine, which only adds
  strongroom key export-put --client web1 web1.key        for another machine
  strongroom key export-appliance appliance.key           for the director, to enrol agents
  strongroom key export-restore restore.key               to keep on paper, in a safe
  strongroom key import restore.key                       set a new passphrase when all are lost
  strongroom backup /home --repo /mnt/backup/repository --key-file /etc/strongroom/put.key
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the passphrases")
    listing.set_defaults(run=_list, lists=True)
    adding = actions.add_parser("add", help="add a passphrase")
    adding.set_defaults(run=_add)
    _add_new_passphrase_options(adding)
    removing = actions.add_parser("remove", help="remove a passphrase, but never the last one")
    removing.add_argument("id", metavar="ID", help="its id, or the beginning of it")
    removing.set_defaults(run=_remove)
    changing = actions.add_parser("change", help="replace the passphrase that opens the repository")
    changing.set_defaults(run=_change)
    _add_new_passphrase_options(changing)
    putting = actions.add_parser(
        "export-put", help="write a client's put key: it can add and deduplicate, it cannot read"
    )
    putting.add_argument("file", metavar="FILE", help="a new file; `-` prints the key")
    putting.add_argument(
        "--client",
        metavar="NAME",
        type=stored_text,
        help="of this client (else of this machine's host name)",
    )
    putting.set_defaults(run=_export_put)
    making = actions.add_parser(
        "export-appliance",
        help="write the appliance key: it makes put keys for clients, it cannot read",
    )
    making.add_argument("file", metavar="FILE", help="a new file; `-` prints the key")
    making.set_defaults(run=_export_appliance)
    restoring = actions.add_parser(
        "export-restore", help="write the restore key itself, which CAN READ EVERYTHING"
    )
    restoring.add_argument("file", metavar="FILE", help="a new file; `-` prints the key")
    restoring.set_defaults(run=_export_restore)
    importing = actions.add_parser("import", help="add a passphrase by an exported restore key")
    importing.add_argument("file", metavar="FILE", help="what export-restore wrote")
    importing.set_defaults(run=_import)
    _add_new_passphrase_options(importing)


def _add_new_passphrase_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--new-password-file",
        metavar="FILE",
        help="read the new passphrase from the first line of FILE (else ask on a terminal)",
    )
    parser.add_argument(
        "--new-password-command",
        metavar="COMMAND",
        help="read the new passphrase from the output of COMMAND",
    )
    parser.add_argument("--label", metavar="TEXT", default="", type=stored_text,
                        help="a note for this passphrase")  # fmt: skip


def _new_passphrase(arguments: argparse.Namespace, terminal: Terminal) -> bytes:
    if arguments.new_password_file and arguments.new_password_command:
        raise UsageError("--new-password-file and --new-password-command exclude each other")
    if arguments.new_password_file:
        passphrase = passphrase_from_file(arguments.new_password_file, terminal)
    elif arguments.new_password_command:
        passphrase = passphrase_from_command(arguments.new_password_command)
    else:
        options = "--new-password-file or --new-password-command"
        passphrase = choose_passphrase("new passphrase", options)
    warn_if_weak(passphrase, terminal)
    return passphrase


def _list(arguments: argparse.Namespace, terminal: Terminal) -> int:
    with open_repository(arguments, terminal, "write") as repository:
        wraps = repository.passphrases()
    for name, info in wraps:
        terminal.emit(
            {
                "type": "key",
                "id": name,
                "created": utc_text(info.created_ns),
                "label": info.label,
                "memory_kib": info.cost.memory_kib,
                "iterations": info.cost.iterations,
                "lanes": info.cost.lanes,
            }
        )
    columns = ("ID", "CREATED", "LABEL")
    rows = [[name[:8], local_text(info.created_ns), printable(info.label)] for name, info in wraps]
    write_table(terminal, columns, rows)
    if not wraps:
        terminal.line("this repository has no passphrase: its keys are stored unencrypted")
    return EXIT_DONE


def _add(arguments: argparse.Namespace, terminal: Terminal) -> int:
    with open_repository(arguments, terminal) as repository:
        _require_passphrases(repository)
        passphrase = _new_passphrase(arguments, terminal)
        _report_added(repository.add_passphrase(passphrase, arguments.label), terminal)
    return EXIT_DONE


def _remove(arguments: argparse.Namespace, terminal: Terminal) -> int:
    with open_repository(arguments, terminal) as repository:
        _remove_wrap(repository, arguments.id, terminal)
    return EXIT_DONE


def _change(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Add the new one first, so that after an interruption one of them opens the repository."""
    settings = arguments.settings
    if settings.key_file:
        raise UsageError("change needs the old passphrase; with a key file, use add")
    repository, current = _open_with_passphrase(arguments, terminal)
    try:
        old = _wrap_of(repository, current)
        passphrase = _new_passphrase(arguments, terminal)
        if passphrase == current:
            raise UsageError("the new passphrase is the old one")
        label = arguments.label or dict(repository.passphrases())[old].label
        _report_added(repository.add_passphrase(passphrase, label), terminal)
        _remove_wrap(repository, old, terminal)
    finally:
        repository.close()
    return EXIT_DONE


def _export_put(arguments: argparse.Namespace, terminal: Terminal) -> int:
    repository = open_repository(arguments, terminal, "write")
    repository.close()
    client = arguments.client or socket.gethostname()
    key = repository.key.put_key(client) if repository.client is None else repository.client
    if key.name != client and arguments.client:
        key = repository.key.put_key(client)
    _write_key(arguments.file, "put", export_key(key), terminal)
    return EXIT_DONE


def _export_appliance(arguments: argparse.Namespace, terminal: Terminal) -> int:
    repository = open_repository(arguments, terminal)
    repository.close()
    key = repository.restore_key
    appliance = ApplianceKey(key.repository_id, key.restore_public, key.secret)
    _write_key(arguments.file, "appliance", export_key(appliance), terminal)
    return EXIT_DONE


def _export_restore(arguments: argparse.Namespace, terminal: Terminal) -> int:
    repository = open_repository(arguments, terminal)
    repository.close()
    terminal.warn(
        "anyone with this key can read everything in the repository; it cannot be revoked"
    )
    _write_key(arguments.file, "restore", export_key(repository.restore_key), terminal)
    return EXIT_DONE


def _import(arguments: argparse.Namespace, terminal: Terminal) -> int:
    key = read_key_file(arguments.file)
    if not isinstance(key, RestoreKey):
        raise KeyRightError(
            f"{printable(arguments.file)} is not a restore key; use it with --key-file"
        )
    place = repository_place(arguments)
    with Repository.open(open_store(place, arguments.settings), key) as repository:
        _require_passphrases(repository)
        passphrase = _new_passphrase(arguments, terminal)
        _report_added(repository.add_passphrase(passphrase, arguments.label), terminal)
    return EXIT_DONE


def _open_with_passphrase(
    arguments: argparse.Namespace, terminal: Terminal
) -> tuple[Repository, bytes]:
    """The open repository and the passphrase that opened it."""
    passphrase = given_passphrase(arguments.settings, terminal)
    if passphrase is None:
        passphrase = ask_passphrase("current passphrase")
    store = open_store(repository_place(arguments), arguments.settings)
    return Repository.open(store, passphrase), passphrase


def _wrap_of(repository: Repository, passphrase: bytes) -> str:
    """The name of the wrapped key that `passphrase` opens."""
    for name, _ in repository.passphrases():
        if unwrap_key(repository.store.get("keys", name), passphrase) is not None:
            return name
    raise WrongKeyError("this passphrase was removed a moment ago")


def _require_passphrases(repository: Repository) -> None:
    if repository.config.secrets is not None:
        raise UsageError(
            "this repository was made without a passphrase and its keys are stored unencrypted; "
            "make a new one with a passphrase and copy the snapshots (strongroom copy)"
        )


def _remove_wrap(repository: Repository, name: str, terminal: Terminal) -> None:
    repository.remove_passphrase(name)
    terminal.emit({"type": "key_removed", "id": name})
    terminal.line(f"removed passphrase {name[:8]}")


def _report_added(name: str, terminal: Terminal) -> None:
    terminal.emit({"type": "key_added", "id": name})
    terminal.line(f"added passphrase {name[:8]}")


def _write_key(path: str, kind: str, text: str, terminal: Terminal) -> None:
    """Write a key into a new file that only its owner may read; `-` is standard output."""
    if path == "-":
        terminal.document(text)
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise UsageError(f"{printable(path)} is there already; name a new file") from error
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    terminal.emit({"type": "key_file", "kind": kind, "path": os.fsencode(path)})
    terminal.line(f"wrote {'an' if kind == 'appliance' else 'a'} {kind} key to {printable(path)}")
    if kind == "put":
        terminal.line("it can add and deduplicate, but not read; use it with --key-file")
    elif kind == "appliance":
        terminal.line("it makes put keys for clients; name it as Appliance Key File")
