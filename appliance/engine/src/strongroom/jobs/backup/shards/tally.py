"""Progress of the shards of a backup: counters in shared memory.

A shard sends messages when a directory is finished, which for a few large files is at the very
end. So each shard counts in words of its own; the coordinator can read them at any time. Files and
bytes are written from one thread and need no lock: a word is written atomically. The words that say
what the shard spends its time on are those of writing.stages.
"""

from __future__ import annotations

import mmap
from typing import Final

from strongroom.jobs.writing.stages import (
    STAGE_WORDS,
    STAGES,
    longest_queue_of,
    queued_of,
    seconds_of,
)

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
