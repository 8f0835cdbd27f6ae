"""Very large files: created by the coordinator, written by all children at once.

The coordinator creates (or opens) the file and keeps it open, hands out stretches of its parts,
and when the last one is written sets the attributes and, if the file replaces another, its name.
Children open it again and verify that it is the same inode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec

from strongroom.base.errors import DamageError
from strongroom.engine.processes.windows import Marks
from strongroom.engine.restore.child import RowRestorer
from strongroom.engine.restore.content import (
    Layout,
    content_is,
    layout_of,
    part_lengths,
    refuse_dead_target,
)
from strongroom.engine.restore.existing_entries import is_kept, open_to_write, set_aside
from strongroom.engine.restore.messages import (
    RestorePool,
    RestoreReply,
    StretchWritten,
    WriteStretch,
)
from strongroom.engine.restore.metadata import reason_of
from strongroom.engine.restore.options import Action, EntryKind, Overwrite
from strongroom.engine.restore.target_directories import status_of, temporary_name
from strongroom.engine.rows.rows import UNREADABLE
from strongroom.engine.rows.views import RowView
from strongroom.engine.scan.directory import fitting_mtime_ns

LARGE_BYTES: Final = 64 << 20
STRETCH_BYTES: Final = 16 << 20


class _LargeFile(msgspec.Struct, eq=False):
    """One file in progress. before: the existing entry; in_place: it is written to."""

    row: RowView
    place: bytes
    name: bytes
    fd: int
    before: os.stat_result | None
    in_place: bool
    stretches_left: int = 0
    written_bytes: int = 0
    reason: str | None = None
    lengths: list[int] = []


class LargeFiles:
    """Restores large files through a pool; problems and actions go to `restorer.tally`."""

    def __init__(
        self, restorer: RowRestorer, pool: RestorePool, marks: Marks, overwrite: Overwrite
    ) -> None:
        self._restorer = restorer
        self._pool = pool
        self._marks = marks
        self._overwrite = overwrite
        self._under_way: list[_LargeFile] = []

    def restore(self, row: RowView, place: bytes, mark: int, *, is_new: bool) -> None:
        """Start restoring one file; `mark` ends when it is done."""
        tally = self._restorer.tally
        try:
            self._restorer.maker.enter(place, is_new=is_new)
            file = self._begin(row, place, is_new)
        except (DamageError, OSError) as error:
            tally.place = place
            self._fail(row, error)
            self._marks.end(mark)
            return
        if file is None:
            self._marks.end(mark)
            return
        layout = layout_of(row)
        tasks = list(self._tasks(file, layout))
        file.stretches_left = len(tasks)
        self._under_way.append(file)

        def done(reply: RestoreReply) -> None:
            assert isinstance(reply, StretchWritten)
            self._take(file, mark, reply)

        for task in tasks:
            self._pool.submit(task, done)

    def abort(self) -> None:
        """Remove half-written files, or rename them; no child writes any more."""
        while self._under_way:
            file = self._under_way.pop()
            with suppress(OSError):
                self._restorer.directories.enter(file.place)
                if file.in_place:
                    set_aside(file.name)
                else:
                    os.unlink(file.name)
            os.close(file.fd)

    def _begin(self, row: RowView, place: bytes, is_new: bool) -> _LargeFile | None:
        """The file, ready to be written; None when there is nothing to write."""
        maker, tally = self._restorer.maker, self._restorer.tally
        if row.state == UNREADABLE:
            tally.problem(EntryKind.UNREAD, row.name, "the backup could not read it")
            self._unusable(row)
            return None
        status = None if is_new else status_of(row.name)
        if status is not None and is_kept(row, status, self._overwrite):
            tally.step(Action.KEPT, row.name)
            self._unusable(row)
            return None
        layout = layout_of(row)
        lengths = part_lengths(row, maker.source, layout)
        if status is not None and stat.S_ISREG(status.st_mode):
            looks_same = (status.st_size, fitting_mtime_ns(status)) == (row.size, row.mtime_ns)
            if looks_same and self._overwrite is not Overwrite.ALWAYS:
                tally.step(self._restorer.existing.place(row, status), row.name)
                return None
            fd = open_to_write(row.name, status)
            if fd is not None:
                if status.st_size > layout.size_bytes:
                    os.ftruncate(fd, layout.size_bytes)
                return _LargeFile(row, place, row.name, fd, status, True, lengths=lengths)
            if looks_same and self._is_unchanged(row, layout):
                tally.step(Action.UNCHANGED, row.name)
                return None
        name = row.name if status is None else temporary_name()
        fd = maker.open_new(row, name)
        os.ftruncate(fd, layout.size_bytes)
        return _LargeFile(row, place, name, fd, status, False, lengths=lengths)

    def _is_unchanged(self, row: RowView, layout: Layout) -> bool:
        """Whether a file that is not to be written in place (it has several names) is right."""
        fd = os.open(row.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return content_is(
                fd, row, layout, self._restorer.maker.source
            ) and self._restorer.maker.setter.has_same_attributes(fd, row, os.fstat(fd))
        finally:
            os.close(fd)

    def _tasks(self, file: _LargeFile, layout: Layout) -> Iterator[WriteStretch]:
        status = os.fstat(file.fd)
        row, offset, length = file.row, 0, 0
        parts: list[tuple[bytes, int]] = []

        def task() -> WriteStretch:
            return WriteStretch(
                file.place,
                file.name,
                (status.st_dev, status.st_ino),
                file.in_place,
                layout.size_bytes,
                layout.extents,
                offset,
                parts,
            )

        for part, size in zip(row.parts, file.lengths, strict=True):
            parts.append(part)
            length += size
            if length >= STRETCH_BYTES:
                yield task()
                offset, length, parts = offset + length, 0, []
        if parts or not row.parts:
            yield task()

    def _take(self, file: _LargeFile, mark: int, reply: StretchWritten) -> None:
        tally = self._restorer.tally
        before = tally.written_bytes
        tally.add_counts(reply.counts)
        file.written_bytes += tally.written_bytes - before
        file.reason = file.reason or reply.reason
        file.stretches_left -= 1
        if file.stretches_left:
            return
        tally.place = file.place
        try:
            self._under_way.remove(file)
            self._restorer.directories.enter(file.place)
            self._finish(file)
        except (DamageError, OSError) as error:
            self._fail(file.row, error)
        finally:
            os.close(file.fd)
            self._marks.end(mark)

    def _finish(self, file: _LargeFile) -> None:
        row, tally = file.row, self._restorer.tally
        existing, maker = self._restorer.existing, self._restorer.maker
        try:
            if file.reason is not None:
                raise DamageError(file.reason)
            if file.in_place:
                existing.finish_in_place(file.fd, row)
            else:
                maker.finish_new(file.fd, row, is_final=file.before is None)
                if file.before is not None:
                    existing.move_over(file.name, row.name, file.before)
                    if row.flags and not maker.defers_flags(row):
                        maker.setter.set_flags(file.fd, row.name, row.mode, row.flags)
        except (DamageError, OSError) as error:
            if file.in_place and file.before is not None:
                existing.give_up_in_place(file.fd, row.name, file.before, error)
            else:
                os.unlink(file.name)
            raise
        same = file.in_place and file.before is not None and not file.written_bytes
        looked_same = (
            same and file.before is not None and fitting_mtime_ns(file.before) == row.mtime_ns
        )
        action = Action.CREATED if file.before is None else Action.UPDATED
        tally.step(Action.UNCHANGED if looked_same else action, row.name)

    def _fail(self, row: RowView, error: DamageError | OSError) -> None:
        self._unusable(row)
        tally = self._restorer.tally
        if isinstance(error, OSError):
            refuse_dead_target(error)
            tally.problem(EntryKind.ENTRY, row.name, reason_of(error))
        else:
            tally.problem(EntryKind.CONTENT, row.name, str(error))

    def _unusable(self, row: RowView) -> None:
        if row.link_count > 1:
            self._restorer.unusable.append((row.device, row.inode))
