"""Reads the content of changed files in a shard and passes it on as chunks.

A file up to WHOLE_FILE_BYTES is one chunk; it is read again, up to ATTEMPTS times, if it changes
while it is read. A larger one is cut by content into chunks; if it changes while it is read, that
is reported and the row keeps what was read. Holes of sparse files are never read.

Content is offered to share if it is of a public file of a directory that offers (DirectoryWork), by
the permission bits that the file has when it is read: such content is cut and identified under the
common keys. What a file held while no one knows whether it was public is not offered.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

from strongroom.engine.backup.options import Treatment, Tuning
from strongroom.engine.backup.shards.directory_work import DirectoryWork
from strongroom.engine.backup.shards.lot_cutter import (
    ByteSource,
    LotCutter,
    SegmentReader,
    StreamReader,
    first_bytes,
)
from strongroom.engine.backup.shards.tally import BYTES, FILES
from strongroom.engine.content.chunker import Chunker
from strongroom.engine.content.codecs import Compression
from strongroom.engine.content.digests import Signature, new_signature
from strongroom.engine.repository.keys.owners import OwnerKeys
from strongroom.engine.rows.rows import COLUMN_COUNT, CTIME_NS, DEVICE, INODE, MODE, MTIME_NS, SIZE
from strongroom.engine.scan.attributes import read_flags
from strongroom.engine.scan.directory import fitting_columns
from strongroom.engine.scan.share_folders import is_public
from strongroom.engine.sources.regular_files import (
    FileOpener,
    data_extents,
    may_be_sparse,
    required_regular,
)
from strongroom.engine.writing.block_assembly import WHOLE_FILE_BYTES, BlockAssembler
from strongroom.sources.source import UNSIZED, Problem, Stream

ATTEMPTS: Final = 3
# Files opened ahead: enough to keep a disk busy, few enough descriptors.
OPENED_AHEAD: Final = 32
_TO_THE_END: Final = 1 << 62
_EMPTY: Final = "it is empty; --allow-empty backs it up without a warning"
_CHANGED: Final = "it changed while it was read; what was read is kept"


class Fetched(msgspec.Struct, frozen=True, gc=False):
    """Content, chattr flags, and where the data of a sparse file lies.

    is_stable: the file did not change while it was read.
    """

    data: bytes
    flags: int
    extents: list[tuple[int, int]] | None
    is_stable: bool = True


class ContentReader:
    """Reads for one shard."""

    def __init__(
        self,
        assembler: BlockAssembler,
        tuning: Tuning,
        keys: OwnerKeys,
        treatments: tuple[Treatment, ...],
        compressions: tuple[Compression, ...],
        tally: memoryview,
        unsized: Mapping[int, bytes | None],
        *,
        allows_empty: bool,
    ) -> None:
        """`treatments`: by the numbers in works; `compressions`: by the assembler's numbers.

        `tally`: this shard's part of a ShardTally. `unsized`, `allows_empty`: as of ScanRules.
        """
        self._unsized = unsized
        self._allows_empty = allows_empty
        self._assembler = assembler
        self._signs = [treatment.signs for treatment in treatments]
        self._compressions = [compressions.index(one.compression) for one in treatments]
        self._flags = read_flags if tuning.flags else _no_flags
        self._signature_name = tuning.signature
        self._signs_any = tuning.signature != "none"
        self._keys = keys
        self._tally = tally
        self._opener = FileOpener()
        self._cutter = LotCutter()

    def rows_to_read(
        self,
        work: DirectoryWork,
        share_bytes: int | None,
        byte_range: tuple[int, int] | None,
    ) -> list[int]:
        """Changed regular files of `work` that have content to read.

        With `share_bytes`, rows beyond so many bytes are deferred instead. byte_range: as of
        `read_rows`.
        """
        flat = work.flat
        modes, sizes = flat[MODE::COLUMN_COUNT], flat[SIZE::COLUMN_COUNT]
        left = share_bytes
        rows: list[int] = []
        for row in work.changed_rows:
            if modes[row] & 0o170000 != 0o100000:
                continue
            size = sizes[row]
            if left is not None:
                left -= size
                if left < 0 and size:
                    work.read.deferred.append(row)
                    continue
            work.read.files += 1
            if not size and self._unsized and self._is_unsized(work, row):
                rows.append(row)
                continue
            if not size:
                signature = self._new_signature(work, row)
                if signature is not None:
                    work.sign(row, signature.digest())
                continue
            rows.append(row)
        if byte_range is not None and byte_range[0]:
            work.read.files = 0  # the reader of the first range counts the file
        return rows

    def _is_unsized(self, work: DirectoryWork, row: int) -> bool:
        """Whether a file is to be read to its end, whatever its size."""
        device = work.column(row, DEVICE)
        place = self._unsized.get(device, b"")
        if place:
            known = Problem(place, 0, UNSIZED)
            if known not in work.problems:
                work.problems.append(known)
        return place is None

    def read_rows(
        self, work: DirectoryWork, rows: list[int], byte_range: tuple[int, int] | None
    ) -> None:
        """Read files of the working directory in order, some of them opened ahead.

        With `byte_range`, only that (offset, length) of the one file of `work` is read, and the
        row's size becomes what was read. Files that cannot be read become problems of the work.
        Raises StoreError.
        """
        names, flat = work.names, work.flat
        open_ahead = self._opener.open_ahead
        opened: deque[tuple[int, int]] = deque()
        try:
            for row in rows:
                whole = flat[row * COLUMN_COUNT + SIZE] <= WHOLE_FILE_BYTES
                try:
                    opened.append((row, open_ahead(names[row], whole)))
                except OSError as error:
                    work.unreadable(row, error)
                if len(opened) == OPENED_AHEAD:
                    self._read_first(work, opened, byte_range)
            while opened:
                self._read_first(work, opened, byte_range)
        finally:
            for _, fd in opened:
                os.close(fd)

    def _read_first(
        self,
        work: DirectoryWork,
        opened: deque[tuple[int, int]],
        byte_range: tuple[int, int] | None,
    ) -> None:
        """Read the first of some open files, and close it. Raises StoreError."""
        row, fd = opened.popleft()
        try:
            size = work.flat[row * COLUMN_COUNT + SIZE]
            if not size:
                required_regular(os.fstat(fd))
                self._read_to_end(work, row, SegmentReader(fd, [(0, _TO_THE_END)]))
            elif byte_range is None and size <= WHOLE_FILE_BYTES:
                fetched = self._fetch_open(work, row, fd) or self._fetch_again(work, row, fd)
                if fetched is not None:
                    self.take(work, row, fetched)
                else:
                    self._read_large(work, row, fd, byte_range)
            else:
                self._read_large(work, row, fd, byte_range)
        except OSError as error:
            work.unreadable(row, error)
        finally:
            os.close(fd)

    def fetch(self, work: DirectoryWork, rows: list[int]) -> list[tuple[int, Fetched | None]]:
        """Read small files of the working directory; None for each that changed meanwhile.

        Called by threads of a scan pool: nothing is changed here, `take` does that. A file that
        gives None is read in its turn by `read_rows`, which reports what is wrong with it.
        """
        found: list[tuple[int, Fetched | None]] = []
        for row in rows:
            fetched = None
            try:
                fd = self._opener.open(work.names[row])
                try:
                    fetched = self._fetch_open(work, row, fd)
                finally:
                    os.close(fd)
            except OSError:
                fetched = None
            found.append((row, fetched))
        return found

    def take(self, work: DirectoryWork, row: int, fetched: Fetched) -> None:
        """Pass on the whole content of a small file. Raises StoreError."""
        data = fetched.data
        if fetched.flags:
            work.attributes.flags[row] = fetched.flags
        if fetched.extents is not None:
            work.attributes.extents[row] = fetched.extents
        size = len(data)
        work.read.size_bytes += size
        self._tally[BYTES] += size
        self._count_file(work)
        if self._signs_any:
            signature = self._new_signature(work, row)
            if signature is not None:
                signature.update(data)
                work.sign(row, signature.digest())
        if data:
            work.expect_one(row)
            compression = 0 if work.task.treatments is None else self._compression(work, row)
            offered = work.task.offers and fetched.is_stable and is_public(work.column(row, MODE))
            self._assembler.add_small(work, row, 0, data, compression, offered=offered)

    def _count_file(self, work: DirectoryWork) -> None:
        work.read.tallied_files += 1
        self._tally[FILES] += 1

    def _new_signature(self, work: DirectoryWork, row: int) -> Signature | None:
        """A digest for the row's content; None without signatures."""
        chosen = work.task.treatments
        if not self._signs_any or (chosen is not None and not self._signs[chosen[row]]):
            return None
        return new_signature(self._signature_name)

    def _compression(self, work: DirectoryWork, row: int) -> int:
        chosen = work.task.treatments
        return 0 if chosen is None else self._compressions[chosen[row]]

    def _fetch_open(self, work: DirectoryWork, row: int, fd: int) -> Fetched | None:
        """The content of a small file; None when it changed since it was listed. Raises OSError."""
        size = work.flat[row * COLUMN_COUNT + SIZE]
        # One byte more than expected shows a file that grew.
        data = os.read(fd, size + 1)
        status = os.fstat(fd)
        if len(data) != size or not _is_as_seen(status, work.flat, row):
            required_regular(status)
            return None
        return self._fetched(fd, data, status)

    def _fetch_again(self, work: DirectoryWork, row: int, fd: int) -> Fetched | None:
        """Read a small file that changed since it was listed until it is stable.

        None when it is no longer a small file. Raises OSError.
        """
        status = os.fstat(fd)
        for _ in range(ATTEMPTS):
            before = status
            data = os.pread(fd, WHOLE_FILE_BYTES + 1, 0)
            status = os.fstat(fd)
            if _same(before, status) and len(data) == min(status.st_size, WHOLE_FILE_BYTES + 1):
                break
        else:
            if len(data) <= WHOLE_FILE_BYTES:
                _take_status(work.flat, row, status)
                work.resize(row, len(data))
                work.changed_meanwhile(row, _CHANGED)
                return Fetched(data, self._flags(fd), None, is_stable=False)
        if len(data) > WHOLE_FILE_BYTES:
            return None
        _take_status(work.flat, row, status)
        return self._fetched(fd, data, status)

    def _fetched(self, fd: int, data: bytes, status: os.stat_result) -> Fetched:
        flags = self._flags(fd)
        extents = data_extents(fd, status.st_size) if may_be_sparse(status) else None
        if extents is not None:
            data = b"".join([data[start : start + length] for start, length in extents])
        return Fetched(data, flags, extents)

    def _read_large(
        self, work: DirectoryWork, row: int, fd: int, byte_range: tuple[int, int] | None
    ) -> None:
        before = os.fstat(fd)
        required_regular(before)
        flags = self._flags(fd)
        if flags:
            work.attributes.flags[row] = flags
        size = before.st_size
        first, end = 0, size
        is_as_listed = True
        if byte_range is None:
            _take_status(work.flat, row, before)
        else:
            # Ranges of one file are read separately, so all must see the file that was listed.
            is_as_listed = _is_as_seen(before, work.flat, row)
            first, end = min(byte_range[0], size), min(sum(byte_range), size)
        extents = data_extents(fd, end, first) if may_be_sparse(before) else None
        segments = [(first, end - first)] if extents is None else extents
        signature = self._new_signature(work, row)
        offered = work.task.offers and is_public(before.st_mode)
        read_bytes = self._chunk(work, row, SegmentReader(fd, segments), signature, offered=offered)
        if signature is not None:
            work.sign(row, signature.digest())
        if byte_range is None:
            self._count_file(work)
        if extents is not None:
            work.attributes.extents[row] = first_bytes(extents, read_bytes)
        if byte_range is not None or (extents is None and read_bytes != size):
            work.resize(row, read_bytes)
        is_whole = read_bytes == sum(length for _, length in segments)
        if not is_as_listed or not is_whole or not _same(before, os.fstat(fd)):
            work.changed_meanwhile(row, _CHANGED)

    def read_stream(self, work: DirectoryWork, row: int, stream: Stream) -> None:
        """Read `stream` to its end as the content of `row`. Raises SourceError, StoreError."""
        work.read.files += 1
        read_bytes = self._read_to_end(work, row, StreamReader(stream))
        stream.finish()
        if not read_bytes and not self._allows_empty:
            work.problems.append(Problem(work.names[row], 0, _EMPTY))

    def _read_to_end(self, work: DirectoryWork, row: int, source: ByteSource) -> int:
        """The content of a row is all that a source has; how many bytes. See `_chunk`."""
        signature = self._new_signature(work, row)
        read_bytes = self._chunk(work, row, source, signature, offered=False)
        if signature is not None:
            work.sign(row, signature.digest())
        self._count_file(work)
        work.resize(row, read_bytes)
        return read_bytes

    def _chunk(
        self,
        work: DirectoryWork,
        row: int,
        source: ByteSource,
        signature: Signature | None,
        *,
        offered: bool,
    ) -> int:
        """Pass on `source` as chunks of `row`; returns how many bytes it had."""
        read_bytes = 0
        part = 0
        compression = self._compression(work, row)
        chunker = Chunker(self._keys.content(offered=offered).chunker_seed)
        for chunks in self._cutter.lots(source, chunker, signature):
            lot_bytes = sum(len(chunk) for chunk in chunks)
            read_bytes += lot_bytes
            self._tally[BYTES] += lot_bytes
            work.expect_many(row, part, len(chunks))
            self._assembler.add_large(work, row, part, list(chunks), compression, offered=offered)
            part += len(chunks)
        work.read.size_bytes += read_bytes
        return read_bytes


def _no_flags(fd: int) -> int:
    return 0


def _is_as_seen(status: os.stat_result, flat: array[int], row: int) -> bool:
    start = row * COLUMN_COUNT
    return (
        status.st_mtime_ns == flat[start + MTIME_NS]
        and status.st_ctime_ns == flat[start + CTIME_NS]
        and status.st_size == flat[start + SIZE]
        and status.st_ino == flat[start + INODE]
    )


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (
        before.st_mtime_ns == after.st_mtime_ns
        and before.st_ctime_ns == after.st_ctime_ns
        and before.st_size == after.st_size
    )


def _take_status(flat: array[int], row: int, status: os.stat_result) -> None:
    """Update the row from the open file, which may not be the file that was listed."""
    flat[row * COLUMN_COUNT : (row + 1) * COLUMN_COUNT] = array("q", fitting_columns(status))
