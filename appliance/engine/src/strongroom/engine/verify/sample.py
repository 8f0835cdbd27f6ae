"""Restore a sample of a snapshot's files, compare what was written, and remove it again.

The sample is random at each run, every regular file with the same chance, until so many files or
bytes are reached. It exercises a complete restore and verify: if this works, a restore works.
Needs room for the sample in the scratch folder, which is emptied before and after.
"""

from __future__ import annotations

import heapq
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

import msgspec
import numpy as np
from blake3 import blake3

from strongroom.base import clock
from strongroom.base.printable import printable
from strongroom.base.progress import Progress
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.restore.options import (
    LeftOut,
    Overwrite,
    RestoreOptions,
    RestoreProblem,
    Step,
)
from strongroom.engine.restore.restore import restore
from strongroom.engine.rows.rows import COLUMN_COUNT, MODE, SIZE, WHOLE, Rows
from strongroom.engine.rows.views import RowReader
from strongroom.engine.scan.patterns import Patterns
from strongroom.engine.verify.options import LiveDifference, VerifyOptions
from strongroom.engine.verify.verify import verify

_CACHE_BYTES: Final = 8 << 20
_ESCAPED: Final = b"*?[]\\!"
_MOST_NAMED: Final = 100
# What a restore without root's rights cannot set, and reports. The mode is compared later.
_RIGHTS: Final = frozenset(("owner", "xattr", "acl", "flags", "device"))


class SampleReport(msgspec.Struct, frozen=True):
    """files, bytes: of the sample. faults: what was not restored or differs, the first of it."""

    files: int
    bytes: int
    fault_count: int
    faults: tuple[str, ...]
    elapsed_seconds: float


def restore_sample(
    repository: Repository,
    snapshot: Snapshot,
    scratch: bytes,
    most_files: int,
    most_bytes: int,
    show: Callable[[], AbstractContextManager[Progress]],
) -> SampleReport:
    """Restore a sample of `snapshot` (read with its pages) into the folder `scratch`.

    Raises what restore and verify raise; the folder is removed in any case.
    """
    started = clock.elapsed_seconds()
    index = repository.kept_index()
    reader = repository.reader_of(snapshot, index, _CACHE_BYTES)
    sample = _draw(Listing(snapshot.pages, reader, 1), most_files, most_bytes)
    faults = _Faults()
    if sample:
        includes = Patterns([(literal_pattern(path), False) for _, path in sample])
        shutil.rmtree(scratch, ignore_errors=True)
        os.makedirs(scratch, mode=0o700)
        try:
            options = RestoreOptions(
                target=scratch, includes=includes, overwrite=Overwrite.ALWAYS, processes=1
            )
            restore(repository, snapshot, options, show, faults)
            compared = VerifyOptions(
                root=scratch,
                includes=includes,
                reads_content=True,
                finds_extra=False,
                after_restore=True,
                keeps_privileges=False,
                processes=1,
            )
            verify(repository, snapshot, compared, show, faults)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return SampleReport(
        files=len(sample),
        bytes=sum(size for size, _ in sample),
        fault_count=faults.count,
        faults=tuple(faults.named),
        elapsed_seconds=clock.elapsed_seconds() - started,
    )


def literal_pattern(path: bytes) -> bytes:
    """A pattern that matches this path and nothing else."""
    return b"/" + b"".join(
        b"\\" + bytes((byte,)) if byte in _ESCAPED else bytes((byte,)) for byte in path.strip(b"/")
    )


def _draw(listing: Listing, most_files: int, most_bytes: int) -> list[tuple[int, bytes]]:
    """(Size, path) of randomly chosen files, together of no more bytes than allowed."""
    seed = clock.random_bytes(32)
    # The files of the smallest digests: each has the same chance, and only those are kept.
    kept: list[tuple[int, int, bytes]] = []
    for size, path in _files(listing):
        if size > most_bytes:
            continue
        rank = -int.from_bytes(blake3(path, key=seed).digest(8), "big")
        if len(kept) < most_files:
            heapq.heappush(kept, (rank, size, path))
        elif rank > kept[0][0]:
            heapq.heapreplace(kept, (rank, size, path))
    chosen: list[tuple[int, bytes]] = []
    total = 0
    for _, size, path in sorted(kept, reverse=True):
        if total + size <= most_bytes:
            total += size
            chosen.append((size, path))
    return chosen


def _files(listing: Listing) -> Iterator[tuple[int, bytes]]:
    for groups in listing.pages():
        for rows in groups:
            yield from _regular(rows)


def _regular(rows: Rows) -> Iterator[tuple[int, bytes]]:
    columns = np.frombuffer(rows.stats, "<i8").reshape(-1, COLUMN_COUNT)
    found = np.flatnonzero((columns[:, MODE] & 0o170000) == stat.S_IFREG).tolist()
    if found:
        reader = RowReader(rows)
        for row in found:
            view = reader.view(row)
            # Without root's rights, files that their owner may not read cannot be compared.
            if view.state == WHOLE and (view.mode & stat.S_IRUSR or not os.geteuid()):
                yield int(columns[row, SIZE]), view.path


class _Faults:
    """Receives the problems of restore and verify."""

    def __init__(self) -> None:
        self.count = 0
        self.named: list[str] = []

    def problem(self, problem: RestoreProblem) -> None:
        if os.geteuid() and problem.kind in (*_RIGHTS, "mode"):
            return
        self._note(f"not restored ({problem.kind})", problem.path, problem.reason)

    def step(self, step: Step) -> None:
        """Nothing to note."""

    def left_out(self, left_out: LeftOut) -> None:
        """Nothing to note: no sample has privileges."""

    def difference(self, difference: LiveDifference) -> None:
        if os.geteuid() and difference.kind in _RIGHTS:
            return
        self._note(f"differs ({difference.kind})", difference.path, difference.reason)

    def _note(self, what: str, path: bytes, reason: str) -> None:
        self.count += 1
        if len(self.named) < _MOST_NAMED:
            self.named.append(f"/{printable(path)}: {what}: {reason}")
