"""Why Bareos measured what it did not explain, from figures of its causes alone.

Workers: how many files are too small for them, and what waiting at the end of each file costs. lz4
and lzo: their speed by the size of a block, with and without what wraps them. Signatures: what a
digest takes of a core, beside how far equal runs are apart. All of it from memory, in this process.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import UsageError
from strongroom.engine.content.codecs import Compressor, parse_compression
from strongroom.engine.content.digests import new_signature
from strongroom_bench.datasets import file_sizes
from strongroom_bench.suites.result import Row, Taken, Way, counted, in_turns

SAMPLE_BYTES: Final = 96 << 20
# What Bareos reads at once; a file of less than two of them meets no worker there.
BAREOS_BLOCK_BYTES: Final = 256 << 10
_OUR_BLOCK_BYTES: Final = 1 << 20
_SMALL: Final = (BAREOS_BLOCK_BYTES, 2 * BAREOS_BLOCK_BYTES)
_BLOCK_SIZES: Final = (64 << 10, 256 << 10, 1 << 20)
_WORKER_CODECS: Final = ("gzip1", "lz4")
# What each block has in Bareos: a header before it, and an empty one at its end.
_HEADER: Final = bytes(16)
_BEGINNINGS: Final = 2000
_DIGEST_BYTES: Final = 1 << 20
_DIGESTS: Final = 64
# Of its figures on kernel sources: what a file took longer than without compression.
_BAREOS_A_FILE: Final = {
    "lz4 block": "0.7 ms a file more than none", "lzo": "0.5 ms a file more than none",
}  # fmt: skip


def sample_files(folder: Path, size_bytes: int = SAMPLE_BYTES) -> list[bytes]:
    """Contents of files below a folder, each whole, of about this size; chosen by their names."""
    paths = sorted(
        (os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names),
        key=lambda path: hashlib.blake2b(os.fsencode(os.path.relpath(path, folder))).digest(),
    )
    found = []
    left = size_bytes
    for path in paths:
        size = os.lstat(path).st_size
        if not os.path.islink(path) and 0 < size <= left:
            with open(path, "rb") as file:
                found.append(file.read())
            left -= size
    return found


def small_share(folder: Path, limit_bytes: int) -> tuple[float, float]:
    """The shares of files, and of bytes, that are in files below a limit."""
    sizes = file_sizes(folder)
    small = [size for size in sizes if size < limit_bytes]
    return len(small) / max(1, len(sizes)), sum(small) / max(1, sum(sizes))


def worker_rows(
    kind: str, folder: Path, rounds: int, codecs: Sequence[str] = _WORKER_CODECS
) -> list[Row]:
    """Compressing with a wait at the end of each file, and in blocks of many files."""
    group = f"{kind}, workers alone"
    rows = []
    for limit in _SMALL:
        files, size = small_share(folder, limit)
        share = f"{files:.1%} of files, {size:.1%} of bytes"
        rows.append(Row(group, f"files below {limit >> 10} KiB", (), figure=share))
    files_of_sample = sample_files(folder)
    cores = len(os.sched_getaffinity(0))
    works: dict[str, tuple[str, int, Callable[..., None]]] = {}
    ways = []
    for codec in codecs:
        for name, work in _PIPELINES.items():
            reference = f"{codec}, 1 thread, {name}"
            for threads in dict.fromkeys((1, cores)):
                condition = f"{codec}, {counted(threads, 'thread')}, {name}"
                works[condition] = codec, threads, work
                ways.append(Way(condition, own_reference=reference))

    def run(way: Way) -> Iterator[tuple[str, Taken]]:
        codec, threads, work = works[way.name]
        compress = _for_each_thread(codec)
        with ThreadPoolExecutor(threads) as pool:
            begin = clock.elapsed_seconds()
            work(files_of_sample, compress, pool, threads)
            yield "workers alone", Taken(clock.elapsed_seconds() - begin)

    return rows + in_turns(kind, ways, rounds, run, sum(map(len, files_of_sample)))


def _by_file(
    files: Sequence[bytes],
    compress: Callable[[memoryview], object],
    pool: ThreadPoolExecutor,
    threads: int,
) -> None:
    for content in files:
        blocks = _blocks(content, BAREOS_BLOCK_BYTES)
        if len(content) < 2 * BAREOS_BLOCK_BYTES or threads == 1:
            for block in blocks:
                compress(block)
        else:
            for _ in pool.map(compress, blocks):
                pass


def _by_blocks(
    files: Sequence[bytes],
    compress: Callable[[memoryview], object],
    pool: ThreadPoolExecutor,
    threads: int,
) -> None:
    blocks = _blocks(b"".join(files), _OUR_BLOCK_BYTES)
    if threads == 1:
        for block in blocks:
            compress(block)
    else:
        for _ in pool.map(compress, blocks):
            pass


_PIPELINES: Final = {"a wait after each file": _by_file, "blocks of many files": _by_blocks}


def codec_rows(kind: str, folder: Path, rounds: int) -> list[Row]:
    """lz4 and lzo by the size of a block, and what it costs to begin one."""
    files = sample_files(folder)
    joined = b"".join(files)
    content_bytes = len(joined)
    codecs = _codecs()
    works: dict[str, tuple[str, list[memoryview]]] = {}
    for name in codecs:
        for size in _BLOCK_SIZES:
            works[f"{name}, {size >> 10:,} KiB"] = name, _blocks(joined, size)
    for name in _BAREOS_A_FILE:
        if name in codecs:
            works[f"{name}, each file alone"] = name, [memoryview(one) for one in files]

    def run(way: Way) -> Iterator[tuple[str, Taken]]:
        name, blocks = works[way.name]
        compress = codecs[name]
        begin = clock.elapsed_seconds()
        stored = sum(min(len(block), len(compress(block))) for block in blocks)
        yield "codecs alone", Taken(clock.elapsed_seconds() - begin, stored_bytes=stored)

    ways = [Way(name) for name in works]
    return [
        _with_beginning(row, works[row.condition], codecs)
        for row in in_turns(kind, ways, rounds, run, content_bytes)
    ]


def _with_beginning(
    row: Row,
    work: tuple[str, list[memoryview]],
    codecs: dict[str, Callable[[memoryview], bytes]],
) -> Row:
    import msgspec

    name, blocks = work
    if row.condition.endswith("each file alone"):
        figure = f"{row.median_seconds / max(1, len(blocks)) * 1e6:.0f} us a file"
        return msgspec.structs.replace(row, figure=figure, text=_BAREOS_A_FILE[name])
    figure = f"{_beginning_us(codecs[name]):.1f} us to begin a block"
    return msgspec.structs.replace(row, figure=figure)


def _beginning_us(compress: Callable[[memoryview], bytes]) -> float:
    """What a call takes that has next to nothing to compress: its context and its hash table."""
    nothing = memoryview(_HEADER)
    begin = clock.elapsed_seconds()
    for _ in range(_BEGINNINGS):
        compress(nothing)
    return (clock.elapsed_seconds() - begin) / _BEGINNINGS * 1e6


def digest_rows(
    kind: str, size_bytes: int, unsigned: Row | None, signatures: Sequence[str], rounds: int
) -> list[Row]:
    """What each digest of so many bytes takes of one core, beside the spread of unsigned runs."""
    cores = len(os.sched_getaffinity(0))
    spread = max(unsigned.seconds) - min(unsigned.seconds) if unsigned is not None else 0.0
    rows = []
    for name in signatures:
        if name == "none":
            continue
        seconds = tuple(size_bytes * _digest_seconds_a_byte(name) for _ in range(rounds))
        row = Row(f"{kind}, digests alone", name, seconds, content_bytes=size_bytes)
        shared = row.median_seconds / cores
        seen = "can be seen" if shared > spread else "cannot be seen"
        figure = f"{shared:.2f} s on {counted(cores, 'core')}, equal runs differ by {spread:.2f} s"
        rows.append(
            Row(row.group, name, seconds, content_bytes=size_bytes, figure=f"{figure}: {seen}")
        )
    return rows


def _digest_seconds_a_byte(name: str) -> float:
    data = bytes(_DIGEST_BYTES)
    signature = new_signature(name)
    begin = clock.elapsed_seconds()
    for _ in range(_DIGESTS):
        signature.update(data)
    signature.digest()
    return (clock.elapsed_seconds() - begin) / (_DIGESTS * _DIGEST_BYTES)


def _blocks(content: bytes, size_bytes: int) -> list[memoryview]:
    view = memoryview(content)
    return [view[at : at + size_bytes] for at in range(0, len(view), size_bytes)]


def _for_each_thread(codec: str) -> Callable[[memoryview], object]:
    """A function for any thread; each gets its own compressor."""
    of_thread = threading.local()

    def compress(block: memoryview) -> object:
        compressor = getattr(of_thread, "compressor", None)
        if compressor is None:
            compressor = of_thread.compressor = Compressor(parse_compression(codec))
        return compressor.compress(block)

    return compress


def _codecs() -> dict[str, Callable[[memoryview], bytes]]:
    """Those that are installed, by name."""
    import lz4.block
    import lz4.frame

    def block(raw: memoryview) -> bytes:
        return bytes(lz4.block.compress(raw, store_size=False))

    found: dict[str, Callable[[memoryview], bytes]] = {
        "lz4 block": lambda raw: lz4.block.compress(raw, store_size=False),
        "lz4 frame": lz4.frame.compress,
        # Bareos's room for the result is a few bytes too small, so all of it is copied once more.
        "lz4 as Bareos wraps it": lambda raw: b"".join((_HEADER, block(raw), _HEADER)),
    }
    try:
        parse_compression("lzo")
    except UsageError:
        return found
    import lzo

    found["lzo"] = lambda raw: lzo.compress(bytes(raw), 1, False)
    return found
