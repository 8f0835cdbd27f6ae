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
from collections.abc import Iterator
from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.errors import SourceError
from strongroom.engine.backup.options import Tuning
from strongroom.engine.backup.shards.content_reader import ContentReader
from strongroom.engine.backup.shards.coordinator_link import CoordinatorLink
from strongroom.engine.backup.shards.directory_scan import DirectoryScan, ScanRules
from strongroom.engine.backup.shards.directory_work import DirectoryWork, WorkTask
from strongroom.engine.backup.shards.messages import (
    Finish,
    Finished,
    ReadContent,
    ReadStreams,
    ScanDirectory,
    Scanned,
    ShardTask,
)
from strongroom.engine.backup.shards.scan_folders import Places, ScanPlan
from strongroom.engine.backup.shards.scan_pace import ShardPace
from strongroom.engine.backup.shards.scan_threads import ALL_HERE, ScanPool, run_here
from strongroom.engine.repository.keys.owners import OwnerKeys
from strongroom.engine.writing.block_assembly import BlockAssembler
from strongroom.engine.writing.pack_lanes import BlockLane
from strongroom.sources.source import Stream

# What was posted is sent when so many tasks are left, so that more can come meanwhile: half of the
# directories that are queued, or a quarter of new ones while plenty wait (`ordering`).
_REFILL_TASKS: Final = frozenset({4, 16})


class ShardSettings(msgspec.Struct, frozen=True):
    """What all shards of a backup have alike. keys: of the client that is written for."""

    tuning: Tuning
    rules: ScanRules
    keys: OwnerKeys
    scan_plan: ScanPlan


class Shard:
    """The loop of one shard process."""

    def __init__(
        self,
        link: CoordinatorLink,
        settings: ShardSettings,
        lane: BlockLane,
        streams: Iterator[Stream],
        pace: ShardPace,
        tally: memoryview,
    ) -> None:
        """tally: this shard's part of a ShardTally."""
        tuning, rules = settings.tuning, settings.rules
        self._link = link
        self._tuning = tuning
        self._streams = streams
        self._lane = lane
        self._assembler = BlockAssembler(settings.keys, lane, link)
        self._reader = ContentReader(
            self._assembler,
            tuning,
            settings.keys,
            rules.treatments,
            lane.compressions,
            tally,
            rules.unsized,
            allows_empty=rules.allows_empty,
        )
        self._scan = DirectoryScan(rules, tuning, self._reader, link)
        self._places = Places(settings.scan_plan, pace)
        self._pool = ScanPool(pace)

    def run(self) -> None:
        """Serve until asked to finish. Raises StoreError, ChannelClosedError."""
        tasks = self._link.tasks
        while True:
            if tasks and self._may_begin(tasks[0]):
                if self._begin(tasks.popleft()):
                    return
            elif self._pool.running:
                self._wait()
            else:
                self._link.receive()

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
        if len(self._link.tasks) in _REFILL_TASKS or _is_long(task):
            self._link.flush()
        self._assembler.settle(self._link.answered_claims)
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
        self._link.send(Finished())
        return True

    def _wait(self) -> None:
        """Wait until the pool has results or a message has arrived, and process it."""
        self._link.flush()
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(self._pool.descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll()}
        if self._link.fileno() in ready:
            self._link.receive()
        self._pool.proceed()

    def _read_streams(self, number: int) -> None:
        """Each stream is a regular file in the root, owned by the user who runs the backup."""
        now_ns = clock.now_ns()
        task = WorkTask(number, b"", self._tuning.signature)
        work = DirectoryWork(task, [], None, array("q"), [], self._link)
        for row, stream in enumerate(self._streams):
            with contextlib.closing(stream):
                mode = stat.S_IFREG | stream.mode
                owner, group = os.geteuid(), os.getegid()
                work.add_row(stream.name, [mode, owner, group, 0, now_ns, now_ns, row + 1, 0, 1, 0])
                self._reader.read_stream(work, row, stream)
        if work.names != sorted(set(work.names)):
            raise SourceError("the streams of a source must come sorted by name, each name once")
        self._link.send(Scanned(number, []))
        work.seal()


def _is_long(task: ShardTask) -> bool:
    """Whether it is a slice, of which only two are queued."""
    return isinstance(task, ScanDirectory) and task.part is not None
