"""Removes entries with all that is in them, as far as they are in a scope, and nothing else."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from strongroom.engine.restore.metadata import clear_protection, unlink
from strongroom.engine.restore.scope import Scope, Spared
from strongroom.engine.restore.target_directories import TargetDirectories
from strongroom.engine.rows.views import join_path

NOT_RECORDED: Final = (
    "nothing was removed here: this snapshot does not record what its backup left out"
)
_HOLDS_OTHERS: Final = (
    "the directory in its place holds what the backup does not store or the patterns leave out"
)


class _Emptied(msgspec.Struct):
    """A directory that is being emptied; has_rest: something in it stays."""

    place: bytes
    name: bytes
    subdirectories: list[bytes] = []
    has_rest: bool = False


class Removal:
    """Removes entries with all that is in them, as far as they are in the scope."""

    def __init__(
        self, directories: TargetDirectories, scope: Scope, tell: Callable[[bytes, Spared], None]
    ) -> None:
        """`tell(path, reason)`: of each entry that stays."""
        self._directories = directories
        self._tell = tell
        self.scope = scope
        # Entries removed so far, or in a dry run to be removed.
        self.count = 0

    def remove(self, place: bytes, name: bytes, status: os.stat_result, *, dry_run: bool) -> bool:
        """Remove `name` in `place`, the working directory, which is in the scope.

        Whether nothing of it stays. Leaves some directory as the working directory. Not
        recursive, so depth is not limited. Raises OSError.
        """
        if not stat.S_ISDIR(status.st_mode):
            is_gone = dry_run or self._remove_one(place, name, unlink)
            self.count += is_gone
            return is_gone
        levels = [_Emptied(place, name)]
        self._begin(levels[-1], dry_run=dry_run)
        while True:
            level = levels[-1]
            inside = join_path(level.place, level.name)
            if level.subdirectories:
                levels.append(_Emptied(inside, level.subdirectories.pop()))
                self._begin(levels[-1], dry_run=dry_run)
                continue
            levels.pop()
            is_gone = not level.has_rest
            if is_gone and not dry_run:
                self._directories.enter(level.place)
                is_gone = self._remove_one(level.place, level.name, os.rmdir)
            self.count += is_gone
            if not levels:
                return is_gone
            levels[-1].has_rest |= not is_gone

    def _begin(self, level: _Emptied, *, dry_run: bool) -> None:
        """Remove the files in a directory; notes its sub-directories."""
        place = join_path(level.place, level.name)
        closed = self.scope.closed(place, self._directories)
        if closed is not None:
            self._tell(place, closed)
            level.has_rest = True
            return
        names = sorted(os.listdir(b"."))
        statuses = [os.lstat(name) for name in names]
        are_directories = [stat.S_ISDIR(status.st_mode) for status in statuses]
        spared = self.scope.spared(place, names, statuses)
        wanted = self.scope.chosen(place, names, are_directories, is_wanted=True)
        if not dry_run and (len(spared) < len(names) or not names):
            clear_protection(b".")
        for name, is_directory, is_wanted in zip(names, are_directories, wanted, strict=True):
            if not is_wanted or name in spared:
                level.has_rest = True
                if is_wanted:
                    self._tell(join_path(place, name), spared[name])
            elif is_directory:
                level.subdirectories.append(name)
            elif dry_run or self._remove_one(place, name, unlink):
                self.count += 1
            else:
                level.has_rest = True

    def _remove_one(self, place: bytes, name: bytes, remove: Callable[[bytes], None]) -> bool:
        """Whether it could be removed; it cannot where something is mounted. Raises OSError."""
        try:
            remove(name)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            self._tell(join_path(place, name), Spared.MOUNT)
            return False
        return True

    def make_room(self, place: bytes, name: bytes) -> None:
        """Remove the directory `name` in `place`, the working directory, all of it or nothing.

        Raises OSError.
        """
        status = os.lstat(name)
        closed = self.scope.closed(place, self._directories)
        try:
            if closed is not None or self.scope.spared(place, [name], [status]):
                # An empty one holds nothing that could be lost.
                with suppress(OSError):
                    os.rmdir(name)
                    return
                reason = NOT_RECORDED if closed is Spared.UNKNOWN else _HOLDS_OTHERS
                raise OSError(errno.ENOTEMPTY, reason, name)
            if not self.remove(place, name, status, dry_run=True):
                raise OSError(errno.ENOTEMPTY, _HOLDS_OTHERS, name)
            self._directories.enter(place)
            if not self.remove(place, name, status, dry_run=False):
                raise OSError(errno.ENOTEMPTY, _HOLDS_OTHERS, name)
        finally:
            self._directories.enter(place)
