"""Progress of the shards of a backup: counters in shared memory.

A shard sends messages when a directory is finished, which for a few large files is at the very
end. So each shard counts in two words of its own, which only it writes, from one thread; the
coordinator can read them at any time. No lock: a word is written atomically.
"""

from __future__ import annotations

import mmap
from typing import Final

FILES: Final = 0
BYTES: Final = 1
# A cache line for each shard, to avoid false sharing.
_WORDS: Final = 8
_WORD_BYTES: Final = 8


class ShardTally:
    """Create it before the shards are forked."""

    def __init__(self, shard_count: int) -> None:
        memory = mmap.mmap(-1, shard_count * _WORDS * _WORD_BYTES)
        self._words = memoryview(memory).cast("Q")

    def of_shard(self, number: int) -> memoryview:
        """The words that a shard adds to, at FILES and BYTES."""
        return self._words[number * _WORDS : (number + 1) * _WORDS]

    def read_files(self) -> int:
        """Files whose content was read, apart from those that several shards read parts of."""
        return sum(self._words[FILES::_WORDS])

    def read_bytes(self) -> int:
        """Bytes of content that were read."""
        return sum(self._words[BYTES::_WORDS])
