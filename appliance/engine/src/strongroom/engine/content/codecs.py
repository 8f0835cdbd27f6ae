"""Compression: a codec and level by name, compressing and decompressing a block.

Incompressible data is stored uncompressed with any codec. Decompressing never allocates more than
the raw length that the caller (from authenticated data) expects, and never returns another length.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from typing_extensions import Buffer

from strongroom.base.errors import DamageError, UsageError
from strongroom.base.parts import remedy

if TYPE_CHECKING:
    _CompressFunction = Callable[[Buffer], bytes | None]

# Chooses the compression of a block by how well the block before it compressed.
#
# Blocks come in the order of paths, and neighbours are similar. Text compresses so well that the
# fastest setting is enough; for everything else a larger table pays (on /usr one percent of the
# size for two of the time). After a block that hardly compressed only a sample of the next is
# tried, which takes a tenth of the time of compressing all of it; so media files cost next to
# nothing.
#
# Measured with zstd 1.5.7, on blocks as a backup makes them, after deduplication (one core):
#
#     setting                      kernel sources    /usr               media
#     level 1                      215 MiB, 2.5 s    1,855 MiB, 10.5 s  2,384 MiB, 0.5 s
#     level 1, sampling            215 MiB, 2.5 s    1,857 MiB, 10.4 s  2,384 MiB, 0.1 s
#     this                         215 MiB, 2.5 s    1,836 MiB, 10.9 s  2,384 MiB, 0.1 s
#     hash log 15 everywhere       211 MiB, 2.6 s    1,830 MiB, 10.7 s
#     level 2                      206 MiB, 2.6 s    1,773 MiB, 11.8 s
#     level 3                      195 MiB, 3.1 s    1,715 MiB, 15.3 s
#
# restic 0.14 stores 264 and 1,873 MiB.

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


NONE = 0
ZSTD = 1
LZ4 = 2
GZIP = 3
LZO = 4


class Compression(msgspec.Struct, frozen=True):
    """A codec by its name in options and directives, and its level (0 where it has none)."""

    name: str
    level: int = 0

    def __str__(self) -> str:
        return f"{self.name}{self.level}" if self.level else self.name


AUTO = Compression("auto")

_PATTERN = re.compile(r"(none|auto|lzo|lzfast|lz4|lz4hc|gzip|zstd)([0-9]*)")
_LEVELS = {"gzip": (1, 9, 6), "zstd": (1, 19, 3)}


def parse_compression(text: str) -> Compression:
    """A compression by name: none, auto, gzip[1-9], lzo, lzfast, lz4, lz4hc, zstd[1-19].

    Case does not matter. UsageError for anything else, and for lzo where it isn't installed.
    """
    match = _PATTERN.fullmatch(text.strip().lower())
    if match is None:
        raise _unknown(text)
    name, digits = match.groups()
    if name in _LEVELS:
        least, most, usual = _LEVELS[name]
        level = int(digits) if digits else usual
        if not least <= level <= most:
            raise UsageError(f"compression {text!r}: the level of {name} is {least} to {most}")
        return Compression(name, level)
    if digits:
        raise _unknown(text)
    if name == "lzo":
        _lzo()
    return Compression(name)


class Compressor:
    """Compresses blocks; for one thread, which gives it blocks in the order of their paths."""

    def __init__(self, compression: Compression) -> None:
        self._codec, self._compress = _compress_function(compression)

    def compress(self, raw: Buffer) -> tuple[int, Buffer]:
        """The codec used and the compressed bytes: `raw` itself with NONE if it did not shrink."""
        compressed = None if self._codec == NONE else self._compress(raw)
        if compressed is None or len(compressed) >= memoryview(raw).nbytes:
            return NONE, raw
        return self._codec, compressed


def decompress(codec: int, data: Buffer, raw_length: int) -> bytes:
    """The raw bytes, exactly `raw_length` of them; DamageError when that is not what `data` holds.

    Safe from any thread.
    """
    function = _DECOMPRESS.get(codec)
    if function is None:
        raise DamageError(f"a block has the unknown codec {codec}; run check")
    raw = function(data, raw_length)
    if len(raw) != raw_length:
        raise DamageError(
            f"a block decompresses to {len(raw)} bytes instead of {raw_length}; run check"
        )
    return raw


def _compress_function(compression: Compression) -> tuple[int, _CompressFunction]:
    name, level = compression.name, compression.level
    if name == "none":
        return NONE, bytes
    if name == "auto":
        return ZSTD, AutoCompressor().compress
    if name == "zstd":
        import zstandard

        zstd: Any = zstandard.ZstdCompressor(level=level)
        return ZSTD, zstd.compress
    if name == "gzip":
        return GZIP, lambda raw: zlib.compress(raw, level, wbits=-15)
    if name == "lzo":
        lzo = _lzo()
        return LZO, lambda raw: bytes(lzo.compress(bytes(raw), 1, False))
    import lz4.block

    modes: dict[str, dict[str, Any]] = {
        "lz4": {"mode": "default"},
        "lzfast": {"mode": "fast", "acceleration": 8},
        "lz4hc": {"mode": "high_compression", "compression": 9},
    }
    if name not in modes:
        raise _unknown(name)
    options = modes[name]
    return LZ4, lambda raw: bytes(lz4.block.compress(raw, store_size=False, **options))


def _decompress_none(data: Buffer, raw_length: int) -> bytes:
    return bytes(data)


_of_thread = threading.local()


def _decompress_zstd(data: Buffer, raw_length: int) -> bytes:
    import zstandard

    decompressor = getattr(_of_thread, "zstd", None)
    if decompressor is None:
        decompressor = _of_thread.zstd = zstandard.ZstdDecompressor()
    try:
        # The library allocates what the frame claims, so check that first.
        claimed = zstandard.get_frame_parameters(memoryview(data)).content_size
        if claimed != raw_length:
            raise DamageError(
                f"a block claims {claimed} raw bytes instead of {raw_length}; run check"
            )
        raw: bytes = decompressor.decompress(memoryview(data), allow_extra_data=False)
        return raw
    except zstandard.ZstdError as error:
        raise DamageError(f"a block does not decompress ({error}); run check") from error


def _decompress_lz4(data: Buffer, raw_length: int) -> bytes:
    import lz4.block

    try:
        return bytes(lz4.block.decompress(data, uncompressed_size=raw_length))
    except (lz4.block.LZ4BlockError, ValueError) as error:
        raise DamageError(f"a block does not decompress ({error}); run check") from error


def _decompress_gzip(data: Buffer, raw_length: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=-15)
    try:
        # One byte more than expected shows a stream that is too long.
        raw = decompressor.decompress(data, raw_length + 1)
    except zlib.error as error:
        raise DamageError(f"a block does not decompress ({error}); run check") from error
    if not decompressor.eof or decompressor.unused_data:
        raise DamageError("a block's gzip stream does not end where it should; run check")
    return raw


def _decompress_lzo(data: Buffer, raw_length: int) -> bytes:
    lzo = _lzo()
    try:
        return bytes(lzo.decompress(bytes(data), False, raw_length))
    except lzo.error as error:
        raise DamageError(f"a block does not decompress ({error}); run check") from error


_DECOMPRESS: dict[int, Callable[[Buffer, int], bytes]] = {
    NONE: _decompress_none,
    ZSTD: _decompress_zstd,
    LZ4: _decompress_lz4,
    GZIP: _decompress_gzip,
    LZO: _decompress_lzo,
}


def _lzo() -> Any:
    try:
        import lzo
    except ImportError:
        raise UsageError(
            f"lzo is not installed; use lz4, which is faster, or run {remedy('lzo')}"
        ) from None
    return lzo


def _unknown(text: str) -> UsageError:
    return UsageError(
        f"unknown compression {text!r}; "
        "use none, auto, gzip1-9, lzo, lzfast, lz4, lz4hc or zstd1-19"
    )
