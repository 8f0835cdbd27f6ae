"""The folders whose public files a client offers to share with other clients.

*Offered* is a regular file in or below such a folder that everybody on its machine may read: others
have permission to read the file and to search every directory above it. Its real path counts:
the scan follows no links. Permission bits say what others may also where there is an ACL.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence
from typing import Final

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable

# Where an operating system keeps what it installs.
DEFAULT_SHARE_BELOW: Final = ("/usr", "/opt", "/bin", "/sbin", "/lib", "/lib64")

# How a directory stands: others may not reach it; they may, but it lies in no folder; they may, and
# its public files are offered.
CLOSED: Final = 0
OPEN: Final = 1
SHARED: Final = 2


def share_folders(texts: Iterable[str]) -> tuple[str, ...]:
    """Folders of a setting as they are compared, each once; empty strings name none.

    UsageError for one that is not absolute, holds `.` or `..`, or has characters that do not print.
    """
    return tuple(dict.fromkeys(_settled(text) for text in texts if text))


def narrowed(folders: Sequence[str], bound: Sequence[str]) -> tuple[str, ...]:
    """What lies below one of `folders` and below one of `bound`."""
    found: dict[str, None] = {}
    for folder in folders:
        for limit in bound:
            if _is_below(folder, limit):
                found[folder] = None
            elif _is_below(limit, folder):
                found[limit] = None
    return tuple(found)


def is_public(mode: int) -> bool:
    """Whether others may read a file with these permission bits."""
    return bool(mode & stat.S_IROTH)


class ShareFolders:
    """How the directories of a backup stand, from the root on."""

    def __init__(self, folders: Iterable[str]) -> None:
        """`folders`: of `share_folders`."""
        # Paths of a scan are relative to "/".
        self._paths = frozenset(folder[1:].encode() for folder in folders)

    def root(self, mode: int) -> int:
        """How "/" stands, which has these permission bits."""
        return self.below(OPEN if self._paths else CLOSED, b"", is_searchable=is_searchable(mode))

    def below(self, above: int, path: bytes, *, is_searchable: bool) -> int:
        """How the directory `path` stands. above: how the one stands that it is in."""
        if above == CLOSED or not is_searchable:
            return CLOSED
        return SHARED if above == SHARED or path in self._paths else OPEN


def is_searchable(mode: int) -> bool:
    """Whether others may search a directory with these permission bits."""
    return bool(mode & stat.S_IXOTH)


def _settled(text: str) -> str:
    steps = [step for step in text.split("/") if step]
    if not text.startswith("/") or "." in steps or ".." in steps or not text.isprintable():
        raise UsageError(
            f"{printable(text)!r} is not a folder to share: write an absolute path such as /usr, "
            "without . and .. in it"
        )
    return "/" + "/".join(steps)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
