"""What of a live tree may be removed because a snapshot does not have it.

Only names that the backup would have stored: what it left out then (`rows.left_out`), or would by
its rules leave out now, is unknown to the snapshot and stays. So does everything on another mount
than the path that is restored, whatever the repository, the program and folders of the caller
hold, and everything if the snapshot does not say what was left out.
"""

from __future__ import annotations

import os
import stat
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final, NamedTuple

import strongroom
from strongroom.engine.filesets.exclusions import Selection
from strongroom.engine.filesets.recorded import decode_selection
from strongroom.engine.filesets.rules import FileSetSelection
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.restore.choice import WANTED, BackedUp, Choice
from strongroom.engine.restore.target_directories import TargetDirectories
from strongroom.engine.rows import left_out
from strongroom.engine.rows.views import split_path
from strongroom.engine.scan.directory import fitting_columns
from strongroom.engine.stores.store import Store

_OPEN: Final = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# Of the configuration of a repository (docs/design/repository-format.md).
_CONFIG_BEGIN: Final = b'{"strongroom":'
_MOST_KNOWN: Final = 1 << 16
_MOST_NAMED: Final = 1000


class Spared(StrEnum):
    """Why something that a snapshot does not have is not removed, and does not count as extra."""

    EXCLUDED = "excluded"
    NOT_ENTERED = "not-entered"
    UNREAD = "unread"
    SPECIAL = "special"
    VANISHED = "vanished"
    MOUNT = "mount"
    IN_USE = "in-use"
    UNKNOWN = "unknown"


SPARED_TEXTS: Final = {
    Spared.EXCLUDED: "its backup leaves them out",
    Spared.NOT_ENTERED: "its backup did not enter their folder",
    Spared.UNREAD: "its backup could not list their folder",
    Spared.SPECIAL: "sockets, which no backup stores",
    Spared.VANISHED: "they had been removed when the backup read them",
    Spared.MOUNT: "on another file system or mount; restore that path by itself to delete there",
    Spared.IN_USE: "of a repository, its cache or this program",
    Spared.UNKNOWN: "the snapshot does not record what its backup left out, or by regular "
    "expressions that may take too long",
}
_OF_RECORD: Final = {
    left_out.EXCLUDED: Spared.EXCLUDED,
    left_out.NOT_ENTERED: Spared.NOT_ENTERED,
    left_out.MARKED: Spared.EXCLUDED,
    left_out.UNREAD: Spared.UNREAD,
    left_out.SPECIAL: Spared.SPECIAL,
    left_out.VANISHED: Spared.VANISHED,
    left_out.OWN_REPOSITORY: Spared.IN_USE,
}


def spared_lines(not_deleted: Mapping[Spared, int]) -> list[str]:
    """A line for each reason, with how many entries it kept."""
    return [
        f"{count:,} not in the snapshot, not deleted: {SPARED_TEXTS[reason]}"
        for reason, count in sorted(not_deleted.items())
        if count
    ]


class _Where(NamedTuple):
    """A directory: its file system and inode, and the number of its mount."""

    device: int
    inode: int
    mount: bytes

    def is_beside(self, other: _Where) -> bool:
        """Whether both are on one mount of one file system."""
        return (self.device, self.mount) == (other.device, other.mount)


class Scope:
    """Judges what a snapshot does not have; for one process and its working directory."""

    def __init__(
        self,
        snapshot: Snapshot,
        listing: Listing,
        choice: Choice,
        base: bytes,
        subpath: bytes,
        in_use: Iterable[bytes] = (),
        *,
        crosses: bool = False,
    ) -> None:
        """base: the snapshot's path at the root of the tree. subpath: what is restored of it.

        in_use: folders that stay as they are. crosses: other mounts are in the scope, too, if the
        backup entered them. Raises DamageError, StoreError.
        """
        record = snapshot.left_out
        self._places: Mapping[bytes, Mapping[bytes, int]] = {}
        self._selection: Selection | FileSetSelection | None = None
        self._stays = True
        self.is_known = False
        named = {*snapshot.paths, subpath}
        if record is not None:
            with suppress(ValueError):
                self._selection, self._stays = decode_selection(record.rules)
                self._places = record.places
                self.is_known = True
        self._stays = self._stays or not crosses
        if isinstance(self._selection, FileSetSelection):
            named.update(root.path for root in self._selection.rules.roots)
        self._choice = choice
        self._backed_up = BackedUp(snapshot.paths, base)
        self._top = subpath[len(base) :].strip(b"/")
        # Paths that a person named, and that were mounts at the backup as they are now.
        self._mounts = frozenset(
            path
            for path in (named if not base and len(named) <= _MOST_NAMED else ())
            if path and _is_mount(b"/" + path) and _was_mount(listing, path)
        )
        found = (_identity(path) for path in in_use)
        self._in_use = frozenset(one for one in found if one is not None)
        self._known: dict[bytes, Spared | None] = {}

    def closed(self, place: bytes, directories: TargetDirectories) -> Spared | None:
        """Why nothing in the directory `place` may be removed; None: each name is judged.

        Leaves it as the working directory. Raises OSError.
        """
        waiting = []
        at = place
        while at not in self._known:
            waiting.append(at)
            above = split_path(at)[0]
            if at == self._top or not at or not self._backed_up(above):
                break
            at = above
        found = self._known.get(at)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        for one in reversed(waiting):
            if found is None:
                directories.enter(one)
                found = self._own(one, is_first=one == at)
            self._known[one] = found
        directories.enter(place)
        return found

    def _own(self, place: bytes, *, is_first: bool) -> Spared | None:
        """Why the working directory, which is `place`, is closed by itself."""
        if not self.is_known:
            return Spared.UNKNOWN
        path = self._backed_up.source_of(place)
        while True:
            above, name = split_path(path)
            if (reason := self._places.get(above, {}).get(name)) is not None:
                return _OF_RECORD.get(reason, Spared.UNKNOWN)
            if not is_first or not path:
                break
            path = above
        here = _where(b".")
        if (here.device, here.inode) in self._in_use or _is_repository(b"."):
            return Spared.IN_USE
        if is_first and self._is_in_use():
            return Spared.IN_USE
        if not place or not self._stays or here.is_beside(_where(b"..")):
            return None
        return None if self._backed_up.source_of(place) in self._mounts else Spared.MOUNT

    def _is_in_use(self) -> bool:
        """Whether a directory above the working directory is in use."""
        above = b".."
        last: tuple[int, int] | None = None
        while (found := _identity(above)) != last and found is not None:
            if found in self._in_use or _is_repository(above):
                return True
            last, above = found, above + b"/.."
        return False

    def spared(
        self, place: bytes, names: Sequence[bytes], statuses: Sequence[os.stat_result]
    ) -> dict[bytes, Spared]:
        """Which of `names` in the working directory, which is not closed, stay, and why."""
        path = self._backed_up.source_of(place)
        recorded = self._places.get(path, {})
        kept: Sequence[bool] | None = None
        left: frozenset[bytes] = frozenset()
        if self._selection is not None:
            flat = array("q")
            for status in statuses:
                flat.extend(fitting_columns(status))
            judged = self._selection.judge(path, list(names), flat)
            kept, left = judged.kept, judged.left
        device = os.stat(b".").st_dev
        found = {}
        for number, (name, status) in enumerate(zip(names, statuses, strict=True)):
            if stat.S_ISSOCK(status.st_mode):
                found[name] = Spared.SPECIAL
            elif (status.st_dev, status.st_ino) in self._in_use:
                found[name] = Spared.IN_USE
            elif name in recorded:
                found[name] = _OF_RECORD.get(recorded[name], Spared.UNKNOWN)
            elif kept is not None and not kept[number]:
                found[name] = Spared.EXCLUDED
            elif name in left:
                found[name] = Spared.NOT_ENTERED
            elif self._stays and stat.S_ISDIR(status.st_mode) and status.st_dev != device:
                found[name] = Spared.MOUNT
        return found

    def chosen(
        self,
        place: bytes,
        names: Sequence[bytes],
        are_directories: Sequence[bool],
        *,
        is_wanted: bool,
    ) -> list[bool]:
        """Which of `names` the caller's patterns want; is_wanted: the directory is wanted."""
        if self._choice.takes_all:
            return [True] * len(names)
        path = self._backed_up.source_of(place)
        chosen = self._choice.choose(path, names, are_directories, is_wanted=is_wanted)
        return [one == WANTED for one in chosen]


def program_folders() -> tuple[bytes, ...]:
    """Where this program and the interpreter that runs it are."""
    package = os.path.dirname(os.path.abspath(strongroom.__file__))
    folders = [package, os.path.dirname(os.__file__), os.path.realpath("/proc/self/exe")]
    if sys.prefix != sys.base_prefix:
        folders.append(sys.prefix)
    return tuple(map(os.fsencode, folders))


def store_folders(store: Store) -> tuple[bytes, ...]:
    """Where a store is on this machine; () where it is not."""
    return (os.fsencode(store.location),) if store.location.startswith("/") else ()


def _is_repository(folder: bytes) -> bool:
    """Whether a folder is a repository, perhaps the one that a storage daemon here serves."""
    try:
        fd = os.open(folder + b"/config", _OPEN_FILE)
    except OSError:
        return False
    try:
        is_ours = os.read(fd, len(_CONFIG_BEGIN)) == _CONFIG_BEGIN
    except OSError:
        return False
    finally:
        os.close(fd)
    return is_ours and os.path.isdir(folder + b"/packs")


def _was_mount(listing: Listing, path: bytes) -> bool:
    row, above = listing.lookup(path), listing.lookup(split_path(path)[0])
    return row is not None and above is not None and row.device != above.device


def _is_mount(path: bytes) -> bool:
    try:
        return not _where(path).is_beside(_where(path + b"/.."))
    except OSError:
        return False


def _identity(path: bytes) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _where(name: bytes) -> _Where:
    """The directory `name`. Raises OSError."""
    fd = os.open(name, _OPEN)
    try:
        status = os.fstat(fd)
        with open(b"/proc/self/fdinfo/%d" % fd, "rb") as file:
            mounts = [line for line in file if line.startswith(b"mnt_id:")]
    finally:
        os.close(fd)
    return _Where(status.st_dev, status.st_ino, mounts[0] if mounts else b"")
