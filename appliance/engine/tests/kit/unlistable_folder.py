"""A folder that cannot be listed for a while: `python -m kit.unlistable_folder MOUNT_POINT`.

Shows `closed/inside` at MOUNT_POINT. As long as there is a file MOUNT_POINT.fails, listing `closed`
is an input/output error, as on a damaged disk. The first line on standard output says that it is
mounted.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import Any

import mfusepy

from kit.mounted_files import MountedFiles

CONTENT = b"inside"
_FOLDERS = {"/": ("closed",), "/closed": ("inside",)}


class UnlistableFolder(MountedFiles):
    """What libfuse calls."""

    def __init__(self, switch: str) -> None:
        self._switch = switch

    def getattr(self, path: str, fh: Any = None) -> dict[str, int]:
        """The two folders and the file."""
        if path in _FOLDERS:
            number = 1 + len(path)
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2, "st_ino": number}
        if path != "/closed/inside":
            raise mfusepy.FuseOSError(errno.ENOENT)
        size = len(CONTENT)
        return {"st_mode": stat.S_IFREG | 0o444, "st_nlink": 1, "st_ino": 20, "st_size": size}

    def readdir(self, path: str, fh: Any) -> list[tuple[str, dict[str, int], int]]:
        """Names; an entry without an inode number would count as removed."""
        if path == "/closed" and os.path.exists(self._switch):
            raise mfusepy.FuseOSError(errno.EIO)
        return [(name, {"st_ino": 30}, 0) for name in (".", "..", *_FOLDERS[path])]

    def read(self, path: str, size: int, offset: int, fh: Any) -> bytes:
        """Bytes of the file."""
        return CONTENT[offset : offset + size]


if __name__ == "__main__":
    place = sys.argv[1]
    mfusepy.FUSE(UnlistableFolder(place + ".fails"), place, foreground=True, ro=True, use_ino=True)
