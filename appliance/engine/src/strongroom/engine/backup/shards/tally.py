"""Progress of the shards of a backup: counters in shared memory.

A shard sends messages when a directory is finished, which for a few large files is at the very
end. So each shard counts in its own words; the coordinator can read them at any time. Files and
bytes are written from one thread and need no lock: a word is written atomically. The words that say
what the shard spends its time on are those of writing.stages.
"""

from __future__ import annotations

import mmap
from typing import Final

from strongroom.base import clock
from strongroom.base.progress import Progress
from strongroom.engine.backup.tree_count import CountAhead
from strongroom.engine.writing.stages import (
    STAGE_WORDS,
    STAGES,
    longest_queue_of,
    queued_of,
    seconds_of,
)

# Shortest interval between updates of the progress.
_TELL_AGAIN_SECONDS: Final = 0.05
FILES: Final = 0
BYTES: Final = 1
_STAGES: Final = 2
# Two cache lines for each shard, to avoid false sharing.
_WORDS: Final = 16
_WORD_BYTES: Final = 8


class ShardTally:
    """Create it before the shards are forked."""

    def __init__(self, shard_count: int) -> None:
        memory = mmap.mmap(-1, shard_count * _WORDS * _WORD_BYTES)
        self._words = memoryview(memory).cast("Q")
        self._shard_count = shard_count

    def of_shard(self, number: int) -> memoryview:
        """The words that a shard adds to, at FILES and BYTES."""
        return self._words[number * _WORDS : (number + 1) * _WORDS]

    def stages_of_shard(self, number: int) -> memoryview:
        """The words of a shard's StageTimes."""
        begin = number * _WORDS + _STAGES
        return self._words[begin : begin + STAGE_WORDS]

    def stage_seconds(self) -> dict[str, float]:
        """How long the threads of all shards were in each stage, added up."""
        of_shards = [seconds_of(self.stages_of_shard(one)) for one in range(self._shard_count)]
        return dict(zip(STAGES, map(sum, zip(*of_shards, strict=True)), strict=True))

    def queued_blocks(self) -> int:
        """How many blocks wait for workers."""
        return sum(queued_of(self.stages_of_shard(one)) for one in range(self._shard_count))

    def longest_queue(self) -> int:
        """How many blocks could wait to be stored in a shard, 0 where shards store themselves."""
        return max(longest_queue_of(self.stages_of_shard(one)) for one in range(self._shard_count))

    def read_files(self) -> int:
        """Files whose content was read, apart from those that several shards read parts of."""
        return sum(self._words[FILES::_WORDS])

    def read_bytes(self) -> int:
        """Bytes of content that were read."""
        return sum(self._words[BYTES::_WORDS])


class ShownProgress:
    """The progress of a backup: rows that are final, and what shards have read since.

    For the coordinator's thread. count: gives the totals once it is done.
    """

    def __init__(self, progress: Progress, tally: ShardTally, count: CountAhead | None) -> None:
        self._progress = progress
        self._tally = tally
        self._count = count
        self._shown_files = self._shown_bytes = 0
        self._shown_at_seconds = 0.0
        # Files whose rows are final, and how many of them the tally has counted as well.
        self._settled_files = self._tallied_files = 0
        # Bytes of settled files that no one had to read.
        self._unread_bytes = 0

    def settled(self, found: tuple[int, int], tallied: tuple[int, int]) -> None:
        """Rows are final: their files and bytes, and those of them that the tally counted."""
        self._settled_files += found[0]
        self._unread_bytes += found[1] - tallied[1]
        self._tallied_files += tallied[0]

    def tell_again(self) -> None:
        """Update the progress, unless that was done a moment ago."""
        if clock.elapsed_seconds() - self._shown_at_seconds >= _TELL_AGAIN_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Update the progress."""
        if self._count is not None and (totals := self._count.totals()) is not None:
            self._progress.total(*totals, is_estimate=True)
            self._count = None
        files = self._settled_files + self._tally.read_files() - self._tallied_files
        size_bytes = self._unread_bytes + self._tally.read_bytes()
        if (files, size_bytes) != (self._shown_files, self._shown_bytes):
            self._progress.add(
                files=files - self._shown_files, bytes=size_bytes - self._shown_bytes
            )
            self._shown_files, self._shown_bytes = files, size_bytes
            self._shown_at_seconds = clock.elapsed_seconds()
            self._progress.stages(self._tally.stage_seconds(), self._tally.queued_blocks())
