"""A file that says it is empty and is not: `python -m kit.unsized_file MOUNT_POINT`.

Shows `unsized` at MOUNT_POINT, with several MiB, as file systems do that make content when it is
read. The first line on standard output says that it is mounted.
"""

from __future__ import annotations

import errno
import stat
import sys
from typing import Any

import mfusepy

from kit.mounted_files import MountedFiles

CONTENT = b"".join(b"line %d\n" % number for number in range(300_000))


class UnsizedFile(MountedFiles):
    """What libfuse calls."""

    def getattr(self, path: str, fh: Any = None) -> dict[str, int]:
        """A file without a size."""
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2, "st_ino": 1}
        if path != "/unsized":
            raise mfusepy.FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o444, "st_nlink": 1, "st_ino": 2, "st_size": 0}

    def readdir(self, path: str, fh: Any) -> list[tuple[str, dict[str, int], int]]:
        """Names; an entry without an inode number would count as removed."""
        return [(name, {"st_ino": 2}, 0) for name in (".", "..", "unsized")]

    def open(self, path: str, opened: Any) -> int:
        """Have the kernel ask for content, whatever the size."""
        opened.direct_io = 1
        return 0

    def read(self, path: str, size: int, offset: int, fh: Any) -> bytes:
        """Bytes of the file."""
        return CONTENT[offset : offset + size]


if __name__ == "__main__":
    mfusepy.FUSE(UnsizedFile(), sys.argv[1], foreground=True, ro=True, use_ino=True, raw_fi=True)
