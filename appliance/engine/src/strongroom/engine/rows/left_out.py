"""Why a backup left something out, and the record of it that goes with a snapshot.

A place is a directory and a name in it. If the listing has a row of that name, it is a folder that
was not looked into, else an entry that has no row. What follows from the patterns by the name alone
is not recorded: the rules are, and anyone who wants to know applies them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from strongroom.engine.rows.views import split_path

EXCLUDED: Final = 1  # by a rule about more than its name: its size, its flags, a marker in it
NOT_ENTERED: Final = 2  # a folder on another file system, or one that the FileSet does not enter
MARKED: Final = 3  # a folder that holds a cache tag or another marker
UNREAD: Final = 4  # a folder that could not be listed
SPECIAL: Final = 5  # a socket
VANISHED: Final = 6  # it was gone before it was read, or could not be examined
OWN_REPOSITORY: Final = 8  # the folder of the repository that the backup was written to
MANY: Final = 7  # a folder in which more was left out than is recorded

MOST_NAMES_OF_A_DIRECTORY: Final = 10_000
MOST_BYTES: Final = 8 << 20
_PLACE_BYTES: Final = 32
_COUNTED: Final = (EXCLUDED, SPECIAL, VANISHED)

Places = dict[bytes, dict[bytes, int]]


class LeftOutRanges:
    """Collects the places of one backup; memory is bounded."""

    def __init__(self) -> None:
        self._places: Places = {}
        self._bytes = 0

    def add(self, directory: bytes, found: Mapping[bytes, int]) -> None:
        """Add names in a directory and why each was left out; b"" is the directory itself."""
        for name, reason in found.items():
            if name:
                self._note(directory, name, reason)
            else:
                self._note(*split_path(directory), reason)

    def places(self) -> Places | None:
        """Reason by directory and name; None when there were too many."""
        return None if self._bytes > MOST_BYTES else self._places

    def unread(self) -> list[bytes]:
        """Paths of the folders that could not be listed, in no order."""
        return unread_folders(self._places)

    def _note(self, directory: bytes, name: bytes, reason: int) -> None:
        if self._bytes > MOST_BYTES:
            return
        if directory not in self._places:
            self._bytes += len(directory) + _PLACE_BYTES
        names = self._places.setdefault(directory, {})
        if names.get(name) == UNREAD:
            return
        if len(names) >= MOST_NAMES_OF_A_DIRECTORY and reason in _COUNTED:
            self._note(*split_path(directory), MANY)
            return
        self._bytes += len(name) + _PLACE_BYTES
        names[name] = reason


def is_in_folders(path: bytes, folders: Iterable[bytes]) -> bool:
    """Whether a path is one of `folders` or below one."""
    return any(not one or path == one or path.startswith(one + b"/") for one in folders)


def unread_folders(places: Places) -> list[bytes]:
    """Paths of the places that could not be read."""
    return [
        directory + b"/" + name if directory and name else directory or name
        for directory, names in places.items()
        for name, reason in names.items()
        if reason == UNREAD
    ]
