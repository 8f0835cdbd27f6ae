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
                                          the content of the rows in `deferred` is still to be read;
                                          counts: files read, of them known to the parent, bytes
                                          read, files that the tally has counted
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
import select
import stat
from array import array
from collections import deque
from typing import TYPE_CHECKING, Any

from strongroom import clock
from strongroom.errors import SourceError
from strongroom.jobs.backup.shards.content_reader import ContentReader
from strongroom.jobs.backup.shards.directory_scan import DirectoryScan
from strongroom.jobs.backup.shards.directory_work import DirectoryWork
from strongroom.jobs.backup.shards.scan_threads import ScanPool, Steps, run_here
from strongroom.jobs.writing.block_assembly import BlockAssembler
from strongroom.scan.mounts import lies_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.jobs.backup.options import Tuning
    from strongroom.jobs.backup.shards.directory_scan import ScanRules
    from strongroom.jobs.workers.channel import ShardChannel
    from strongroom.jobs.writing.pack_lanes import BlockLane
    from strongroom.sources.source import Stream


class Shard:
    """The loop of one shard process.

    `far`: places that are scanned with `scan_threads` threads; all others with this one.
    """

    def __init__(
        self,
        channel: ShardChannel,
        tuning: Tuning,
        rules: ScanRules,
        chunk_key: bytes,
        chunker_seed: bytes,
        lane: BlockLane,
        streams: Iterator[Stream],
        scan_threads: int,
        far: tuple[bytes, ...],
        tally: memoryview,
    ) -> None:
        self._channel = channel
        self._tuning = tuning
        self._streams = streams
        self._lane = lane
        self._tasks: deque[list[Any]] = deque()
        self._claim_answers: deque[Any] = deque()
        self._rows_answers: deque[Any] = deque()
        self._assembler = BlockAssembler(chunk_key, lane, channel.send, self._claim_answer)
        self._reader = ContentReader(
            self._assembler, tuning, chunker_seed, rules.treatments, lane.compressions, tally
        )
        self._scan = DirectoryScan(
            rules, tuning, self._reader, channel.send, self._parent_rows, self._deliver
        )
        self._far = far
        self._pool = ScanPool(scan_threads)

    def run(self) -> None:
        """Serve until told to finish. Raises StoreError, ChannelClosedError."""
        while True:
            if self._tasks and self._may_begin(self._tasks[0]):
                if self._begin(self._tasks.popleft()):
                    return
            elif self._pool.running:
                self._wait()
            else:
                self._receive()

    def _may_begin(self, message: list[Any]) -> bool:
        """What is no scan waits until all that came before it is done."""
        if message[0] in ("scan", "read") and lies_below(message[2], self._far):
            return self._pool.has_room
        return not self._pool.running or message[0] in ("scan", "read")

    def _begin(self, message: list[Any]) -> bool:
        """Handle one message; whether it was the last."""
        kind = message[0]
        if kind in ("scan", "read"):
            is_far = bool(self._far) and lies_below(message[2], self._far)
            threads = self._pool.thread_count if is_far else 1
            make_steps = self._scan.scan if kind == "scan" else self._scan.read_content
            steps: Steps = make_steps(*message[1:], threads=threads)
            if is_far:
                self._pool.begin(steps)
            else:
                run_here(steps)
        elif kind == "streams":
            self._read_streams(message[1])
        else:
            self._assembler.flush()
        if kind != "finish":
            return False
        self._lane.finish()
        self._channel.send(["finished"])
        return True

    def _wait(self) -> None:
        """Until the pool has done something or a message has come; and see to it."""
        if not self._channel.has_received:
            poll = select.poll()
            poll.register(self._channel, select.POLLIN)
            poll.register(self._pool.descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._channel.fileno() not in ready:
                self._pool.go_on()
                return
        self._receive()
        self._pool.go_on()

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

    def _deliver(self, work: DirectoryWork) -> None:
        self._channel.send(work.message())
