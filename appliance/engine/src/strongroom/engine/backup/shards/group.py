"""The shard processes of one backup: started together, ended together."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Self

from strongroom.base.errors import UsageError
from strongroom.engine.backup.options import BackupOptions, Tuning, compressions_of
from strongroom.engine.backup.own_repository import OwnRepository
from strongroom.engine.backup.shards.coordinator_link import CoordinatorLink
from strongroom.engine.backup.shards.directory_scan import ScanRules
from strongroom.engine.backup.shards.messages import (
    EncodePage,
    FromShard,
    PackStored,
    PageIsEncoded,
    ToShard,
    decode_from_shard,
    decode_to_shard,
)
from strongroom.engine.backup.shards.scan_folders import ScanPlan
from strongroom.engine.backup.shards.scan_pace import Pace, ScanChoice, SharedPace
from strongroom.engine.backup.shards.scan_threads import own_working_directory
from strongroom.engine.backup.shards.shard import Shard, ShardSettings
from strongroom.engine.backup.shards.tally import ShardTally
from strongroom.engine.backup.tree_count import CountAhead
from strongroom.engine.filesets.exclusions import Selection, SelectionOptions, compile_selection
from strongroom.engine.filesets.recorded import encode_selection
from strongroom.engine.filesets.rules import FileSetSelection
from strongroom.engine.processes.channel import ChildChannel, CoordinatorChannel, channel_pair
from strongroom.engine.processes.fork import await_children, fork_child, stop_children
from strongroom.engine.repository.listing.page_builder import MIN_PAGE_ROWS
from strongroom.engine.repository.packs import PACK_SIZE_BYTES, PackFooter
from strongroom.engine.repository.repository import Repository
from strongroom.engine.rows.rows import Rows, encode_groups
from strongroom.engine.scan.mounts import mounts_of, unsized_devices
from strongroom.engine.writing.listing import EncodedPage
from strongroom.engine.writing.new_packs import NewPacks
from strongroom.engine.writing.pack_lanes import BlockLane, LaneSettings, OpenPack
from strongroom.engine.writing.stages import StageTimes
from strongroom.sources.source import Source

# Has shards encode pages of the listing, so that the coordinator, which is one process, need not.
#
# A page is rows by themselves and an answer by itself, so any shard may do it, at any time.

# A shard may be busy with something else for a while, and a page is megabytes.
_PAGES_A_SHARD: Final = 2
# Rows and references to content below which a page is encoded sooner than sent.
_LEAST_WORK: Final = MIN_PAGE_ROWS


class PageTasks:
    """For the coordinator's thread. `channels`: to the shards."""

    def __init__(self, channels: list[CoordinatorChannel[FromShard]]) -> None:
        self._channels = channels
        self._under_way = [0] * len(channels)
        self._done: dict[int, tuple[int, Callable[[EncodedPage], None]]] = {}
        self._number = 0

    def offer(
        self, page: list[Rows], done: Callable[[EncodedPage], None], *, keeps_raw: bool
    ) -> bool:
        """Whether a shard encodes `page`; `done` is called by `take` then.

        Not a small page, as that of a small backup is, and not where all have enough of them.
        """
        shard = min(range(len(self._channels)), key=self._under_way.__getitem__)
        if self._under_way[shard] >= _PAGES_A_SHARD:
            return False
        if sum(rows.row_count + len(rows.part_slots) for rows in page) < _LEAST_WORK:
            return False
        self._number += 1
        self._done[self._number] = shard, done
        self._under_way[shard] += 1
        task = EncodePage(self._number, encode_groups(page), keeps_raw)
        self._channels[shard].send(task)
        return True

    def take(self, message: PageIsEncoded) -> None:
        """A shard's answer. Raises what `done` raises."""
        shard, done = self._done.pop(message.number)
        self._under_way[shard] -= 1
        done(message.page)


class ShardsSpent(NamedTuple):
    """What the shards of a backup spent, as of BackupReport."""

    stage_seconds: dict[str, float]
    scan: ScanChoice
    queue_blocks: int


class _ShardPacks:
    """A PackTarget in a shard: the coordinator gets the footers, and writes the index."""

    def __init__(self, packs: NewPacks, channel: ChildChannel[ToShard]) -> None:
        self._packs = packs
        self._channel = channel

    def open_pack(self, kind: int) -> OpenPack:
        """Begin a pack."""
        return self._packs.open_pack(kind)

    def take(self, footer: PackFooter) -> None:
        """A pack was stored."""
        self._channel.send(PackStored(footer))


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
        *,
        counts_ahead: bool = False,
    ) -> None:
        """Compiles the exclusions. `counts_ahead`: also start a count of what there is.

        Raises UsageError, SourceError.
        """
        self._repository = repository
        self._options = options
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
        self.paths = paths
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
        self.pages = PageTasks([])

    def __enter__(self) -> Self:
        # Shards continue sharing what is loaded, and no collection checks it again.
        gc.freeze()
        if self._counts_ahead:
            # The first: it inherits no end of a channel.
            self.count = CountAhead(
                self.paths, self._rules.selection, self._rules.devices, self._own
            )
        ends = []
        for number in range(self._options.tuning.shard_count()):
            # Created one by one: a shard's end inherited by a later shard would hide its death.
            ours, theirs = channel_pair()
            ends.append(ours)
            self.channels.append(CoordinatorChannel(ours, decode_from_shard))
            be_shard = partial(self._be_shard, number, self._repository.copy_ahead())
            self._pids.append(fork_child(theirs, decode_to_shard, be_shard, ends))
        self.pages = PageTasks(self.channels)
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
            await_children(self._pids, ends)
        else:
            stop_children(self._pids, ends)

    def spent(self) -> ShardsSpent:
        """What all shards have spent; call it once they are finished."""
        return ShardsSpent(
            self.tally.stage_seconds(), self.pace.choice(), self.tally.longest_queue()
        )

    def _be_shard(
        self, number: int, copy: Repository | None, channel: ChildChannel[ToShard]
    ) -> None:
        tuning = self._options.tuning
        repository = copy or self._repository.reopen()
        share = tuning.of_shard(number)
        times = StageTimes(self.tally.stages_of_shard(number))
        times.begin()
        keys = self._repository.writer.client
        lane = BlockLane(
            LaneSettings(
                compressions_of(self._options),
                share.workers,
                share.queued_blocks,
                self._options.pack_size_bytes or PACK_SIZE_BYTES,
                adapts=share.adapts,
            ),
            _ShardPacks(NewPacks(repository, is_dry=self._options.dry_run), channel),
            times,
        )
        try:
            Shard(
                CoordinatorLink(channel, keys, times),
                ShardSettings(tuning, self._rules, keys, self._scan_plan),
                lane,
                self._streams,
                self.pace.of_shard(number),
                self.tally.of_shard(number),
            ).run()
        except BaseException:
            lane.abort()
            raise
        finally:
            # So that a storage daemon does not see a broken connection, and a folder keeps no pack
            # that a signal made the lane forget.
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
