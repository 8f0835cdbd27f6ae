"""The shard processes of one backup: started together, ended together."""

from __future__ import annotations

import gc
import os
from functools import partial
from typing import TYPE_CHECKING

from strongroom.errors import UsageError
from strongroom.filesets.exclusions import SelectionOptions, compile_selection
from strongroom.filesets.recorded import encode_selection
from strongroom.filesets.rules import FileSetSelection
from strongroom.jobs.backup.count_ahead import CountAhead
from strongroom.jobs.backup.options import compressions_of
from strongroom.jobs.backup.own_repository import OwnRepository
from strongroom.jobs.backup.shards.directory_scan import ScanRules
from strongroom.jobs.backup.shards.messages import (
    PackStored,
    decode_from_shard,
    decode_to_shard,
)
from strongroom.jobs.backup.shards.scan_pace import Pace
from strongroom.jobs.backup.shards.scan_places import ScanPlan
from strongroom.jobs.backup.shards.scan_threads import own_working_directory
from strongroom.jobs.backup.shards.shard import Shard
from strongroom.jobs.backup.shards.shared_pace import SharedPace
from strongroom.jobs.backup.shards.tally import ShardTally
from strongroom.jobs.workers.channel import CoordinatorChannel, channel_pair
from strongroom.jobs.workers.fork import await_workers, fork_worker, stop_workers
from strongroom.jobs.writing.pack_lanes import BlockLane, LaneSettings, OpenPack
from strongroom.jobs.writing.stages import StageTimes
from strongroom.repo.packs import KIND_DATA, PACK_SIZE_BYTES
from strongroom.scan.mounts import mounts_of, unsized_devices

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from strongroom.filesets.exclusions import Selection
    from strongroom.jobs.backup.options import BackupOptions, Tuning
    from strongroom.jobs.backup.shards.messages import FromShard, ToShard
    from strongroom.jobs.workers.channel import WorkerChannel
    from strongroom.repo.repository import Repository
    from strongroom.sources.source import Source


class ShardGroup:
    """A context manager: leaving it by an error stops the shards, else they must be finished.

    Entering forks, so the caller must not have started threads.
    """

    def __init__(
        self,
        repository: Repository,
        source: Source,
        paths: tuple[bytes, ...],
        options: BackupOptions,
        recent_limit_ns: int,
        new_pack: Callable[[Repository, int], OpenPack],
        *,
        counts_ahead: bool = False,
    ) -> None:
        """Compiles the exclusions. `counts_ahead`: also start a count of what there is.

        Raises UsageError, SourceError.
        """
        self._repository = repository
        self._options = options
        self._new_pack = new_pack
        devices = None
        wanted = options.selection
        selection: Selection | FileSetSelection | None
        if isinstance(wanted, SelectionOptions):
            if wanted.one_file_system:
                devices = frozenset(os.lstat(b"/" + path).st_dev for path in paths)
            selection = compile_selection(wanted)
        else:
            selection = FileSetSelection(wanted, tells_treatments=bool(options.treatments))
        self._own = OwnRepository.of(repository)
        self._rules = ScanRules(
            selection,
            devices,
            recent_limit_ns,
            options.treatments,
            options.tells_entries,
            options.allows_empty,
            unsized_devices(),
            self._own,
        )
        self.recorded_rules = encode_selection(selection, one_file_system=devices is not None)
        self._paths = paths
        self._counts_ahead = counts_ahead
        self.count: CountAhead | None = None
        self._streams = source.streams()
        self._scan_plan = _scan_plan(options.tuning, paths)
        shard_count = options.tuning.shard_count()
        self.tally = ShardTally(shard_count)
        asked = self._scan_plan.asked
        self.pace = SharedPace(shard_count, Pace(asked, asked) if asked else Pace())
        self._pids: list[int] = []
        self.channels: list[CoordinatorChannel[FromShard]] = []

    def __enter__(self) -> Self:
        # Shards go on sharing what is loaded, and no collection looks at it again.
        gc.freeze()
        if self._counts_ahead:
            # The first: it inherits no end of a channel.
            self.count = CountAhead(
                self._paths, self._rules.selection, self._rules.devices, self._own
            )
        ends = []
        for number in range(self._options.tuning.shard_count()):
            # Created one by one: a shard's end inherited by a later shard would hide its death.
            ours, theirs = channel_pair()
            ends.append(ours)
            self.channels.append(CoordinatorChannel(ours, decode_from_shard))
            be_shard = partial(self._be_shard, number, self._repository.copy_ahead())
            self._pids.append(fork_worker(theirs, decode_to_shard, be_shard, ends))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.count is not None:
            self.count.end()
        ends = [channel.socket for channel in self.channels]
        if error is None:
            await_workers(self._pids, ends)
        else:
            stop_workers(self._pids, ends)

    def _be_shard(
        self, number: int, copy: Repository | None, channel: WorkerChannel[ToShard]
    ) -> None:
        tuning = self._options.tuning
        repository = copy or self._repository.reopen()
        share = tuning.of_shard(number)
        times = StageTimes(self.tally.stages_of_shard(number))
        times.begin()
        lane = BlockLane(
            LaneSettings(
                compressions_of(self._options),
                share.workers,
                share.queued_blocks,
                self._options.pack_size_bytes or PACK_SIZE_BYTES,
                adapts=share.adapts,
            ),
            lambda: self._new_pack(repository, KIND_DATA),
            lambda footer: channel.send(PackStored(footer)),
            times,
        )
        try:
            Shard(
                channel,
                tuning,
                self._rules,
                self._repository.writer.client,
                lane,
                self._streams,
                self._scan_plan,
                self.pace.of_shard(number),
                self.tally.of_shard(number),
                times,
            ).run()
        except BaseException:
            lane.abort()
            raise
        # An orderly close, so that a storage daemon does not see a broken connection.
        repository.close()


def _scan_plan(tuning: Tuning, paths: tuple[bytes, ...]) -> ScanPlan:
    """How the shards scan. Raises UsageError."""
    asked = tuning.scan_threads
    if asked == 1 or own_working_directory():
        return ScanPlan(asked, {} if asked else mounts_of(paths))
    if asked:
        raise UsageError(
            "scan threads need a working directory each (unshare), which this sandbox forbids; "
            "allow that system call, or use more shards and 1 scan thread"
        )
    return ScanPlan(1, {})
