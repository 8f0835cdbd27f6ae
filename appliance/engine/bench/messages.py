"""What the messages between a backup's coordinator and its shards cost: lists against structs.

    python -m bench.messages

For each message: making, encoding and decoding it in microseconds of CPU, the median of RUNS
rounds, in which lists and structs take turns; and the sum over the messages of a directory.
Lists with string tags, decoded without types, are what the structs replaced.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from strongroom.jobs.backup.shards.messages import (
    Claim,
    Claimed,
    ReadContent,
    Same,
    ScanDirectory,
    Scanned,
    Settled,
    decode_from_shard,
    decode_to_shard,
)
from strongroom.jobs.workers.channel import encode_message
from strongroom.jobs.writing.deduplication import ChunkGroup, GroupAnswer
from strongroom.rows.rows import COLUMN_COUNT

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS: Final = 15
_LOOPS: Final = 2000
_ROWS: Final = 30
_CHUNKS: Final = 512
_PATH: Final = b"usr/share/doc/some-package/examples"
_NAMES: Final = b"\0".join(b"a-file-name-%02d.txt" % number for number in range(_ROWS))
_STATS: Final = os.urandom(_ROWS * COLUMN_COUNT * 8)
# Stat columns, names, and 24 bytes of block and 2 of slot for each row.
_ENCODED_ROWS: Final = _STATS + _NAMES + os.urandom(_ROWS * 26)
_IDS: Final = os.urandom(_CHUNKS * 24)
_LENGTHS: Final = os.urandom(_CHUNKS * 4)
_BLOCK: Final = os.urandom(24)
_NEW: Final = list(range(0, _CHUNKS, 2))
_KNOWN: Final = [(number, _BLOCK, number) for number in range(1, _CHUNKS, 2)]
_CHILDREN: Final = [b"one", b"two", b"three"]
_DIGEST: Final = os.urandom(32)

_decode_list = msgspec.msgpack.Decoder().decode

# What it is called, who makes the struct, the list, who decodes the struct.
Case = tuple[
    str, "Callable[[], msgspec.Struct]", "Callable[[], list[Any]]", "Callable[[memoryview], Any]"
]


def _cases() -> list[Case]:
    return [
        (
            "scan",
            lambda: ScanDirectory(7, _PATH, None, None, True, _DIGEST, True, True),
            lambda: ["scan", 7, _PATH, None, True, _DIGEST, True],
            decode_to_shard,
        ),
        (
            "scanned",
            lambda: Scanned(7, _CHILDREN),
            lambda: ["children", 7, _CHILDREN],
            decode_from_shard,
        ),
        (
            "same",
            lambda: Same(7, 30, 123456, _CHILDREN),
            lambda: ["same", 7, 30, 123456, _CHILDREN],
            decode_from_shard,
        ),
        (
            f"settled, {_ROWS} rows",
            lambda: Settled(7, _ENCODED_ROWS, 30, 123456, 30, 0, 123456, 30, [], [], []),
            lambda: ["done", 7, _ENCODED_ROWS, [30, 123456, 30, 0, 123456, 30], [], [], []],
            decode_from_shard,
        ),
        (
            f"read, {_ROWS} rows",
            lambda: ReadContent(7, _PATH, _NAMES, _STATS, None, True),
            lambda: ["read", 7, _PATH, _NAMES, _STATS, None],
            decode_to_shard,
        ),
        (
            f"claim, {_CHUNKS} ids",
            lambda: Claim([ChunkGroup(_IDS, _LENGTHS, _BLOCK)]),
            lambda: ["claim", [[_IDS, _LENGTHS, _BLOCK]]],
            decode_from_shard,
        ),
        (
            f"claimed, {_CHUNKS} ids, half of them known",
            lambda: Claimed([GroupAnswer(_BLOCK, _NEW, _KNOWN)]),
            lambda: ["claimed", [[_BLOCK, _NEW, _KNOWN]]],
            decode_to_shard,
        ),
    ]


def _seconds(make: Callable[[], Any], decode: Callable[[memoryview], Any]) -> float:
    """One message there and back, seconds."""
    started = time.process_time()
    for _ in range(_LOOPS):
        decode(memoryview(encode_message(make())))
    return (time.process_time() - started) / _LOOPS


def main() -> int:
    """Measure and print."""
    cases = _cases()
    times: dict[str, tuple[list[float], list[float]]] = {case[0]: ([], []) for case in cases}
    for _ in range(RUNS):
        for name, make_struct, make_list, decode in cases:
            times[name][0].append(_seconds(make_list, _decode_list))
            times[name][1].append(_seconds(make_struct, decode))
    medians = {
        name: [statistics.median(side) * 1e6 for side in pair] for name, pair in times.items()
    }
    settled = medians[f"settled, {_ROWS} rows"]
    new = zip(medians["scan"], medians["scanned"], settled, strict=True)
    old = zip(medians["scan"], medians["same"], strict=True)
    medians["all of a directory that changed"] = [sum(parts) for parts in new]
    medians["all of one that did not"] = [sum(parts) for parts in old]
    sys.stdout.write(f"{'message':<45}{'lists, us':>10}{'structs, us':>13}\n")
    for name, (lists, structs) in medians.items():
        sys.stdout.write(f"{name:<45}{lists:>10.2f}{structs:>13.2f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
