"""What a backup reports of the paths that were named: which are empty, and what is mounted there.

A mount point without its disk is an empty directory, and a backup of it is a good one of nothing.
Whoever knows the last backup can tell (the director does, `snapshots.shortfalls`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strongroom.printable import printable
from strongroom.scan.mounts import mount_points_of

if TYPE_CHECKING:
    from collections.abc import Iterable

# A list of a FileSet may name any number of paths.
MOST_LOOKED_AT: Final = 1000
MOST_REPORTED: Final = 50


class NamedPaths(NamedTuple):
    """Relative to "/". mounts: path and mount point of the file system that holds it."""

    empty: frozenset[bytes] = frozenset()
    mounts: tuple[tuple[bytes, bytes], ...] = ()

    def and_later(self, later: NamedPaths) -> NamedPaths:
        """What holds of a backup: found empty at either end of it, mounted at both."""
        mounts = tuple(one for one in self.mounts if one in later.mounts)
        return NamedPaths(self.empty | later.empty, mounts)

    def summary(self) -> dict[str, Any]:
        """The fields of the JSON report."""
        mounts = sorted(self.mounts)[:MOST_REPORTED]
        return {
            "empty_paths": [_shown(path) for path in sorted(self.empty)[:MOST_REPORTED]],
            "mounts": {_shown(path): _shown(place) for path, place in mounts},
        }


def look_at(paths: Iterable[bytes]) -> NamedPaths:
    """How the paths are now; what cannot be looked at is left out."""
    chosen = sorted(set(paths))[:MOST_LOOKED_AT]
    mounts = tuple(zip(chosen, mount_points_of(chosen), strict=True))
    return NamedPaths(frozenset(filter(_is_empty, chosen)), mounts)


def _is_empty(path: bytes) -> bool:
    try:
        with os.scandir(b"/" + path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _shown(path: bytes) -> str:
    return f"/{printable(path)}"
