"""Whether a folder can be that of a repository, before anything is made in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Final

from strongroom.base.errors import RepositoryExistsError
from strongroom.base.printable import printable
from strongroom.engine.stores.store import KINDS

# Made by kernels at each start; a folder there is lost, or hides what is mounted later.
_OF_THE_KERNEL: Final = (b"/dev", b"/proc", b"/sys")
_MEMORY: Final = b"/dev/shm"
# What file systems put into their root.
_OF_FILE_SYSTEMS: Final = frozenset(
    (b"lost+found", b".snapshot", b".snapshots", b"System Volume Information")
)
# Beside the objects: what the storage daemon knows of them.
# Space for a prune on a full disk, see `stores.local`.
RESERVE: Final = b"reserve"
_BESIDE_A_CONFIGURATION: Final = frozenset(
    (*(os.fsencode(kind) for kind in KINDS if kind != "config"), b"provenance", RESERVE)
)
_TEMPORARY: Final = b"tmp."
_MOST_NAMES: Final = 3


def place_fault(path: bytes | str) -> str:
    """Why no repository can lie at a path, "" if one can: below /dev, or no folder."""
    real = os.path.realpath(os.fsencode(path))
    if any(_is_within(real, one) for one in _OF_THE_KERNEL) and not _is_within(real, _MEMORY):
        return f"{printable(real)} lies below {_top(real)}, which the kernel makes at each start"
    try:
        mode = os.stat(real).st_mode
    except OSError:
        return ""
    if stat.S_ISDIR(mode):
        return ""
    return f"{printable(real)} is {_kind(mode)}, not a folder"


def require_own_folder(path: bytes | str) -> None:
    """Raise RepositoryExistsError for a folder without a repository that holds something else."""
    if fault := place_fault(path):
        raise RepositoryExistsError(f"{fault}; choose a separate folder for the repository")
    try:
        names = os.listdir(os.fsencode(path))
    except OSError:
        return
    if not os.path.isfile(os.path.join(os.fsencode(path), b"config")):
        require_no_others(os.fsencode(path), names)


def require_no_others(place: bytes | str, names: Iterable[bytes]) -> None:
    """RepositoryExistsError where `names`, of files in a place, are not all of a repository."""
    foreign = sorted(
        name
        for name in names
        if name not in _BESIDE_A_CONFIGURATION | _OF_FILE_SYSTEMS
        and not name.startswith(_TEMPORARY)
    )
    if foreign:
        shown = ", ".join(printable(name) for name in foreign[:_MOST_NAMES])
        more = f" and {len(foreign) - _MOST_NAMES} more" if len(foreign) > _MOST_NAMES else ""
        raise RepositoryExistsError(
            f"{printable(place)} is not a repository and holds something else ({shown}"
            f"{more}); nothing was changed. Choose an empty folder for the repository"
        )


def overlap(one: bytes | str, other: bytes | str) -> bool:
    """Whether two folders are the same, or one lies in the other."""
    first, second = (os.path.realpath(os.fsencode(path)) for path in (one, other))
    return _is_within(first, second) or _is_within(second, first)


def _is_within(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


def _top(path: bytes) -> str:
    return "/" + path.split(b"/")[1].decode()


def _kind(mode: int) -> str:
    for is_it, name in (
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if is_it(mode):
            return name
    return "a file"
