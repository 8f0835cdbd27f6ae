"""The authority that restores with root's rights trust: a file of root's beside the configuration.

The authority in the agent's Identity Directory is the agent's own, who could exchange it.
"""

from __future__ import annotations

import os
from typing import Final

from strongroom.net.identities.private_files import PUBLIC_MODE, write_file

_NAME: Final = "authority.pem"


def restore_authority_path(configuration: str) -> str:
    """`authority.pem` in the folder of the configuration, or beside its one file."""
    path = os.path.abspath(configuration)
    return os.path.join(path if os.path.isdir(path) else os.path.dirname(path), _NAME)


def keep_restore_authority(configuration: str, pem: bytes) -> str:
    """Write it, after enrolment by root; the path. Raises OSError."""
    path = restore_authority_path(configuration)
    write_file(os.fsencode(path), pem, PUBLIC_MODE)
    return path
