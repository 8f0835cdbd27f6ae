"""`hashbackup`: a million empty files in one directory, by 1 to 8 shards; memory and catalog.

The text: the benchmarks page of HashBackup.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom.measure.suites.peers import installed_peers
from strongroom.measure.suites.repositories import BACKUP, Fresh
from strongroom.measure.suites.result import Row, Taken, Way, in_turns
from strongroom.measure.testbed.daemons import plain_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FILES: Final = 1_000_000
ONE: Final = "1 shard"
SHARDS: Final = (1, 2, 4, 8)
_MEBIBYTE: Final = 1 << 20
SEED: Final = (
    "HashBackup, the benchmarks page: a million empty files took 194 s and 113 MB of memory; split "
    "into 8 shards 56 s, with 80 MB each. On a Mac Mini with 4 cores, each shard a backup of its "
    "own with a catalog of its own; our shards are processes of one backup with one catalog, so "
    "memory is of all of them together, and more of them than there are cores give nothing."
)
_TEXTS: Final = {
    (BACKUP, ONE): "194 s, 113 MB",
    (BACKUP, "8 shards"): "56 s, 80 MB each",
}


def measure_hashbackup(
    folder: Path, scale: float, rounds: int, tell: Callable[[str], None]
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    files = max(1, round(FILES * scale))
    tree = folder / "tree"
    tell(f"making {files:,} files")
    tree.mkdir(parents=True)
    directory = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number in range(files):
            os.mknod(f"message-{number:07}.eml", 0o644, dir_fd=directory)
    finally:
        os.close(directory)
    place = folder / "run"
    place.mkdir()
    fresh = Fresh(place, plain_environment(folder / "home"))
    peers = {peer.name: peer for peer in installed_peers()}

    def run(way: Way) -> Iterator[tuple[str, Taken]]:
        tell(way.name)
        if way.name in peers:
            yield from fresh.peer(peers[way.name], tree, restores=False)
        else:
            yield from fresh.ours(tree, *way.words, restores=False)

    ways = [
        Way(f"{shards} shard{'s'[: shards > 1]}", ("--shards", str(shards)), shards)
        for shards in SHARDS
    ]
    ways += [Way(name) for name in peers]
    rows = in_turns("empty files", ways, rounds, run, texts=_TEXTS)
    found = [
        msgspec.structs.replace(
            row,
            figure=f"{files / row.median_seconds:,.0f} files/s, "
            f"catalog {row.stored_bytes / _MEBIBYTE:,.2f} MiB",
        )
        for row in rows
    ]
    return f"{files:,} empty files in one directory", found
