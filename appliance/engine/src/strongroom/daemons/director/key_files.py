"""Files with keys and passphrases that the Director resource names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.settings.director import DirectorSettings

_LONGEST_KEY_FILE_BYTES: Final = 64 << 10
_LONGEST_PASSPHRASE_BYTES: Final = 4096


def authority_passphrase(settings: DirectorSettings) -> bytes | None:
    """The passphrase of the authority's key; None if it has none. Raises UsageError."""
    path = settings.authority_passphrase_file
    if not path:
        return None
    line = _read(path, _LONGEST_PASSPHRASE_BYTES).split(b"\n", 1)[0]
    if not line.strip():
        raise UsageError(f"the first line of {path} is empty")
    return line.rstrip(b"\r")


def put_key(settings: DirectorSettings) -> str | None:
    """The put key for agents, None if there is none. Raises UsageError.

    A restore key in its place is refused: no agent may have one.
    """
    path = settings.put_key_file
    if not path:
        return None
    from strongroom.repo.keys.files import import_key
    from strongroom.repo.keys.roles import PutKey

    text = _read(path, _LONGEST_KEY_FILE_BYTES).decode("ascii", "replace")
    if not isinstance(import_key(text), PutKey):
        raise UsageError(f"{path} is not a put key; make one with `strongroom key export-put`")
    return text


def _read(path: str, most_bytes: int) -> bytes:
    try:
        with open(os.fsencode(path), "rb") as file:
            return file.read(most_bytes)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
