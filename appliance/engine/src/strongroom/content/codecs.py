"""Compression: a codec and level by name, compressing and decompressing a block.

Incompressible data is stored uncompressed with any codec. Decompressing never allocates more than
the raw length that the caller (from authenticated data) expects, and never returns another length.
"""

from __future__ import annotations

import re
import threading
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from strongroom.content.auto_compression import AutoCompressor
from strongroom.errors import DamageError, UsageError
from strongroom.parts import mend

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    _CompressFunction = Callable[[Buffer], bytes | None]

NONE = 0
ZSTD = 1
LZ4 = 2
GZIP = 3
LZO = 4


@dataclass(frozen=True, slots=True)
class Compression:
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
            f"a block decompresses to {len(raw)} bytes where {raw_length} belong; run check"
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
                f"a block claims {claimed} raw bytes where {raw_length} belong; run check"
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
            f"lzo is not installed; use lz4, which is faster, or run {mend('lzo')}"
        ) from None
    return lzo


def _unknown(text: str) -> UsageError:
    return UsageError(
        f"unknown compression {text!r}; "
        "use none, auto, gzip1-9, lzo, lzfast, lz4, lz4hc or zstd1-19"
    )
