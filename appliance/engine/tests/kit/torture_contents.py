"""Contents: sizes around every limit of chunking, duplicates, zeros that are data, and holes."""

from __future__ import annotations

import ctypes
import os
import random

from kit.directory_descriptors import new_directory, write_file
from kit.torture_feature import Feature, FeatureRefusedError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
PAGE = 4 * KIB
SIZE_LIMITS_BYTES = (
    512, 4 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB, 8 * MIB, 16 * MIB,
)  # fmt: skip
FALLOC_FL_KEEP_SIZE = 1


def _sizes(directory: int) -> None:
    generator = random.Random("sizes")
    sizes = {0, 1, 2, 3, 59, 60, 61, 155, 156, 157, 1000}
    for limit in SIZE_LIMITS_BYTES:
        sizes |= {limit - 1, limit, limit + 1}
    for size_bytes in sorted(sizes):
        write_file(b"random-%d" % size_bytes, directory, generator.randbytes(size_bytes))
    for size_bytes in (4 * KIB, 512 * KIB, 512 * KIB + 1, 8 * MIB, 17 * MIB):
        write_file(b"zeros-that-are-data-%d" % size_bytes, directory, bytes(size_bytes))
        write_file(b"one-letter-%d" % size_bytes, directory, b"A" * size_bytes)
        write_file(b"ones-%d" % size_bytes, directory, b"\xff" * size_bytes)
    period = generator.randbytes(1_000)
    write_file(b"periodic", directory, period * 5_000)
    write_file(b"text", directory, b"".join(b"line %d\n" % line for line in range(300_000)))


def _duplicates(directory: int) -> None:
    content = random.Random("duplicates").randbytes(5 * MIB)
    write_file(b"original", directory, content)
    write_file(b"copy", directory, content)
    write_file(b"shifted-by-one", directory, b"\x00" + content)
    write_file(b"cut-by-one", directory, content[:-1])
    write_file(b"twice", directory, content * 2)
    write_file(b"middle-changed", directory, content[: 2 * MIB] + b"!" + content[2 * MIB + 1 :])
    write_file(b"halves-swapped", directory, content[2 * MIB :] + content[: 2 * MIB])
    for number in range(200):
        write_file(b"small-%d" % number, directory, content[: 1000 + number % 3])
    with new_directory(b"elsewhere", directory) as below:
        write_file(b"copy", below, content)


def _sparse_file(name: bytes, directory: int, size_bytes: int, data: dict[int, bytes]) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(name, flags, 0o644, dir_fd=directory)
    try:
        os.ftruncate(descriptor, size_bytes)
        for offset, content in data.items():
            os.pwrite(descriptor, content, offset)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sparse(directory: int) -> None:
    block = random.Random("sparse").randbytes(64 * KIB)
    files: dict[bytes, tuple[int, dict[int, bytes]]] = {
        b"hole-first": (MIB, {MIB - len(block): block}),
        b"hole-last": (MIB, {0: block}),
        b"hole-in-the-middle": (2 * MIB, {0: block, 2 * MIB - len(block): block}),
        b"holes-at-both-ends": (3 * MIB, {MIB: block}),
        b"only-a-hole": (10 * MIB, {}),
        b"only-a-hole-one-byte": (1, {}),
        b"only-a-hole-odd-size": (MIB + 12_345, {}),
        b"hole-of-one-page": (3 * PAGE, {0: block[:PAGE], 2 * PAGE: block[:PAGE]}),
        b"last-byte-only": (4 * MIB, {4 * MIB - 1: b"x"}),
        b"first-byte-only": (4 * MIB + 1, {0: b"x"}),
        b"zeros-between-holes": (4 * MIB, {MIB: bytes(256 * KIB)}),
        b"zeros-then-hole": (4 * MIB, {0: bytes(MIB)}),
        b"alternating-pages": (800 * PAGE, {n * 2 * PAGE: block[:PAGE] for n in range(400)}),
        b"many-far-apart": (256 * MIB, {n * 4 * MIB + 5_000: block for n in range(60)}),
        b"large-chunk-then-hole": (30 * MIB, {0: block * 200}),
        b"hole-then-large-chunk": (30 * MIB, {17 * MIB: block * 200}),
        b"same-data-other-holes": (31 * MIB, {18 * MIB: block * 200}),
    }
    for name, (size_bytes, data) in files.items():
        _sparse_file(name, directory, size_bytes, data)
    descriptor = os.open(b"hole-in-the-middle", os.O_RDONLY, dir_fd=directory)
    try:
        if os.lseek(descriptor, 0, os.SEEK_HOLE) == 2 * MIB:
            raise FeatureRefusedError("the file system keeps no holes, or does not tell them")
    finally:
        os.close(descriptor)


def _sparse_huge(directory: int) -> None:
    _sparse_file(b"five-gib-data-last", directory, 5 * GIB, {5 * GIB - 3: b"end"})
    _sparse_file(b"six-gib-only-a-hole", directory, 6 * GIB, {})
    islands = {0: b"begin", 2 * GIB - 1: b"over 2 GiB", 4 * GIB - 1: b"over 4 GiB"}
    _sparse_file(b"nine-gib-islands", directory, 9 * GIB + 1, islands)
    _sparse_file(b"two-tib-one-byte", directory, 2 << 40, {1 << 40: b"1"})


def _preallocated(directory: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    for name, mode in ((b"unwritten", 0), (b"past-the-end", FALLOC_FL_KEEP_SIZE)):
        _sparse_file(name, directory, 0, {0: b"begin"})
        descriptor = os.open(name, os.O_RDWR, dir_fd=directory)
        try:
            if libc.fallocate(descriptor, mode, 0, 4 * MIB):
                raise OSError(ctypes.get_errno(), "fallocate")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


FEATURES = (
    Feature("sizes", _sizes),
    Feature("duplicates", _duplicates),
    Feature("sparse", _sparse),
    Feature("sparse-huge", _sparse_huge),
    Feature("preallocated", _preallocated),
)
