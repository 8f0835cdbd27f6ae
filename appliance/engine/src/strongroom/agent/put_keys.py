"""The put keys of the agent: one file for each repository, beside its certificate.

    IDENTITY/put-keys/REPOSITORY_ID.key

A put key allows adding and deduplicating in the name of this client, but not reading. It comes with
the enrolment, and again with each renewal of the certificate.
"""

from __future__ import annotations

import os
from typing import Final

from strongroom.base.errors import KeyRightError, UsageError
from strongroom.base.printable import printable
from strongroom.engine.repository.keys.files import import_key
from strongroom.engine.repository.keys.roles import PutKey

_FOLDER: Final = "put-keys"
_ENDING: Final = ".key"
_GREATEST_FILE_BYTES: Final = 64 << 10


def required_put_key(text: str, origin: str) -> PutKey:
    """The key in a text if it is a client's put key; UsageError for any other."""
    key = import_key(text)
    if not isinstance(key, PutKey):
        raise UsageError(
            f"{printable(origin)} is not a put key, and no other may be on a client; make one with "
            "`strongroom key export-put --client NAME`"
        )
    return key


def keep_put_key(identity_folder: str, text: str) -> str:
    """Store an exported put key; the path of its file. Raises UsageError, OSError."""
    from strongroom.net.identities.private_files import SECRET_MODE, make_private_folder, write_file

    put_key = required_put_key(text, "the key that the director sent")
    folder = os.fsencode(os.path.join(identity_folder, _FOLDER))
    make_private_folder(folder)
    path = os.path.join(folder, (put_key.repository_id.hex() + _ENDING).encode())
    write_file(path, text.encode("ascii"), SECRET_MODE)
    return os.fsdecode(path)


def read_put_keys(identity_folder: str) -> dict[str, PutKey]:
    """Repository id -> key. Raises KeyRightError when there is none, WrongKeyError, OSError."""
    folder = os.path.join(identity_folder, _FOLDER)
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(_ENDING))
    except FileNotFoundError:
        names = []
    found: dict[str, PutKey] = {}
    for name in names:
        path = os.path.join(folder, name)
        with open(path, encoding="ascii", errors="replace") as file:
            put_key = required_put_key(file.read(_GREATEST_FILE_BYTES), path)
        found[put_key.repository_id.hex()] = put_key
    if not found:
        raise KeyRightError(
            f"there is no put key in {folder}: enrol this machine again, or put the file there "
            "that `strongroom key export-put` writes"
        )
    return found
