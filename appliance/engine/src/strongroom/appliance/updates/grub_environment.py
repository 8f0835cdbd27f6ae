"""GRUB's environment block, `grubenv`: variables that GRUB and the running system both write.

The file has 1024 bytes and its place on the disk never changes: GRUB writes into that place, past
any file system. So it is overwritten in place here, too. All that changes lies in its first 512
bytes, which a disk writes as a whole or not at all.
"""

from __future__ import annotations

import os
from typing import Final

from strongroom.errors import DamageError

_SIZE_BYTES: Final = 1024
_SECTOR_BYTES: Final = 512
_HEAD: Final = b"# GRUB Environment Block\n"


def read_environment(path: str) -> dict[str, str]:
    """Its variables. Raises DamageError, OSError."""
    with open(path, "rb") as file:
        data = file.read(_SIZE_BYTES + 1)
    if len(data) != _SIZE_BYTES or not data.startswith(_HEAD):
        raise DamageError(f"{path} is no environment block of GRUB; install the image again")
    lines = data.removeprefix(_HEAD).rstrip(b"#").decode("ascii", "replace").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def write_environment(path: str, variables: dict[str, str]) -> None:
    """Replace its variables, durably. Raises DamageError, OSError."""
    text = b"".join(f"{name}={value}\n".encode("ascii") for name, value in variables.items())
    if len(_HEAD + text) > _SECTOR_BYTES:
        raise DamageError(f"{path} holds more than GRUB's menu of the image needs")
    data = (_HEAD + text).ljust(_SIZE_BYTES, b"#")
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_size != _SIZE_BYTES:
            raise DamageError(f"{path} is no environment block of GRUB; install the image again")
        os.pwrite(descriptor, data, 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
