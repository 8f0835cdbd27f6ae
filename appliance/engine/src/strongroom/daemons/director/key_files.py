"""Files with keys and passphrases that the Director resource names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.settings.director import DirectorSettings
    from strongroom.repo.keys.roles import ApplianceKey

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


def appliance_keys(settings: DirectorSettings) -> tuple[ApplianceKey, ...]:
    """The appliance keys of the repositories whose clients are enrolled here. Raises UsageError.

    A restore key in their place is refused: it would read everything, and nothing here needs that.
    """
    from strongroom.repo.keys.files import import_key
    from strongroom.repo.keys.roles import ApplianceKey

    found: dict[bytes, ApplianceKey] = {}
    for path in settings.appliance_key_files:
        key = import_key(_read(path, _LONGEST_KEY_FILE_BYTES).decode("ascii", "replace"))
        if type(key) is not ApplianceKey:
            raise UsageError(
                f"{path} is no appliance key; make one with `strongroom key export-appliance`"
            )
        if key.repository_id in found:
            raise UsageError(f"{path} is of the same repository as another Appliance Key File")
        found[key.repository_id] = key
    return tuple(found.values())


def _read(path: str, most_bytes: int) -> bytes:
    try:
        with open(os.fsencode(path), "rb") as file:
            return file.read(most_bytes)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
