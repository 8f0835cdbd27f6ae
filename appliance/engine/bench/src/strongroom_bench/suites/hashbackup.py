"""`hashbackup`: a million empty files in one directory, by 1 to 8 shards; memory and catalog.

The text: the benchmarks page of HashBackup.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from strongroom_bench.contenders import installed_peers
from strongroom_bench.datasets import EMPTY_FILES, generate_empty
from strongroom_bench.more_cores import Cost, predicted_seconds
from strongroom_bench.suites.repositories import BACKUP, Fresh
from strongroom_bench.suites.result import Row, Taken, Way, counted, in_turns

ONE: Final = "1 shard"
SHARDS: Final = (1, 2, 4, 8)
_MEBIBYTE: Final = 1 << 20
SEED: Final = (
    "HashBackup, the benchmarks page: a million empty files took 194 s and 113 MB of memory, with "
    "a database of 118 MB; split into 8 shards 56 s, with 80 MB each. On a Mac Mini with 4 cores, "
    "its memory and disk are not stated. There each shard is its own backup with its own"
    "catalog; our shards are processes of one backup with one catalog, so memory is of all of them "
    "together, and more of them than there are cores give nothing. Predicted is what the model of "
    "more cores makes of the row with the fewest shards: the greatest of the coordinator's "
    "processor time, the rest of it divided by the shards, and all of it divided by the cores. "
    "Beyond the cores of this machine its slope cannot be checked here."
)
_TEXTS: Final = {
    (BACKUP, ONE): "194 s, 113 MB",
    (BACKUP, "8 shards"): "56 s, 80 MB each",
}


def measure_hashbackup(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    shard_counts: tuple[int, ...] = SHARDS,
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    files = max(1, round(EMPTY_FILES * scale))
    tree = folder / "tree"
    tell(f"making {files:,} files")
    tree.mkdir(parents=True)
    generate_empty(tree, scale)
    place = folder / "run"
    place.mkdir()
    fresh = Fresh(place)
    peers = {peer.name: peer for peer in installed_peers(place)}

    def run(way: Way) -> Iterator[tuple[str, Taken]]:
        tell(way.name)
        if way.name in peers:
            yield from fresh.peer(peers[way.name], tree, restores=False)
        else:
            yield from fresh.ours(tree, *way.words, restores=False)

    ways = [
        Way(counted(shards, "shard"), ("--shards", str(shards)), shards) for shards in shard_counts
    ]
    ways += [Way(name) for name in peers]
    rows = in_turns("empty files", ways, rounds, run, texts=_TEXTS)
    predicted = predictions(rows, len(os.sched_getaffinity(0)))
    found = [
        msgspec.structs.replace(
            row,
            figure=f"{files / row.median_seconds:,.0f} files/s, "
            f"catalog {row.stored_bytes / _MEBIBYTE:,.2f} MiB{predicted.get(row.condition, '')}",
        )
        for row in rows
    ]
    return f"{files:,} empty files in one directory", found


def predictions(rows: Sequence[Row], cores: int) -> dict[str, str]:
    """What the model says of each number of shards but the least, by condition."""
    by_shards = {int(row.place): row for row in rows if row.place is not None}
    if not by_shards:
        return {}
    least = min(by_shards)
    row = by_shards[least]
    cost = Cost(row.median_seconds, row.cpu_seconds, row.serial_seconds)
    return {
        one.condition: ", predicted "
        f"{predicted_seconds(cost, cores, cores, shards_here=least, shards=shards):.2f} s"
        for shards, one in by_shards.items()
        if shards != least
    }
