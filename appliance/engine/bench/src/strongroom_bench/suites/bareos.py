"""`bareos-compression`: Bareos on its workers.

The text: the measurements of Bareos' pull request 1597, which brought Maximum Workers Per Job: its
file daemon against multimedia, a root file system and kernel sources.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from strongroom.base.errors import UsageError
from strongroom.engine.content.codecs import parse_compression
from strongroom_bench.suites.causes import codec_rows, worker_rows
from strongroom_bench.suites.data import BAREOS_MACHINE, MAKERS
from strongroom_bench.suites.repositories import BACKUP, RESTORE, measure_ways
from strongroom_bench.suites.result import Row, Way, counted

INLINE: Final = "none, 0 workers"
WORKERS: Final = (0, 1, 2, 4, 8)
CODECS: Final = ("none", "gzip1", "lzo", "lzfast", "lz4", "zstd1", "auto")
# With more workers than none all but this one are measured: it is lz4 with a larger step.
_INLINE_ONLY: Final = ("lzfast",)
BAREOS: Final = (
    f"Bareos, pull request 1597 (Maximum Workers Per Job), and {BAREOS_MACHINE}. Its program reads "
    "blocks of 256 KiB, has a queue of futures for each file, and sends by one stream"
)
SEED: Final = (
    f"{BAREOS}. Its pipeline begins anew with each file, so files below 512 KiB never meet a "
    "worker; ours makes blocks of many files. Its lz4 is a bundled library of 2015 in a wrapper, "
    "its lzo the distribution's; how it was built is not stated. Here shards use all cores without "
    'workers. Groups whose names end in "alone" measure causes, in memory: the share of small '
    "files and what a wait at the end of each file costs, then lz4 and lzo by size of block "
    "and file by file."
)
_TEXTS: Final = {
    "multimedia": {
        (BACKUP, INLINE): "650 MB/s",
        (BACKUP, "lzo, 0 workers"): "fastest codec, nothing smaller",
        (BACKUP, "lz4, 1 worker"): "150 MB/s, 1% smaller",
        (BACKUP, "lz4, 4 workers"): "500 MB/s with 5 workers",
        (BACKUP, "gzip1, 8 workers"): "up to 5 times as fast with workers",
        (RESTORE, "gzip1, 0 workers"): "about half of the others' speed",
    },
    "root": {
        (BACKUP, INLINE): "260 MB/s",
        (BACKUP, "lzo, 0 workers"): "127 MB/s, 46.7% smaller",
        (BACKUP, "lzo, 8 workers"): "150 MB/s",
        (BACKUP, "lz4, 0 workers"): "half of lzo's speed, hardly as small",
        (BACKUP, "gzip1, 0 workers"): "56.9% smaller",
        (RESTORE, "gzip1, 0 workers"): "around 20% slower",
    },
    "sources": {
        (BACKUP, INLINE): "100 MB/s",
        (BACKUP, "lzo, 0 workers"): "25 MB/s, 68.8% smaller",
        (BACKUP, "lz4, 0 workers"): "20 MB/s, 67.4% smaller",
        (BACKUP, "lz4, 8 workers"): "almost no gain by workers",
        (RESTORE, INLINE): "125 MB/s",
        (RESTORE, "lz4, 0 workers"): "110 to 120 MB/s",
    },
}


def measure_compression(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    codecs: tuple[str, ...] = CODECS,
    workers_of: tuple[int, ...] = WORKERS,
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    known = [codec for codec in codecs if _is_known(codec)]
    ways = [
        _way(codec, workers)
        for codec in known
        for workers in (workers_of[:1] if codec in _INLINE_ONLY else workers_of)
    ]
    rows: list[Row] = []
    words = []
    for kind, make in MAKERS.items():
        tell(f"making {kind}")
        data = make(folder / kind, scale)
        words.append(data.words)
        rows += measure_ways(folder, kind, data, ways, rounds, tell, _TEXTS[kind])
        tell(f"{kind}, workers and codecs alone")
        rows += worker_rows(kind, data.folder, rounds)
        rows += codec_rows(kind, data.folder, rounds)
    missing = [codec for codec in codecs if codec not in known]
    if missing:
        words.append(f"{' and '.join(missing)} is not installed here, so it has no rows")
    return "; ".join(words), rows


def _way(codec: str, workers: int) -> Way:
    return Way(
        f"{codec}, {counted(workers, 'worker')}",
        ("--compression", codec, "--workers", str(workers)),
        workers,
        codec,
        "" if codec == "none" else f"{codec}, 0 workers",
    )


def _is_known(codec: str) -> bool:
    try:
        parse_compression(codec)
    except UsageError:
        return False
    return True
