"""Content-defined chunking of large files (FastCDC 2020, keyed).

The cut points are part of the repository format: another library, or another version of this one,
must cut at the same places, or deduplication fails. Golden cut points are in the tests.
"""

from __future__ import annotations

LEAST_SIZE = 256 << 10
AVERAGE_SIZE = 1 << 20
GREATEST_SIZE = 8 << 20


class Chunker:
    """Cuts by content; safe from any thread."""

    def __init__(self, seed: bytes) -> None:
        """`seed`: at least 8 secret bytes, of which 63 bits are used."""
        from pyfastcdc import FastCDC

        # The library shifts the seed left by one within 64 bits.
        number = int.from_bytes(seed[:8], "little") >> 1
        self._cutter = FastCDC(
            AVERAGE_SIZE,
            min_size=LEAST_SIZE,
            max_size=GREATEST_SIZE,
            normalized_chunking=1,
            seed=number,
        )

    def cut(self, buffer: memoryview, final: bool) -> list[int]:
        """Lengths of the chunks from the start of `buffer` on.

        Unless `final`, a last chunk that may still grow is left out: the caller passes it again
        with more data. A buffer of GREATEST_SIZE always yields at least one chunk.
        """
        lengths = [chunk.length for chunk in self._cutter.cut_buf(buffer)]
        if not final and lengths and lengths[-1] < GREATEST_SIZE:
            lengths.pop()
        return lengths
