"""--delete: removes what an existing directory holds and the snapshot does not.

Only below the paths that were backed up: a snapshot of /home/ann says nothing about what else
exists in /home. What the patterns leave out is left alone. The existing names are read before
anything is restored into the directory, so our own temporary names are never among them.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from typing import TYPE_CHECKING

from strongroom.jobs.restore.choice import WANTED
from strongroom.jobs.restore.directories import unlink
from strongroom.jobs.restore.metadata import clear_protection, reason_of
from strongroom.jobs.restore.options import Action, EntryKind
from strongroom.jobs.restore.target_directories import remove_tree, status_of
from strongroom.rows.views import join_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.jobs.restore.choice import BackedUp, Choice
    from strongroom.jobs.restore.directories import Level
    from strongroom.jobs.restore.worker import RowRestorer


class Deletions:
    """Compares each existing directory with its rows, slice by slice."""

    def __init__(
        self, restorer: RowRestorer, choice: Choice, backed_up: BackedUp, *, dry_run: bool
    ) -> None:
        self._restorer = restorer
        self._choice = choice
        self._backed_up = backed_up
        self._dry_run = dry_run

    def begin(self, level: Level) -> None:
        """Read the names in an existing directory, before the first of its rows is restored."""
        if level.is_new or level.present is not None or not self._backed_up(level.place):
            return
        try:
            self._restorer.directories.enter(level.place)
            level.present = sorted(os.listdir(b"."))
        except OSError as error:
            self._restorer.tally.place = level.place
            self._restorer.tally.problem(EntryKind.DELETE, b"", reason_of(error))
            level.present = []

    def compare(self, level: Level, names: Sequence[bytes]) -> None:
        """Remove what is missing among the next names of the snapshot, which are sorted."""
        if not level.present or not names:
            return
        stop = bisect_right(level.present, names[-1])
        wanted = set(names)
        extra = [name for name in level.present[level.position : stop] if name not in wanted]
        level.position = stop
        self._remove(level, extra)

    def end(self, level: Level) -> None:
        """Remove the rest: names after the last row, and what is in directories without rows."""
        if level.present is None:
            return
        self._remove(level, level.present[level.position :])
        level.present = None
        for name in level.existing - level.visited:
            place = join_path(level.place, name)
            try:
                self._restorer.directories.enter(place)
                extra = sorted(os.listdir(b"."))
            except OSError as error:
                self._restorer.tally.place = place
                self._restorer.tally.problem(EntryKind.DELETE, b"", reason_of(error))
            else:
                self._remove_from(place, extra, is_wanted=level.is_wanted)

    def _remove(self, level: Level, names: list[bytes]) -> None:
        self._remove_from(level.place, names, is_wanted=level.is_wanted)

    def _remove_from(self, place: bytes, names: list[bytes], *, is_wanted: bool) -> None:
        if not names:
            return
        tally = self._restorer.tally
        tally.place = place
        try:
            self._restorer.directories.enter(place)
        except OSError as error:
            tally.problem(EntryKind.DELETE, b"", reason_of(error))
            return
        for name in names:
            try:
                status = status_of(name)
                if status is None or not self._is_wanted(place, name, status, is_wanted):
                    continue
                if not self._dry_run:
                    _remove(name, status)
                tally.step(Action.DELETED, name)
            except OSError as error:
                tally.problem(EntryKind.DELETE, name, reason_of(error))

    def _is_wanted(
        self, place: bytes, name: bytes, status: os.stat_result, is_wanted: bool
    ) -> bool:
        if self._choice.takes_all:
            return True
        path = self._backed_up.source_of(place)
        is_directory = stat.S_ISDIR(status.st_mode)
        (chosen,) = self._choice.choose(path, [name], [is_directory], is_wanted=is_wanted)
        return chosen == WANTED


def _remove(name: bytes, status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode):
        unlink(name)
        return
    clear_protection(name)
    here = os.open(b".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        remove_tree(name, here)
    finally:
        os.close(here)
