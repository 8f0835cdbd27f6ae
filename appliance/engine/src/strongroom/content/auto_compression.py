"""Chooses the compression of a block by how well the block before it compressed.

Blocks come in the order of paths, and neighbours are similar. Text compresses so well that the
fastest setting is enough; for everything else a larger table pays (on /usr one percent of the size
for two of the time). After a block that hardly compressed only a sample of the next is tried,
which takes a tenth of the time of compressing all of it; so media files cost next to nothing.

Measured with zstd 1.5.7, on blocks as a backup makes them, after deduplication (one core):

    setting                      kernel sources    /usr               media
    level 1                      215 MiB, 2.5 s    1,855 MiB, 10.5 s  2,384 MiB, 0.5 s
    level 1, sampling            215 MiB, 2.5 s    1,857 MiB, 10.4 s  2,384 MiB, 0.1 s
    this                         215 MiB, 2.5 s    1,836 MiB, 10.9 s  2,384 MiB, 0.1 s
    hash log 15 everywhere       211 MiB, 2.6 s    1,830 MiB, 10.7 s
    level 2                      206 MiB, 2.6 s    1,773 MiB, 11.8 s
    level 3                      195 MiB, 3.1 s    1,715 MiB, 15.3 s

restic 0.14 stores 264 and 1,873 MiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Stored as it is unless compression saves at least this share of a block.
LEAST_SAVING = 0.03

# Ratios of the block before: below the first it was text, above the second it hardly shrank.
_TEXT_RATIO = 0.3
_STUBBORN_RATIO = 0.97
# A sample that shrinks to less than this is worth compressing the block for.
_SAMPLE_RATIO = 0.99
_SAMPLE_PIECES = 8
_SAMPLE_PIECE_BYTES = 4096
_LEAST_SAMPLED_BYTES = 64 << 10


class AutoCompressor:
    """zstd with an adaptive speed; for one thread."""

    def __init__(self) -> None:
        import zstandard

        parameters = zstandard.ZstdCompressionParameters.from_level(
            1, source_size=1 << 20, hash_log=15
        )
        self._fast = zstandard.ZstdCompressor(level=1)
        self._tight = zstandard.ZstdCompressor(compression_params=parameters)
        self._ratio_before = 0.5

    def compress(self, raw: Buffer) -> bytes | None:
        """A zstd frame, or None when the block is better stored as it is."""
        view = memoryview(raw).cast("B")
        if (
            self._ratio_before > _STUBBORN_RATIO
            and len(view) >= _LEAST_SAMPLED_BYTES
            and not self._sample_shrinks(view)
        ):
            return None
        compressor = self._fast if self._ratio_before < _TEXT_RATIO else self._tight
        compressed = compressor.compress(view)
        self._ratio_before = len(compressed) / max(1, len(view))
        return compressed if self._ratio_before <= 1 - LEAST_SAVING else None

    def _sample_shrinks(self, view: memoryview) -> bool:
        step = len(view) // _SAMPLE_PIECES
        sample = b"".join(
            [
                view[start : start + _SAMPLE_PIECE_BYTES]
                for start in range(0, step * _SAMPLE_PIECES, step)
            ]
        )
        return len(self._fast.compress(sample)) < len(sample) * _SAMPLE_RATIO
