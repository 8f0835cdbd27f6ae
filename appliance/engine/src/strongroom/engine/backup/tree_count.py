"""Counts what a backup would hold: a walk that reads names and sizes, no content.

Files with several names count once for each. A wide directory is examined in lots of names, so
that a million of them need little more memory than a thousand.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import signal
import stat
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NoReturn

import msgspec

from strongroom.base.printable import flush_standard_streams
from strongroom.base.progress import NullProgress, Progress
from strongroom.engine.backup.own_repository import OwnRepository
from strongroom.engine.backup.wide_directory import WIDE_DIRECTORY_ROWS
from strongroom.engine.filesets.exclusions import Selection
from strongroom.engine.filesets.resolve import ResolvedFileSet
from strongroom.engine.filesets.rules import FileSetSelection, outermost
from strongroom.engine.rows.rows import COLUMN_COUNT, DEVICE, MODE, SIZE
from strongroom.engine.rows.views import join_path, split_path
from strongroom.engine.scan.directory import (
    open_beneath,
    read_names,
    read_some_names,
    read_wide_names,
    stat_rows,
    without_failures,
)
from strongroom.sources.source import Problem

_ROOT_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Larger files may be so large only by their holes, and one of them may outweigh all else.
_LARGE_BYTES: Final = 1 << 30


class Counted(msgspec.Struct):
    """What was counted; sizes of regular files, in bytes, those of large ones without holes."""

    files: int = 0
    directories: int = 0
    others: int = 0
    size_bytes: int = 0
    problems: list[Problem] = []


class TreeCount:
    """One walk. It changes the working directory while it runs."""

    def __init__(
        self,
        paths: tuple[bytes, ...],
        selection: Selection | FileSetSelection | None,
        devices: frozenset[int] | None = None,
        *,
        progress: Progress | None = None,
        found: Callable[[bytes, list[bytes]], None] | None = None,
        own: OwnRepository | None = None,
    ) -> None:
        """`found(directory, names)` receives every entry that a backup would hold.

        devices: the file systems to enter, None for all. own: a repository to leave out. A wide
        directory is found in several lots.
        """
        self._paths = paths
        self._selection = selection
        self._devices = devices
        self._progress: Progress = NullProgress() if progress is None else progress
        self._found = found
        self._own = own
        self._root_fd = -1
        self._counts = Counted()

    def run(self) -> Counted:
        """Walk."""
        here = os.open(b".", os.O_PATH | os.O_CLOEXEC)
        self._root_fd = os.open(b"/", _ROOT_FLAGS)
        try:
            for path in self._paths:
                above, name = split_path(path) if path else (b"", b"")
                pending = self._directory(above, [name] if path else [b"."])
                while pending:
                    pending += self._directory(pending.pop(), None)
        finally:
            os.close(self._root_fd)
            os.fchdir(here)
            os.close(here)
        return self._counts

    def _directory(self, path: bytes, only: list[bytes] | None) -> list[bytes]:
        """Count the names in a directory, or `only` those; which to enter, the last one first."""
        try:
            descriptor = open_beneath(self._root_fd, path)
        except OSError as error:
            self._problem(path, error)
            return []
        entered: list[bytes] = []
        try:
            for names in [only] if only is not None else self._names_of(descriptor):
                if only is None and self._own is not None and self._own.is_at(descriptor, names):
                    break
                os.fchdir(descriptor)
                entered += self._lot(path, names, selects=only is None)
        except OSError as error:
            self._problem(path, error)
        finally:
            os.close(descriptor)
        return entered[::-1]

    def _names_of(self, directory_fd: int) -> Iterator[list[bytes]]:
        """The names in the directory in lots, in order where they are reported. Raises OSError."""
        if self._found is None:
            return read_some_names(directory_fd, WIDE_DIRECTORY_ROWS)
        names = read_names(directory_fd, WIDE_DIRECTORY_ROWS)
        return read_wide_names() if names is None else iter([names])

    def _lot(self, path: bytes, names: list[bytes], *, selects: bool) -> list[bytes]:
        """Count names in a directory, the working directory; returns which to enter."""
        flat, failures = stat_rows(names)
        for failure in failures:
            self._problem(join_path(path, failure.name), failure.error)
        names = without_failures(names, failures)
        kept: list[bool] | None = None
        left: frozenset[bytes] = frozenset()
        if selects and self._selection is not None:
            judged = self._selection.judge(path, names, flat)
            kept, left = judged.kept, judged.left
        return self._count(path, names, flat, kept or [True] * len(names), left)

    def _count(
        self,
        path: bytes,
        names: list[bytes],
        flat: array[int],
        kept: list[bool],
        left: frozenset[bytes],
    ) -> list[bytes]:
        counts = self._counts
        counted_names, entered = [], []
        content_bytes = 0
        modes, sizes = flat[MODE::COLUMN_COUNT], flat[SIZE::COLUMN_COUNT]
        devices = flat[DEVICE::COLUMN_COUNT]
        rows = zip(names, modes, sizes, devices, kept, strict=True)
        for name, mode, size, device, is_kept in rows:
            if not is_kept or stat.S_ISSOCK(mode):
                continue
            counted_names.append(name)
            if stat.S_ISREG(mode):
                counts.files += 1
                content_bytes += size if size < _LARGE_BYTES else _data_bytes(name, size)
            elif stat.S_ISDIR(mode):
                counts.directories += 1
                if name not in left and (self._devices is None or device in self._devices):
                    entered.append(b"" if name == b"." else join_path(path, name))
            else:
                counts.others += 1
        counts.size_bytes += content_bytes
        self._progress.add(files=len(counted_names), bytes=content_bytes)
        if self._found is not None and counted_names:
            self._found(path, counted_names)
        return entered

    def _problem(self, path: bytes, error: OSError) -> None:
        self._counts.problems.append(Problem(path, error.errno or 0, error.strerror or str(error)))
        self._progress.add(errors=1)


def _data_bytes(name: bytes, size: int) -> int:
    """How much of a file of the working directory is no hole, as far as its status tells."""
    try:
        return min(size, os.lstat(name).st_blocks * 512)
    except OSError:
        return size


# Counts what there is to back up, in a process that runs ahead of a first backup.
#
# Nothing but the display of progress waits for it, so it is nice to the backup. It starts after
# three seconds, so that short backups never notice it. It sends nothing: two words in shared memory
# hold the sums, a third says that they are complete.

_PR_SET_PDEATHSIG: Final = 1
_START_SECONDS: Final = 3.0
# Where no processor is idle it gets a seventieth of one (sched(7)), enough for thousands of files a
# second; shards that wait for a disk leave it more.
_NICENESS: Final = 19
_FILES, _BYTES, _IS_DONE = range(3)


class CountAhead:
    """Fork it before there are threads, and before anything that the child should not inherit."""

    def __init__(
        self,
        paths: tuple[bytes, ...],
        selection: Selection | FileSetSelection | None,
        devices: frozenset[int] | None,
        own: OwnRepository | None,
    ) -> None:
        """`devices`: the file systems to enter; None: all. own: is not entered."""
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
        self._count = TreeCount(paths, selection, devices, own=own)
        parent = os.getpid()
        flush_standard_streams()
        self._pid = os.fork()
        if not self._pid:
            self._be_child(parent)

    def totals(self) -> tuple[int, int] | None:
        """Files and bytes; None until everything is counted."""
        if not self._words[_IS_DONE]:
            return None
        return self._words[_FILES], self._words[_BYTES]

    def end(self) -> None:
        """End the process."""
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def _be_child(self, parent: int) -> NoReturn:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            gc.disable()
            os.nice(_NICENESS)
            time.sleep(_START_SECONDS)
            counted = self._count.run()
            self._words[_FILES] = counted.files
            self._words[_BYTES] = counted.size_bytes
            self._words[_IS_DONE] = 1
        except BaseException:  # noqa: BLE001 - the progress then shows no totals, which is all
            os._exit(1)
        finally:
            os._exit(0)


# How much a FileSet holds: what a full backup of it would count.


def estimate(
    fileset: ResolvedFileSet,
    progress: Progress,
    found: Callable[[bytes, list[bytes]], None] | None = None,
) -> Counted:
    """Walk a FileSet. `found(directory, names)` receives every entry that a backup would hold.

    Changes the working directory meanwhile. Raises UsageError for a FileSet that is not well
    formed.
    """
    selection = FileSetSelection(fileset.rules, tells_treatments=False)
    paths = outermost(fileset.rules.roots)
    counted = TreeCount(paths, selection, progress=progress, found=found).run()
    counted.problems[:0] = fileset.problems
    return counted
