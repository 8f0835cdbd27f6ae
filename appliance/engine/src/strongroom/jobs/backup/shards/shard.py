"""A shard process: scans directories, reads what changed and stores its blocks.

The coordinator sends tasks; a shard answers with messages, see `messages`, and `coordinator` for
the other side.

A shard is one thread (and the threads of its lane and of its scan pool) and owns its working
directory. It never deletes, and writes nothing but the packs of its repository.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
from array import array
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

from strongroom import clock
from strongroom.errors import SourceError
from strongroom.jobs.backup.shards.content_reader import ContentReader
from strongroom.jobs.backup.shards.directory_scan import DirectoryScan
from strongroom.jobs.backup.shards.directory_work import DirectoryWork
from strongroom.jobs.backup.shards.messages import (
    Claim,
    Claimed,
    EncodePage,
    Finish,
    Finished,
    PageIsEncoded,
    ParentRows,
    ParentWanted,
    ReadContent,
    ReadStreams,
    ScanDirectory,
    Scanned,
)
from strongroom.jobs.backup.shards.scan_places import Places
from strongroom.jobs.backup.shards.scan_threads import ALL_HERE, ScanPool, run_here
from strongroom.jobs.writing.block_assembly import BlockAssembler
from strongroom.jobs.writing.page_encoding import PageEncoder
from strongroom.jobs.writing.stages import WAIT
from strongroom.rows.rows import decode_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

    from strongroom.jobs.backup.options import Tuning
    from strongroom.jobs.backup.shards.directory_scan import ScanRules
    from strongroom.jobs.backup.shards.messages import ShardTask, ToShard
    from strongroom.jobs.backup.shards.scan_places import ScanPlan
    from strongroom.jobs.backup.shards.shared_pace import ShardPace
    from strongroom.jobs.workers.channel import WorkerChannel
    from strongroom.jobs.writing.deduplication import ChunkGroup, GroupAnswer
    from strongroom.jobs.writing.pack_lanes import BlockLane
    from strongroom.jobs.writing.stages import StageTimes
    from strongroom.repo.keys.owners import OwnerKeys
    from strongroom.sources.source import Stream

_Answer = TypeVar("_Answer")

# What was posted is sent when so many tasks are left, so that more can come meanwhile: half of the
# directories that are queued, or a quarter of new ones while plenty wait (`queued_work`).
_REFILL_TASKS: Final = frozenset({4, 16})


class Shard:
    """The loop of one shard process."""

    def __init__(
        self,
        channel: WorkerChannel[ToShard],
        tuning: Tuning,
        rules: ScanRules,
        keys: OwnerKeys,
        lane: BlockLane,
        streams: Iterator[Stream],
        scan_plan: ScanPlan,
        pace: ShardPace,
        tally: memoryview,
        times: StageTimes,
    ) -> None:
        self._channel = channel
        self._tuning = tuning
        self._streams = streams
        self._lane = lane
        self._tasks: deque[ShardTask] = deque()
        self._claim_answers: deque[list[GroupAnswer]] = deque()
        self._rows_answers: deque[bytes] = deque()
        self._pages = PageEncoder(keys.own)
        self._assembler = BlockAssembler(keys, lane, self._claim, self._claim_answer)
        self._reader = ContentReader(
            self._assembler,
            tuning,
            keys,
            rules.treatments,
            lane.compressions,
            tally,
            rules.unsized,
            allows_empty=rules.allows_empty,
        )
        self._scan = DirectoryScan(
            rules, tuning, self._reader, self._post, self._parent_rows, self._deliver
        )
        self._places = Places(scan_plan, pace)
        self._pool = ScanPool(pace)
        self._times = times

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

    def _may_begin(self, task: ShardTask) -> bool:
        """Whether to start a task now; all but scans and reads wait for earlier tasks."""
        if not isinstance(task, ScanDirectory | ReadContent):
            return not self._pool.running
        place = self._places.of(task.path)
        if place.is_due and not self._pool.running:
            place.try_without()
        return not place.is_slow or (self._pool.has_room and not place.is_due)

    def _begin(self, task: ShardTask) -> bool:
        """Do or start one task; returns whether it was the last."""
        if len(self._tasks) in _REFILL_TASKS or _is_long(task):
            self._channel.flush()
        self._assembler.settle(len(self._claim_answers))
        if isinstance(task, ScanDirectory | ReadContent):
            place = self._places.of(task.path)
            if isinstance(task, ScanDirectory):
                steps = self._scan.scan(task, place)
            else:
                steps = self._scan.read_content(task, place)
            if place.is_slow:
                self._pool.begin(steps)
            # Beside threads of ours a call waits for them, too.
            elif rest := run_here(steps, ALL_HERE if self._pool.running else place):
                self._pool.begin(steps, *rest)
        elif isinstance(task, ReadStreams):
            self._read_streams(task.task)
        else:
            self._assembler.flush()
        if not isinstance(task, Finish):
            return False
        self._lane.finish()
        self._channel.send(Finished())
        return True

    def _wait(self) -> None:
        """Wait until the pool has results or a message has arrived, and process it."""
        self._channel.flush()
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._pool.descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll()}
        if self._channel.fileno() in ready:
            self._receive()
        self._pool.go_on()

    def _claim(self, groups: list[ChunkGroup]) -> None:
        self._channel.send(Claim(groups))

    def _claim_answer(self) -> list[GroupAnswer]:
        return self._answer(self._claim_answers)

    def _parent_rows(self, task: int) -> bytes:
        self._channel.send(ParentWanted(task))
        return self._answer(self._rows_answers)

    def _answer(self, answers: deque[_Answer]) -> _Answer:
        """The next answer of a kind; other messages are queued meanwhile."""
        while not answers:
            self._receive()
        return answers.popleft()

    def _receive(self) -> None:
        """Wait for messages and take all that have come."""
        with self._times.during(WAIT):
            messages = self._channel.receive_all()
        for message in messages:
            if isinstance(message, Claimed):
                self._claim_answers.append(message.answers)
            elif isinstance(message, ParentRows):
                self._rows_answers.append(message.rows)
            elif isinstance(message, EncodePage):
                self._encode_page(message)
            else:
                self._tasks.append(message)

    def _encode_page(self, task: EncodePage) -> None:
        page = self._pages.encode(decode_groups(task.groups), _is_known, keeps_raw=task.keeps_raw)
        self._channel.post(PageIsEncoded(task.number, page))

    def _read_streams(self, task: int) -> None:
        """Each stream is a regular file in the root, owned by the user who runs the backup."""
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
        self._channel.send(Scanned(task, []))
        work.seal()

    def _deliver(self, work: DirectoryWork) -> None:
        self._channel.post(work.message())

    def _post(self, message: msgspec.Struct) -> None:
        """Tell the coordinator; at once where it may be waited for."""
        self._channel.post(message)
        if not self._tasks:
            self._channel.flush()


def _is_long(task: ShardTask) -> bool:
    """Whether it is a slice, of which only two are queued."""
    return isinstance(task, ScanDirectory) and task.part is not None


def _is_known(_block: bytes) -> bool:
    """The coordinator knows what is stored."""
    return False
