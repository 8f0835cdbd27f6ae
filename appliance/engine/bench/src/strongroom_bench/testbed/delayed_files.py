"""A pass-through file system that sleeps before every answer.

    python -m strongroom_bench.testbed.delayed_files FOLDER MOUNT_POINT MILLISECONDS [BYTES]

Shows FOLDER at MOUNT_POINT, read-only, as slowly as a file server behind a network would: each
look-up, listing, open, read and attribute waits MILLISECONDS first. Any number of requests wait at
the same time, as they do on a server. With BYTES a second it is as slow as a disk: one request
after the other, and reading takes its time too. The first line on standard output says that it is
mounted.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import nullcontext
from typing import Any

os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")

import mfusepy

REQUESTS_AT_ONCE = 512
STAT_FIELDS = (
    "st_mode", "st_nlink", "st_uid", "st_gid", "st_size", "st_ino", "st_blocks",
)  # fmt: skip


class DelayedFiles(mfusepy.Operations):  # type: ignore[misc]
    """The callbacks of libfuse."""

    use_ns = True

    def __init__(self, folder: str, seconds: float, disk_bytes_a_second: float) -> None:
        self._folder = folder
        self._seconds = seconds
        self._byte_seconds = 1 / disk_bytes_a_second if disk_bytes_a_second else 0.0
        self._turn = threading.Lock() if disk_bytes_a_second else nullcontext()
        self.is_mounted = False

    def _wait(self, size_bytes: int = 0) -> None:
        with self._turn:
            time.sleep(self._seconds + size_bytes * self._byte_seconds)

    def init(self, path: str) -> None:
        """Report that the mount is ready."""
        self.is_mounted = True
        os.write(1, b"mounted\n")

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        """The attributes of an entry (lstat)."""
        self._wait()
        status = os.lstat(self._folder + path)
        found = {name: getattr(status, name) for name in STAT_FIELDS}
        for name in ("st_atime", "st_mtime", "st_ctime"):
            found[name] = getattr(status, f"{name}_ns")
        return found

    def readdir(self, path: str, fh: int) -> list[tuple[str, dict[str, int], int]]:
        """Names of a directory; an entry without an inode number would count as removed."""
        self._wait()
        own = os.lstat(self._folder + path).st_ino
        found = [(".", {"st_ino": own}, 0), ("..", {"st_ino": own}, 0)]
        with os.scandir(self._folder + path) as entries:
            found += [(entry.name, {"st_ino": entry.inode()}, 0) for entry in entries]
        return found

    def readlink(self, path: str) -> str:
        """The target of a link."""
        self._wait()
        return os.readlink(self._folder + path)

    def open(self, path: str, flags: int) -> int:
        """A descriptor, kept until `release`."""
        self._wait()
        return os.open(self._folder + path, os.O_RDONLY)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Bytes of an open file."""
        content = os.pread(fh, size, offset)
        self._wait(len(content))
        return content

    def release(self, path: str, fh: int) -> int:
        """Close what `open` opened."""
        os.close(fh)
        return 0

    def listxattr(self, path: str) -> list[str]:
        """None: a file server without extended attributes."""
        self._wait()
        return []


def main() -> int:
    """Serve until unmounted."""
    folder, mount_point, milliseconds, *rate = sys.argv[1:]
    options: dict[str, Any] = {"max_idle_threads": REQUESTS_AT_ONCE}
    if (mfusepy.fuse_version_major, mfusepy.fuse_version_minor) >= (3, 12):
        options["max_threads"] = REQUESTS_AT_ONCE
    files = DelayedFiles(folder, float(milliseconds) / 1000, float(rate[0]) if rate else 0)
    try:
        mfusepy.FUSE(
            files,
            mount_point,
            foreground=True,
            ro=True,
            use_ino=True,
            fsname="delayed",
            **options,
        )
    except RuntimeError:
        # libfuse calls it an error when the mount is taken away while it reads.
        if not files.is_mounted:
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
