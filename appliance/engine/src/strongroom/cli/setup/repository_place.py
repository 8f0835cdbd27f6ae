"""Where an appliance stores backups: a folder of this machine, or a bucket of an object store.

The access keys of a bucket are in storage.environment in the folder of the configuration, which the
storage daemon's unit reads, too. Without that file they are looked for where Amazon's programs do.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import Final

from strongroom.base.errors import ObjectMissingError, RepositoryNotFoundError, UsageError
from strongroom.base.printable import printable
from strongroom.cli.access import open_store
from strongroom.config.settings.daemons import is_in_bucket
from strongroom.engine.stores.place import BucketLocation, place_of
from strongroom.net.identities.private_files import read_bounded

_KEYS_FILE: Final = "storage.environment"
_GREATEST_BYTES: Final = 1 << 20
_LINE: Final = re.compile(r"(AWS_[A-Z0-9_]+)\s*=(.*)")


def is_bucket(text: str) -> bool:
    """Whether it names a place in a bucket of an object store, without a fault."""
    try:
        return isinstance(place_of(text), BucketLocation)
    except UsageError:
        return False


def use_access_keys(configuration: str) -> None:
    """Put what storage.environment says into our environment, unless that has it. UsageError."""
    path = os.path.join(configuration, _KEYS_FILE)
    try:
        text = read_bounded(os.fsencode(path), _GREATEST_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line.strip())
        if found is None:
            continue
        try:
            words = shlex.split(found[2])
        except ValueError as error:
            raise UsageError(f"{printable(path)}:{number}: a quote is not closed") from error
        os.environ.setdefault(found[1], " ".join(words))


def has_repository(place: str) -> bool:
    """Whether there is a repository already. Raises StoreError where a bucket does not answer."""
    if not is_in_bucket(place):
        return os.path.exists(os.path.join(place, "config"))
    store = open_store(place)
    try:
        store.get("config", "config")
    except (ObjectMissingError, RepositoryNotFoundError):
        return False
    finally:
        store.close()
    return True
