"""`by-itself`: the engine without a setting against fixed ones, where different things bound it.

No text: it shows whether what a backup finds by itself is within a tenth of the best fixed setting.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from strongroom.base import clock
from strongroom.cli.measure.testbed.command import measure
from strongroom.cli.measure.testbed.daemons import plain_environment
from strongroom.cli.measure.testbed.link import slow_link
from strongroom.cli.measure.testbed.local import local_backup, make_local
from strongroom.cli.measure.testbed.vault import Vault
from strongroom_bench.charts import NEAR
from strongroom_bench.suites.data import make_sources
from strongroom_bench.suites.repositories import taken_of
from strongroom_bench.suites.result import Row, Taken, Way, counted, in_turns
from strongroom_bench.testbed.delayed_mount import delayed_mount

FILES: Final = 3000
FILE_BYTES: Final = 16 << 10
FILES_A_DIRECTORY: Final = 50
# Of SOURCE_BYTES.
SOURCES_SHARE: Final = 0.4
SERVER_MILLISECONDS: Final = 2.0
DISK_MILLISECONDS: Final = 0.3
DISK_BYTES_A_SECOND: Final = 60e6
WAN_MILLISECONDS: Final = 20.0
WAN_BYTES_A_SECOND: Final = 5e6
ITSELF: Final = "by itself"
SEED: Final = (
    "The engine with no setting, against fixed ones: on a local disk; on a slow disk, a FUSE file "
    "system that answers one request after the other; on a file server, one that answers each "
    "request late; over a link of 20 ms and 5 MB/s. The best fixed setting is known only "
    "afterwards, so noise is on its side. It is marked, and a line in the chart stands 10% behind "
    "it. Peers have no such settings to find, so none is measured here."
)


def _fixed(shards: int = 0, threads: int = 0, workers: int = 0, queue: int = 0) -> Way:
    words: list[str] = []
    names = []
    for count, option, name in (
        (shards, "--shards", counted(shards, "shard")),
        (threads, "--scan-threads", counted(threads, "scan thread")),
        (workers, "--workers", counted(workers, "worker")),
        (queue, "--upload-queue-size", f"queue of {counted(queue, 'block')}"),
    ):
        if count:
            words += [option, str(count)]
            names.append(name)
    return Way(", ".join(names), tuple(words))


class Place(NamedTuple):
    """A kind of source and store. `source`: which data; `is_far`: the store is behind a link."""

    name: str
    source: str
    milliseconds: float
    disk_bytes_a_second: float
    is_far: bool
    ways: tuple[Way, ...]


_THREADS: Final = tuple(_fixed(threads=count) for count in (1, 4, 16, 64))
PLACES: Final = (
    Place(
        "local disk", "sources", 0, 0, False,
        (
            _fixed(1, 1), _fixed(2, 1), _fixed(4, 1), _fixed(2, 4), _fixed(2, 1, 1),
            _fixed(2, 1, 2),
        ),
    ),
    Place("slow disk", "tree", DISK_MILLISECONDS, DISK_BYTES_A_SECOND, False, _THREADS),
    Place("file server", "tree", SERVER_MILLISECONDS, 0, False, _THREADS),
    Place(
        "WAN", "tree", 0, 0, True,
        (
            _fixed(1, 1), _fixed(2, 1), _fixed(2, 1, 2, 8), _fixed(2, 1, 2, 32),
            _fixed(2, 1, 2, 512), _fixed(2, 1, 4, 128),
        ),
    ),
)  # fmt: skip


def measure_by_itself(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    places: tuple[Place, ...] = PLACES,
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    tell("making data")
    sources = make_sources(folder / "sources", SOURCES_SHARE * scale)
    files = max(FILES_A_DIRECTORY, round(FILES * scale))
    _make_tree(folder / "tree", files)
    rows: list[Row] = []
    for place in places:
        bench = _Bench(folder, place, tell)
        if not place.milliseconds:
            # A run that does not count: anyone who came first would have to read the data from
            # disk.
            for _ in bench.run(Way(ITSELF)):
                pass
        found = in_turns(place.name, (Way(ITSELF), *place.ways), rounds, bench.run)
        rows += _judged(found)
    return f"{sources.words}; tree: {files:,} files of {FILE_BYTES >> 10} KiB", rows


class _Bench:
    def __init__(self, folder: Path, place: Place, tell: Callable[[str], None]) -> None:
        self._folder = folder
        self._place = place
        self._tell = tell

    def run(self, way: Way) -> Iterator[tuple[str, Taken]]:
        """A first backup into a new repository, then one that finds nothing new."""
        store = self._folder / "store"
        try:
            with self._commands(store) as (command_of, environment):
                for backup in ("first", "unchanged"):
                    self._tell(f"{self._place.name}, {way.name}, {backup}")
                    with self._source() as source:
                        command = command_of(*way.words, str(source))
                        found = measure(command, environment, self._folder, store / "log")
                    yield backup, taken_of(found, store / "log")
        finally:
            shutil.rmtree(store, ignore_errors=True)

    @contextmanager
    def _commands(
        self, store: Path
    ) -> Iterator[tuple[Callable[..., list[str]], Mapping[str, str]]]:
        if not self._place.is_far:
            make_local(store)
            yield (
                lambda *words: local_backup(store, *words),
                plain_environment(self._folder / "home"),
            )
            return
        with (
            Vault(store) as vault,
            slow_link(vault.port, WAN_MILLISECONDS, WAN_BYTES_A_SECOND) as port,
        ):
            yield lambda *words: vault.backup("tls", *words, port=port), vault.environment

    @contextmanager
    def _source(self) -> Iterator[Path]:
        place = self._place
        tree = self._folder / place.source
        with ExitStack() as mounted:
            if place.milliseconds:
                # A new mount each time: what the kernel has cached of it is gone.
                mount = self._folder / "mount"
                mounted.enter_context(
                    delayed_mount(tree, mount, place.milliseconds, place.disk_bytes_a_second)
                )
                tree = mount
            yield tree


def _judged(rows: list[Row]) -> list[Row]:
    """With the best of each group marked, and what the row of no setting says beside it."""
    best: dict[str, Row] = {}
    for row in rows:
        if row.condition != ITSELF and (
            row.group not in best or row.median_seconds < best[row.group].median_seconds
        ):
            best[row.group] = row
    return [
        msgspec.structs.replace(row, figure=_beside(row, best[row.group]))
        if row.condition == ITSELF
        else msgspec.structs.replace(row, is_best=row is best[row.group])
        for row in rows
    ]


def _beside(row: Row, best: Row) -> str:
    times = row.median_seconds / best.median_seconds
    percent = 100 * (times - 1)
    verdict = "within 10%" if times <= NEAR else "more than 10%"
    return f"{percent:+.0f}% beside {best.condition}, {verdict}"


def _make_tree(tree: Path, files: int) -> None:
    # Noise, of which half is repeated, so that a codec has something to do.
    half = FILE_BYTES // 2
    for number in range(files):
        path = tree / f"d{number // FILES_A_DIRECTORY:04}" / f"f{number:05}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(clock.random_bytes(half) + bytes(half))
