"""A file that is never twice the same: `python -m kit.restless_file MOUNT_POINT`.

Shows two files at MOUNT_POINT: `calm`, and `busy`, which has been written to each time somebody
checks it. The first line on standard output says that it is mounted.
"""

from __future__ import annotations

import errno
import itertools
import stat
import sys

import mfusepy

from kit.mounted_files import MountedFiles

CONTENTS = {"/calm": b"calm", "/busy": b"busy" * 1000}


class RestlessFile(MountedFiles):
    """What libfuse calls."""

    use_ns = True

    def __init__(self) -> None:
        self._now_ns = itertools.count(1_700_000_000_000_000_000)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        """A time that no one has seen yet, for the file that never keeps still."""
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2, "st_ino": 1}
        if path not in CONTENTS:
            raise mfusepy.FuseOSError(errno.ENOENT)
        written_ns = next(self._now_ns) if path == "/busy" else 0
        return {
            "st_mode": stat.S_IFREG | 0o644,
            "st_nlink": 1,
            "st_ino": 2 + list(CONTENTS).index(path),
            "st_size": len(CONTENTS[path]),
            "st_mtime": written_ns,
            "st_ctime": written_ns,
        }

    def readdir(self, path: str, fh: int) -> list[tuple[str, dict[str, int], int]]:
        """Names; an entry without an inode number would count as removed."""
        names = [".", "..", *(name[1:] for name in CONTENTS)]
        return [(name, {"st_ino": max(1, number)}, 0) for number, name in enumerate(names)]

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Bytes of a file."""
        return CONTENTS[path][offset : offset + size]


if __name__ == "__main__":
    # What the kernel has been reported is forgotten at once, so it asks each time.
    mfusepy.FUSE(
        RestlessFile(), sys.argv[1], foreground=True, ro=True, use_ino=True, attr_timeout=0
    )
