"""A repository in its own folder, and a put key for it: what a backup is measured with."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Final

from strongroom.base import clock
from strongroom.base.interpreter import module_command
from strongroom.engine.repository.keys.files import export_key
from strongroom.engine.repository.keys.wrapping import Argon2Cost
from strongroom.engine.repository.repository import Repository
from strongroom.engine.stores.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

STRONGROOM: Final = tuple(module_command("strongroom"))
CLIENT: Final = "measured"
# No one can guess the passphrase, so nothing need slow them down.
_CHEAP: Final = Argon2Cost(1024, 1, 1)


def make_local(folder: Path) -> Path:
    """An encrypted repository in `folder`, which is new, with its put key; the repository.

    Its passphrase is thrown away: no one reads what is measured.
    """
    folder.mkdir(parents=True)
    place = folder / "repository"
    passphrase = clock.random_bytes(32)
    created = Repository.create(LocalStore(str(place)), passphrase, cost=_CHEAP)
    with closing(created) as repository:
        key_file = folder / "put.key"
        key_file.write_text(export_key(repository.key.put_key(CLIENT)))
        key_file.chmod(0o600)
    return place


def local_backup(folder: Path, *words: str) -> list[str]:
    """The command line of a backup into the repository of `make_local`."""
    return backup_words(str(folder / "repository"), folder, folder / "put.key", *words)


def backup_words(place: str, folder: Path, put_key: Path, *words: str) -> list[str]:
    """The command line of a backup as agents do it: with a put key, and a cache in `folder`."""
    key = ["--key-file", str(put_key), "--cache-dir", str(folder / "cache")]
    return [*STRONGROOM, "backup", "--json", "--repo", place, *key, *words]


def serial_seconds(log: Path) -> float | None:
    """Processor time of the process that coordinated a backup of ours, from its JSON in `log`.

    None for what is not a backup of ours.
    """
    for line in reversed(log.read_bytes().splitlines()):
        if line.startswith(b'{"type":"summary"'):
            seconds = json.loads(line).get("coordinator_seconds")
            return None if seconds is None else float(seconds)
    return None
