"""--delete: removes what an existing directory holds and the snapshot does not.

Only what the backup would have stored (`scope`): a snapshot says nothing about the rest. What the
patterns leave out is left alone. The existing names are read before anything is restored into the
directory, so our own temporary names are never among them.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Sequence

from strongroom.engine.restore.child import RowRestorer
from strongroom.engine.restore.choice import BackedUp
from strongroom.engine.restore.directories import Level
from strongroom.engine.restore.messages import Tally
from strongroom.engine.restore.metadata import reason_of
from strongroom.engine.restore.options import Action, EntryKind
from strongroom.engine.restore.removal import NOT_RECORDED, Removal
from strongroom.engine.restore.scope import Scope, Spared
from strongroom.engine.restore.target_directories import status_of
from strongroom.engine.rows.views import join_path


class Deletions:
    """Compares each existing directory with its rows, slice by slice."""

    def __init__(
        self, restorer: RowRestorer, scope: Scope, backed_up: BackedUp, *, dry_run: bool
    ) -> None:
        self._restorer = restorer
        self._tally: Tally = restorer.tally
        self._backed_up = backed_up
        self._scope = scope
        self._dry_run = dry_run
        self._removal = Removal(restorer.directories, scope, self._tally.spare)
        self._has_reported_unknown = False

    def begin(self, level: Level) -> None:
        """Read the names in an existing directory, before the first of its rows is restored."""
        if level.is_new or level.present is not None or not self._backed_up(level.place):
            return
        level.present = self._names(level.place)

    def compare(self, level: Level, names: Sequence[bytes]) -> None:
        """Remove what is missing among the next names of the snapshot, which are sorted."""
        if not level.present or not names:
            return
        stop = bisect_right(level.present, names[-1])
        wanted = set(names)
        extra = [name for name in level.present[level.position : stop] if name not in wanted]
        level.position = stop
        self._remove(level.place, extra, is_wanted=level.is_wanted)

    def end(self, level: Level) -> None:
        """Remove the rest: names after the last row, and what is in directories without rows."""
        if level.present is not None:
            self._remove(level.place, level.present[level.position :], is_wanted=level.is_wanted)
            level.present = None
        for name in level.existing - level.visited:
            place = join_path(level.place, name)
            if self._backed_up(place):
                self._remove(place, self._names(place), is_wanted=level.is_wanted)

    def _names(self, place: bytes) -> list[bytes]:
        try:
            self._restorer.directories.enter(place)
            return sorted(os.listdir(b"."))
        except OSError as error:
            self._problem(place, b"", reason_of(error))
            return []

    def _remove(self, place: bytes, names: list[bytes], *, is_wanted: bool) -> None:
        if not names:
            return
        tally = self._tally
        try:
            closed = self._scope.closed(place, self._restorer.directories)
            found = [(name, status) for name in names if (status := status_of(name)) is not None]
            there = [name for name, _ in found]
            statuses = [status for _, status in found]
            wanted = self._scope.chosen(
                place,
                there,
                [stat.S_ISDIR(one.st_mode) for one in statuses],
                is_wanted=is_wanted,
            )
            spared = {} if closed is not None else self._scope.spared(place, there, statuses)
        except OSError as error:
            self._problem(place, b"", reason_of(error))
            return
        for (name, status), is_meant in zip(found, wanted, strict=True):
            if not is_meant:
                continue
            reason = closed or spared.get(name)
            if reason is not None:
                tally.spare(join_path(place, name), reason)
                if reason is Spared.UNKNOWN and not self._has_reported_unknown:
                    self._has_reported_unknown = True
                    self._problem(place, b"", NOT_RECORDED)
                continue
            try:
                self._restorer.directories.enter(place)
                is_gone = self._removal.remove(place, name, status, dry_run=self._dry_run)
            except OSError as error:
                self._problem(place, name, reason_of(error))
                continue
            if is_gone:
                tally.place = place
                tally.step(Action.DELETED, name)

    def _problem(self, place: bytes, name: bytes, reason: str) -> None:
        self._tally.place = place
        self._tally.problem(EntryKind.DELETE, name, reason)
