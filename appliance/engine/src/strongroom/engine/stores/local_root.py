"""The root of a local store: its descriptor, the paths of objects below it, and its failures.

Every operation goes through one descriptor of the root, so a disk that is swapped or unmounted
meanwhile can't redirect writes to another. Paths are relative to it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import NoReturn

from strongroom.base.errors import (
    ObjectMissingError,
    RepositoryNotFoundError,
    StoreError,
)
from strongroom.engine.stores.store import Kind, require_name

TEMPORARY_PREFIX = b"tmp."
# No object's name begins so. With a dot begin what file servers and desktops leave in any folder:
# `.nfs0001` is a file that was removed while open, `.DS_Store` how a folder is shown.
NOT_OBJECTS = (TEMPORARY_PREFIX, b".")

_SPACE_REMEDY = "free space there, then run the same command again"
_RIGHT_REMEDY = "give this user access to the repository's files, or run as its owner"
_GONE_REMEDY = "the file system is not mounted: mount it again, then run the same command again"
_LIMIT_REMEDY = (
    "too many files are open: raise the limit (ulimit -n), then run the same command again"
)
_REMEDIES = {
    errno.ENOSPC: _SPACE_REMEDY,
    errno.EDQUOT: _SPACE_REMEDY,
    errno.EROFS: "the file system is read-only: remount it writable after checking it for errors",
    errno.EACCES: _RIGHT_REMEDY,
    errno.EPERM: _RIGHT_REMEDY,
    errno.EIO: "the disk reports an error: look at the kernel's log and run check afterwards",
    errno.EMFILE: _LIMIT_REMEDY,
    errno.ENFILE: _LIMIT_REMEDY,
    errno.ESTALE: _GONE_REMEDY,
    errno.ENOTCONN: _GONE_REMEDY,
}


class LocalRoot:
    """The directory that holds a repository."""

    def __init__(self, path: bytes) -> None:
        self.path = path
        # Temporary files of writers that have not ended. Noted before a file is made: a signal may
        # break off a writer, or lose it, at any point.
        self.unfinished: set[bytes] = set()
        self._descriptor = -1

    @property
    def descriptor(self) -> int:
        """The root, opened at first use; RepositoryNotFoundError when it isn't there."""
        if self._descriptor < 0:
            try:
                self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise RepositoryNotFoundError(
                    f"there is no repository at {os.fsdecode(self.path)} ({error.strerror}); "
                    "mount its disk, or make one with strongroom init"
                ) from error
            except OSError as error:
                self.fail("open", b"", error)
        return self._descriptor

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def remove_unfinished(self) -> None:
        """Remove the temporary files of all writers, none of which may be used any more."""
        while self.unfinished:
            with contextlib.suppress(OSError):
                os.unlink(self.unfinished.pop(), dir_fd=self.descriptor)

    def open_directory(self, path: bytes) -> int:
        """A descriptor of a folder below the root (b"" is the root itself); raises OSError."""
        return os.open(
            path or b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.descriptor
        )

    def make_directory(self, path: bytes) -> None:
        """Make a folder below the root unless it is there; raises OSError."""
        try:
            os.mkdir(path, mode=0o700, dir_fd=self.descriptor)
        except FileExistsError:
            return

    def shown(self, path: bytes) -> str:
        """The whole path, for messages."""
        return os.fsdecode(os.path.join(self.path, path) if path else self.path)

    def fail(self, action: str, path: bytes, error: OSError) -> NoReturn:
        """Turn an OSError into a StoreError that says where and what to do."""
        remedy = _REMEDIES.get(error.errno or 0, "fix the cause, then run the same command again")
        raise StoreError(
            f"could not {action} {self.shown(path)}: {error.strerror}; {remedy}"
        ) from error

    def fail_missing(self, path: bytes, error: OSError) -> NoReturn:
        """The error for a missing object."""
        raise ObjectMissingError(
            f"{self.shown(path)} is missing; run check to see what needs it"
        ) from error


def kind_folder(kind: Kind) -> bytes:
    """The folder of objects of a kind and their temporary files; b"" is the root."""
    return b"" if kind == "config" else kind.encode()


def object_path(kind: Kind, name: str) -> bytes:
    """The path of an object; DamageError for a name that could lead elsewhere."""
    if kind == "config":
        return b"config"
    require_name(kind, name)
    encoded = name.encode("ascii")
    if kind == "packs":
        return b"packs/" + encoded[:2] + b"/" + encoded
    return kind.encode() + b"/" + encoded
