"""A shard process: scans directories, reads what changed and stores its blocks.

The coordinator sends tasks; a shard answers with messages (see `coordinator` for the other
side). Messages of the coordinator:

    ["scan", task, path, names | None, selects, digest | None, has_parent]
                                          a directory, or some of its names; whether the
                                          exclusions hold there
    ["read", task, path, names, stats, byte range | None]   content that a scan left to others
    ["streams", task]                     the source's streams, files of the root
    ["claimed", [group answer, ...]]      answer to the oldest claim
    ["rows", encoded rows]                answer to "parent"
    ["flush"]                             settle what is gathered, nothing more may come for a while
    ["finish"]                            settle, finish the packs, say "finished", end
Messages of a shard:

    ["children", task, [name, ...]]       directories found, before any content is read; of "read":
                                          all was read, though not yet settled
    ["slice", task, number, names]        some names, joined, of a directory too large for one task
    ["wide", task]                        the last slice of it was sent
    ["same", task, [name, ...]]           equal to the parent's rows by digest; and its directories
    ["parent", task]                      the parent's rows of the task are needed
    ["claim", [[ids, lengths], ...]]      which of these chunks are new?
    ["done", task, encoded rows, counts, problems, deferred]    rows and their content references;
                                          the content of the rows in `deferred` is still to be read
    ["lost", task, problems]              the directory could not be read at all
    ["footer", bytes]                     a pack is in the store
    ["failed", error id, exit code, text] the store or the engine failed; the job is over
    ["finished"]

A shard is one thread (and the threads of its lane and of its scan pool) and owns its working
directory. It never deletes and never writes outside the packs of its repository.
"""

from __future__ import annotations

import contextlib
import os
import stat
from array import array
from collections import deque
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from strongroom import clock
from strongroom.errors import SourceError
from strongroom.jobs.block_assembly import BlockAssembler
from strongroom.jobs.content_reader import ContentReader
from strongroom.jobs.directory_work import DirectoryWork, problem
from strongroom.jobs.ordering import ROOT_NAME
from strongroom.scan.attributes import read_flags_of, read_xattrs, supports_xattrs
from strongroom.scan.directory import (
    open_beneath,
    read_names,
    read_wide_names,
    stat_rows,
    without_failures,
)
from strongroom.scan.rows import (
    COLUMN_COUNT,
    DEVICE,
    MODE,
    SIZE,
    comparison_digest,
    decode_rows,
)
from strongroom.scan.unchanged import merge_unchanged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strongroom.jobs.backup_options import Tuning
    from strongroom.jobs.channel import ShardChannel
    from strongroom.jobs.pack_lanes import BlockLane
    from strongroom.scan.selection import Selection
    from strongroom.scan.sources import Stream

WIDE_DIRECTORY_ROWS: Final = 16384
# A wide directory is cut before the first name whose checksum says so, between these bounds.
SLICE_LEAST_ROWS: Final = 4096
SLICE_MOST_ROWS: Final = 16384
_SLICE_MASK: Final = 4095
# What a shard reads itself of a directory that it scans; other shards help with the rest.
SHARE_BYTES: Final = 16 << 20
_ROOT_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Shard:
    """The loop of one shard process."""

    def __init__(
        self,
        channel: ShardChannel,
        tuning: Tuning,
        selection: Selection | None,
        devices: frozenset[int] | None,
        recent_limit_ns: int,
        chunk_key: bytes,
        chunker_seed: bytes,
        lane: BlockLane,
        streams: Iterator[Stream],
    ) -> None:
        self._channel = channel
        self._tuning = tuning
        self._streams = streams
        self._selection = selection
        self._devices = devices
        self._recent_limit_ns = recent_limit_ns
        self._lane = lane
        self._tasks: deque[list[Any]] = deque()
        self._claim_answers: deque[Any] = deque()
        self._rows_answers: deque[Any] = deque()
        self._assembler = BlockAssembler(chunk_key, lane, channel.send, self._claim_answer)
        self._reader = ContentReader(self._assembler, self._tuning, chunker_seed)
        self._root_fd = os.open(b"/", _ROOT_FLAGS)
        self._xattrs_of_device: dict[int, bool] = {}

    def run(self) -> None:
        """Serve until told to finish. Raises StoreError, ChannelClosedError."""
        while True:
            if not self._tasks:
                self._receive()
                continue
            message = self._tasks.popleft()
            if message[0] == "scan":
                self._scan(*message[1:])
            elif message[0] == "read":
                self._read_content(*message[1:])
            elif message[0] == "streams":
                self._read_streams(message[1])
            elif message[0] == "flush":
                self._assembler.flush()
            else:
                self._assembler.flush()
                self._lane.finish()
                self._channel.send(["finished"])
                return

    def _claim_answer(self) -> Any:
        return self._answer(self._claim_answers)

    def _parent_rows(self, task: int) -> Any:
        self._channel.send(["parent", task])
        return self._answer(self._rows_answers)

    def _answer(self, answers: deque[Any]) -> Any:
        """The next answer of a kind; what else arrives meanwhile waits for its turn."""
        while not answers:
            self._receive()
        return answers.popleft()

    def _receive(self) -> None:
        message = self._channel.receive()
        if message[0] == "claimed":
            self._claim_answers.append(message[1])
        elif message[0] == "rows":
            self._rows_answers.append(message[1])
        else:
            self._tasks.append(message)

    def _scan(
        self,
        task: int,
        path: bytes,
        only: bytes | None,
        selects: bool,
        parent_digest: bytes | None,
        has_parent: bool,
    ) -> None:
        problems: list[list[Any]] = []
        try:
            fd = open_beneath(self._root_fd, path)
        except OSError as error:
            self._channel.send(["lost", task, [problem(path, b"", error)]])
            return
        try:
            self._scan_open(task, path, fd, only, selects, parent_digest, has_parent, problems)
        finally:
            os.close(fd)

    def _scan_open(
        self,
        task: int,
        path: bytes,
        fd: int,
        only: bytes | None,
        selects: bool,
        parent_digest: bytes | None,
        has_parent: bool,
        problems: list[list[Any]],
    ) -> None:
        if only is None:
            try:
                found = read_names(fd, WIDE_DIRECTORY_ROWS)
                if found is None:
                    self._cut_wide(task, path)
                    return
            except OSError as error:
                self._channel.send(["lost", task, [problem(path, b"", error)]])
                return
            names = found if path else [ROOT_NAME, *found]
        else:
            os.fchdir(fd)
            names = only.split(b"\0")
        flat, failures = stat_rows(names)
        if failures:
            names = without_failures(names, failures)
            problems += [problem(path, failure.name, failure.error) for failure in failures]
        modes = flat[MODE::COLUMN_COUNT].tolist()
        names, flat, modes = self._select(path, names, flat, modes, selects)
        joined = b"\0".join(names)
        if names and names[0] == ROOT_NAME:
            joined = joined[len(ROOT_NAME) :]  # the root's own row is named b""
        children = self._children(names, flat, modes)
        if parent_digest is not None and comparison_digest(joined, flat) == parent_digest:
            self._channel.send(["same", task, children])
            return
        self._channel.send(["children", task, children])
        work = DirectoryWork(
            task, path, names, joined, flat, problems, self._tuning.signature, self._deliver
        )
        if has_parent:
            encoded = self._parent_rows(task)
            if encoded is not None:
                parent = decode_rows(encoded)
                work.match(parent, merge_unchanged(joined, flat, parent, self._recent_limit_ns))
        self._read_attributes(fd, work, modes)
        self._reader.read(work, SHARE_BYTES, None)
        work.seal()

    def _cut_wide(self, task: int, path: bytes) -> None:
        """Slices of a wide directory, cut where names say so: equal slices in every backup."""
        pending: list[bytes] = [] if path else [ROOT_NAME]
        number = 0
        for names in read_wide_names():
            pending += names
            start = 0
            while len(pending) - start > SLICE_MOST_ROWS:
                end = start + SLICE_MOST_ROWS
                for row in range(start + SLICE_LEAST_ROWS, end):
                    if crc32(pending[row]) & _SLICE_MASK == 0:
                        end = row
                        break
                number += 1
                self._channel.send(["slice", task, number, b"\0".join(pending[start:end])])
                start = end
            del pending[:start]
        self._channel.send(["slice", task, number + 1, b"\0".join(pending)])
        self._channel.send(["wide", task])

    def _read_content(
        self,
        task: int,
        path: bytes,
        joined: bytes,
        stats: bytes,
        byte_range: tuple[int, int] | None,
    ) -> None:
        names = joined.split(b"\0")
        work = DirectoryWork(
            task, path, names, joined, array("q", stats), [], self._tuning.signature, self._deliver
        )
        try:
            fd = open_beneath(self._root_fd, path)
        except OSError as error:
            for row in range(len(names)):
                work.unreadable(row, error)
        else:
            try:
                os.fchdir(fd)
                self._reader.read(work, None, byte_range)
            finally:
                os.close(fd)
        self._channel.send(["children", task, []])
        work.seal()

    def _read_streams(self, task: int) -> None:
        """Each stream is a regular file in the root, owned by whoever runs the backup."""
        names: list[bytes] = []
        now_ns = clock.now_ns()
        flat = array("q")
        work = DirectoryWork(task, b"", names, b"", flat, [], self._tuning.signature, self._deliver)
        for row, stream in enumerate(self._streams):
            with contextlib.closing(stream):
                names.append(stream.name)
                mode = stat.S_IFREG | stream.mode
                flat.extend([mode, os.geteuid(), os.getegid(), 0, now_ns, now_ns, row + 1, 0, 1, 0])
                work.add_row()
                self._reader.read_stream(work, row, stream)
        if names != sorted(set(names)):
            raise SourceError("the streams of a source must come sorted by name, each name once")
        work.rename(b"\0".join(names))
        self._channel.send(["children", task, []])
        work.seal()

    def _select(
        self, path: bytes, names: list[bytes], flat: array[int], modes: list[int], selects: bool
    ) -> tuple[list[bytes], array[int], list[int]]:
        """Leave out sockets and what the options exclude."""
        selection = self._selection
        keep: Sequence[bool] | None = None
        if selection is not None and selects:
            keep = selection.filter(path, names, flat)
            if keep is not None and names and names[0] == ROOT_NAME:
                keep[0] = True
        if keep is None:
            if not any(stat.S_ISSOCK(mode) for mode in set(modes)):
                return names, flat, modes
            keep = [not stat.S_ISSOCK(mode) for mode in modes]
        else:
            keep = [
                kept and not stat.S_ISSOCK(mode) for kept, mode in zip(keep, modes, strict=True)
            ]
            if all(keep):
                return names, flat, modes
        rows = [row for row, kept in enumerate(keep) if kept]
        kept_flat = array("q")
        for row in rows:
            kept_flat.extend(flat[row * COLUMN_COUNT : (row + 1) * COLUMN_COUNT])
        return [names[row] for row in rows], kept_flat, [modes[row] for row in rows]

    def _children(self, names: list[bytes], flat: array[int], modes: list[int]) -> list[bytes]:
        devices = self._devices
        found = [row for row, mode in enumerate(modes) if mode & 0o170000 == 0o040000]
        if devices is not None:
            found = [row for row in found if flat[row * COLUMN_COUNT + DEVICE] in devices]
        return [names[row] for row in found if names[row] != ROOT_NAME]

    def _read_attributes(self, fd: int, work: DirectoryWork, modes: list[int]) -> None:
        """Link targets, extended attributes and flags of the rows that changed."""
        tuning = self._tuning
        rows = work.changed_rows
        names = work.names
        if rows and (tuning.acls or tuning.xattrs) and self._has_xattrs(fd):
            work.xattrs, failures = read_xattrs(names, rows, acls=tuning.acls, others=tuning.xattrs)
            for failure in failures:
                work.problem(failure.name, failure.error)
        for row in rows:
            mode = modes[row]
            if stat.S_ISLNK(mode):
                try:
                    work.targets[row] = os.readlink(names[row])
                except OSError as error:
                    work.unreadable(row, error)
            elif tuning.flags and (stat.S_ISDIR(mode) or not work.column(row, SIZE)):
                # Regular files with content are asked when they are open for reading anyway.
                try:
                    flags = read_flags_of(names[row], mode)
                except OSError:
                    # Who may not open an empty file or a directory cannot see its flags; that
                    # the directory cannot be listed is reported when it is its turn.
                    continue
                if flags:
                    work.flags[row] = flags

    def _has_xattrs(self, fd: int) -> bool:
        device = os.fstat(fd).st_dev
        known = self._xattrs_of_device.get(device)
        if known is None:
            known = self._xattrs_of_device[device] = supports_xattrs(fd)
        return known

    def _deliver(self, work: DirectoryWork) -> None:
        self._channel.send(work.message())
