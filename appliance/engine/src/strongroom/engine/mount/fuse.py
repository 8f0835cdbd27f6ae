"""Serves `MountedFiles` through FUSE with mfusepy. Import only where it is installed.

libfuse calls from its own threads if more than one is configured; as all of them need the
interpreter lock, several are only faster if the store has a high latency. It handles SIGINT,
SIGTERM and SIGHUP itself: each unmounts and ends `serve`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

# Prefer libfuse 3 to 2 where both are installed; mfusepy reads this when it is imported.
os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")

import mfusepy

from strongroom.base.errors import OperatingSystemError
from strongroom.engine.mount.files import MountedFiles

# Snapshots never change, but the names above them do.
_KERNEL_CACHE_SECONDS = 10
_STATFS_BLOCK_BYTES = 4096
# FS_IOC_GETFLAGS as 64-bit and 32-bit programs write it; the kernel always transfers four bytes.
_GET_FLAGS = (0x80086601, 0x80046601)
_NAME_LIMIT_BYTES = 255
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(
    files: MountedFiles,
    mount_point: bytes,
    *,
    name: str,
    allow_other: bool,
    threads: int,
    ready: Callable[[], None],
) -> None:
    """Mount at `mount_point`, call `ready`, serve until it is unmounted or stopped.

    `threads`: requests served at the same time. Raises OperatingSystemError when it cannot be
    mounted; libfuse prints the reason on standard error.
    """
    # libfuse installs its signal handlers only where none are set.
    for number in _STOPPING:
        signal.signal(number, signal.SIG_DFL)
    operations = _Operations(files, ready)
    if threads == 1:
        # Until libfuse has set them, a signal would kill the process and leave a stale mount.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        _Fuse(
            operations,
            os.fsdecode(mount_point),
            foreground=True,
            ro=True,
            default_permissions=True,
            allow_other=allow_other,
            use_ino=True,
            kernel_cache=True,
            attr_timeout=_KERNEL_CACHE_SECONDS,
            entry_timeout=_KERNEL_CACHE_SECONDS,
            # A comma would end the option.
            fsname=name.replace(",", "\\,"),
            subtype="strongroom",
            **_thread_options(threads),
        )
    except RuntimeError as error:
        # libfuse also returns a non-zero number after a signal.
        if not operations.was_mounted:
            raise OperatingSystemError(
                f"could not mount at {os.fsdecode(mount_point)}; see the lines of libfuse above "
                "(is /dev/fuse there, may this user use it, and is fuse3 installed?)"
            ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)


class _Fuse(mfusepy.FUSE):  # type: ignore[misc]
    """Adds the one operation that the library declares but does not pass on."""

    def lseek(self, path: bytes | None, offset: int, whence: int, info: Any) -> int:
        place: int = self.operations.lseek(info.contents.fh, offset, whence)
        return place


class _Operations:
    """The callbacks of libfuse; paths are text with stray bytes escaped, and begin with a slash."""

    use_ns = True

    def __init__(self, files: MountedFiles, ready: Callable[[], None]) -> None:
        self._files = files
        self._ready = ready
        self.was_mounted = False

    def init(self, path: str) -> None:
        self.was_mounted = True
        if threading.current_thread() is threading.main_thread():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)
        self._ready()

    def destroy(self, path: str) -> None:
        """Nothing to do: the end of the process releases everything."""

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        return self._files.attributes(_plain(path))

    def readlink(self, path: str) -> str:
        return os.fsdecode(self._files.link_target(_plain(path)))

    def opendir(self, path: str) -> int:
        return self._files.open_directory(_plain(path))

    def readdir_with_offset(
        self, path: str, offset: int, fh: int
    ) -> Iterator[tuple[str, dict[str, int], int]]:
        for entry in self._files.entries(fh, offset):
            attributes = {"st_mode": entry.mode, "st_ino": entry.inode}
            yield os.fsdecode(entry.name), attributes, entry.next_offset

    def releasedir(self, path: str, fh: int) -> int:
        self._files.close_directory(fh)
        return 0

    def open(self, path: str, flags: int) -> int:
        if flags & os.O_ACCMODE != os.O_RDONLY:
            raise OSError(errno.EROFS, "read-only")
        return self._files.open_file(_plain(path))

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return self._files.read(fh, offset, size)

    def lseek(self, fh: int, offset: int, whence: int) -> int:
        return self._files.seek(fh, offset, whence)

    def release(self, path: str, fh: int) -> int:
        self._files.close_file(fh)
        return 0

    def listxattr(self, path: str) -> list[str]:
        return [os.fsdecode(name) for name in self._files.xattrs(_plain(path))]

    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        value = self._files.xattrs(_plain(path)).get(os.fsencode(name))
        if value is None:
            raise OSError(errno.ENODATA, "no such attribute")
        return value

    def ioctl(self, path: str, cmd: int, arg: Any, fh: int, flags: int, data: Any) -> int:
        """Return chattr flags (lsattr); no other request is supported."""
        if cmd not in _GET_FLAGS:
            raise OSError(errno.ENOTTY, "no such request")
        ctypes.memmove(data, struct.pack("I", self._files.flags(_plain(path))), 4)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        blocks = -(-self._files.stored_bytes() // _STATFS_BLOCK_BYTES)
        return {
            "f_bsize": _STATFS_BLOCK_BYTES,
            "f_frsize": _STATFS_BLOCK_BYTES,
            "f_blocks": blocks,
            "f_namemax": _NAME_LIMIT_BYTES,
        }


def _thread_options(threads: int) -> dict[str, int | bool]:
    """The thread options of libfuse, which depend on its version."""
    version = (mfusepy.fuse_version_major, mfusepy.fuse_version_minor)
    if threads == 1 or version < (3, 0):
        return {"nothreads": threads == 1}
    if version < (3, 12):
        return {"max_idle_threads": threads}
    return {"max_idle_threads": threads, "max_threads": threads}


def _plain(path: str) -> bytes:
    return os.fsencode(path).strip(b"/")
