"""How much a FileSet holds: a walk that reads names and sizes, no content.

It counts what a full backup would; files with several names count once for each.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from strongroom.filesets.rules import FileSetSelection, outermost
from strongroom.rows.rows import COLUMN_COUNT, MODE, SIZE
from strongroom.rows.views import join_path, split_path
from strongroom.scan.directory import open_beneath, read_names, stat_rows, without_failures
from strongroom.sources.problem import Problem

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable

    from strongroom.filesets.resolve import ResolvedFileSet
    from strongroom.progress import Progress

_ROOT_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(slots=True)
class Estimate:
    """What was counted; sizes of regular files, in bytes."""

    files: int = 0
    directories: int = 0
    others: int = 0
    size_bytes: int = 0
    problems: list[Problem] = field(default_factory=list)


def estimate(
    fileset: ResolvedFileSet,
    progress: Progress,
    found: Callable[[bytes, list[bytes]], None] | None = None,
) -> Estimate:
    """Walk a FileSet. `found(directory, names)` receives every entry that a backup would hold.

    Changes the working directory. Raises UsageError for a FileSet that is not well formed.
    """
    here = os.open(b".", os.O_PATH | os.O_CLOEXEC)
    root_fd = os.open(b"/", _ROOT_FLAGS)
    try:
        return _EstimateWalk(fileset, progress, found, root_fd).run()
    finally:
        os.close(root_fd)
        os.fchdir(here)
        os.close(here)


class _EstimateWalk:
    def __init__(
        self,
        fileset: ResolvedFileSet,
        progress: Progress,
        found: Callable[[bytes, list[bytes]], None] | None,
        root_fd: int,
    ) -> None:
        self._paths = outermost(fileset.rules.roots)
        self._selection = FileSetSelection(fileset.rules, tells_treatments=False)
        self._progress = progress
        self._found = found
        self._root_fd = root_fd
        self._counts = Estimate(problems=list(fileset.problems))

    def run(self) -> Estimate:
        for path in self._paths:
            above, name = split_path(path) if path else (b"", b"")
            pending = self._directory(above, [name] if path else [b"."])
            while pending:
                pending += self._directory(pending.pop(), None)
        return self._counts

    def _directory(self, path: bytes, only: list[bytes] | None) -> list[bytes]:
        """Count the names in a directory, or `only` those; which to enter, the last one first."""
        try:
            descriptor = open_beneath(self._root_fd, path)
        except OSError as error:
            self._problem(path, error)
            return []
        try:
            names = read_names(descriptor) if only is None else only
            assert names is not None
            os.fchdir(descriptor)
            flat, failures = stat_rows(names)
            for failure in failures:
                self._problem(join_path(path, failure.name), failure.error)
            names = without_failures(names, failures)
            if only is None:
                judged = self._selection.judge(path, names, flat)
                kept, left = judged.kept or [True] * len(names), judged.left
            else:
                kept, left = [True] * len(names), frozenset()
        except OSError as error:
            self._problem(path, error)
            return []
        finally:
            os.close(descriptor)
        return self._count(path, names, flat, kept, left)

    def _count(
        self,
        path: bytes,
        names: list[bytes],
        flat: array[int],
        kept: list[bool],
        left: frozenset[bytes],
    ) -> list[bytes]:
        counts = self._counts
        told, entered = [], []
        content_bytes = 0
        modes, sizes = flat[MODE::COLUMN_COUNT], flat[SIZE::COLUMN_COUNT]
        for name, mode, size, is_kept in zip(names, modes, sizes, kept, strict=True):
            if not is_kept or stat.S_ISSOCK(mode):
                continue
            told.append(name)
            if stat.S_ISREG(mode):
                counts.files += 1
                content_bytes += size
            elif stat.S_ISDIR(mode):
                counts.directories += 1
                if name not in left:
                    entered.append(b"" if name == b"." else join_path(path, name))
            else:
                counts.others += 1
        counts.size_bytes += content_bytes
        self._progress.add(files=len(told), bytes=content_bytes)
        if self._found is not None and told:
            self._found(path, told)
        return entered[::-1]

    def _problem(self, path: bytes, error: OSError) -> None:
        self._counts.problems.append(Problem(path, error.errno or 0, error.strerror or str(error)))
        self._progress.add(errors=1)
