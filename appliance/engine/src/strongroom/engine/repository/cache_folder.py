"""The folder in which a machine keeps what it has read of repositories.

    key          32 random bytes, mode 0600: what is sealed here opens only in this folder
    parents/     listings of the last snapshots (backup.parent_cache)
    runs/        the index (repository.index.kept_runs)
    notes/       envelopes of snapshots, which packs are of others, what check verified, and what
                 prune and share found when there was nothing to do (repository.kept_notes)
    storage/     index objects and snapshots of storage daemons (net.storage.object_cache)
    newest/      the newest snapshot known of each repository (repository.newest_known)

All of it can be removed at any time; `newest` is not a cache, and stays. One limit holds for all of
it (`keep_to_limit`): what was used longest ago goes first. Only files are removed that have names
as these parts give them: a folder that is also used for something else loses nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

from strongroom.base import clock
from strongroom.engine.content.ciphers import KEY_SIZE

CACHE_BYTES_LIMIT: Final = 16 << 30
# What runs leave of a file system.
_LEFT_BYTES: Final = 64 << 20
_LEFT_FILES: Final = 16
# Folders below the cache folder, and how many folders below them are removed as a whole: the runs
# of one repository are of no use without each other.
KINDS: Final = {"parents": 0, "runs": 1, "notes": 1, "storage": 0}
# Paths of files below these folders. Other files may be there, as where a machine has its
# repositories in `storage`, beside its cache.
_PATHS: Final = {
    "parents": re.compile(rb"(?:[0-9a-f]{32}-(?:full|part)-[^/]+|new-[0-9a-f]{24})"),
    "runs": re.compile(rb"[0-9a-f]{32}/(?:blocks|chunks|new)-[0-9a-f]{24}"),
    "notes": re.compile(rb"[0-9a-f]{32}/(?:snapshots|packs|prune|share|check|new)-[0-9a-f]{24}"),
    "storage": re.compile(rb"[0-9a-f]{16}/[a-z]+/[0-9a-f]{64}(?:\.[0-9a-f]{12})?"),
}
_TEMPORARY: Final = b"new-"
_OPEN_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


def local_key(folder: bytes) -> bytes:
    """The key of the folder; a new one if it is missing or invalid. Raises OSError."""
    os.makedirs(folder, 0o700, exist_ok=True)
    path = folder + b"/key"
    for _ in range(2):
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
            with open(descriptor, "rb") as file:
                key = file.read(KEY_SIZE + 1)
            if len(key) == KEY_SIZE:
                return key
            os.unlink(path)
        temporary = folder + b"/" + _TEMPORARY + clock.random_bytes(12).hex().encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS
        with open(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(clock.random_bytes(KEY_SIZE))
        # If jobs race, the first one's key is used by all.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        os.unlink(temporary)
    raise OSError(f"cannot make a key in {os.fsdecode(folder)}")


class Kept(NamedTuple):
    """Files of the cache that are removed together, and when one of them was used last."""

    kind: str
    paths: tuple[bytes, ...]
    size_bytes: int
    used_seconds: float


def kept_in(folder: bytes) -> list[Kept]:
    """What there is, what was used last first; what cannot be read is left out."""
    found = [one for kind, depth in KINDS.items() for one in _kept(folder, kind, depth)]
    return sorted(found, key=lambda one: -one.used_seconds)


def require_room(folder: bytes, size_bytes: int) -> None:
    """OSError where a file of that size would take what listings of the next backups may need.

    To make a listing again, all files are read; to make runs again, only the index is.
    """
    space = os.statvfs(folder)
    left = space.f_bavail * space.f_frsize - size_bytes
    # Some file systems have no number of inodes, and say 0.
    if left < _LEFT_BYTES or (space.f_files > 0 and space.f_favail < _LEFT_FILES):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def keep_to_limit(folder: bytes) -> None:
    """Keep the folder below the limit: for jobs that have written files there, at their end."""
    shrink(folder, CACHE_BYTES_LIMIT)


def shrink(folder: bytes, limit_bytes: int) -> int:
    """Remove what is beyond the limit, that used longest ago first; the bytes that were freed."""
    left, freed = limit_bytes, 0
    for one in kept_in(folder):
        left -= one.size_bytes
        if left < 0:
            freed += one.size_bytes
            for path in one.paths:
                # Another process may have removed it; anyone who has it open reads on.
                with contextlib.suppress(OSError):
                    os.unlink(path)
    return freed


def _kept(folder: bytes, kind: str, depth: int) -> Iterator[Kept]:
    groups: dict[bytes, list[tuple[bytes, int, float]]] = {}
    top = folder + b"/" + kind.encode()
    # Links are not followed, that of the folder itself neither.
    for at, _, names in () if os.path.islink(top) else os.walk(top):
        for name in names:
            path = os.path.join(at, name)
            with contextlib.suppress(OSError):
                status = os.lstat(path)
                is_ours = _PATHS[kind].fullmatch(path[len(top) + 1 :])
                if not is_ours or not stat.S_ISREG(status.st_mode):
                    continue
                group = at if depth else path
                groups.setdefault(group, []).append((path, status.st_size, status.st_mtime))
    for files in groups.values():
        paths = tuple(path for path, _, _ in files)
        size = sum(size for _, size, _ in files)
        yield Kept(kind, paths, size, max(used for _, _, used in files))
