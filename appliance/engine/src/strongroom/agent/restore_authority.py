"""The authority that restores with root's rights trust: a file of root's beside the configuration.

The authority in the agent's Identity Directory is the agent's own, who could exchange it, also
while root joins or enrols. So the file holds one authority, of the fingerprint that somebody stated
or that the token holds, whatever the agent's folder says.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.identities.certificate_forms import pem_of
from strongroom.net.identities.private_files import PUBLIC_MODE, read_bounded, write_file
from strongroom.net.identities.trust import fingerprint, roots_of

_NAME: Final = "authority.pem"
_GREATEST_BYTES: Final = 64 << 10


def restore_authority_path(configuration: str) -> str:
    """`authority.pem` in the folder of the configuration, or beside its one file."""
    path = os.path.abspath(configuration)
    return os.path.join(path if os.path.isdir(path) else os.path.dirname(path), _NAME)


def require_restore_authority(configuration: str, expected: str) -> None:
    """Raise UsageError where the file is missing, and no fingerprint says what it is to hold."""
    path = restore_authority_path(configuration)
    if not expected and not os.path.exists(path):
        raise UsageError(
            f"{path} is missing, and restores as root trust only that authority: give its "
            "fingerprint with --ca-fingerprint (`strongroom ca list` at the appliance)"
        )


def keep_restore_authority(configuration: str, pem: bytes, expected: str) -> str:
    """Write the authority of the fingerprint `expected`; the path, "" where it is there already.

    Others in `pem` count for nothing. Raises PeerRefusedError when it is not there, OSError.
    """
    wanted = "".join(expected.split()).replace(":", "").lower()
    path = restore_authority_path(configuration)
    with suppress(FileNotFoundError, PeerRefusedError, UsageError):
        present = roots_of(read_bounded(os.fsencode(path), _GREATEST_BYTES))
        if [fingerprint(one) for one in present] == [wanted]:
            return ""
    found = next((one for one in roots_of(pem) if fingerprint(one) == wanted), None)
    if found is None:
        raise PeerRefusedError(
            f"the authority of this agent does not have the fingerprint {wanted}: run `strongroom "
            "agent leave`, then join again"
        )
    write_file(os.fsencode(path), pem_of(found), PUBLIC_MODE)
    return path
