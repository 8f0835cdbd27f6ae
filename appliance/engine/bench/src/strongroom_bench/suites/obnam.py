"""`obnam`: sweeps of the upload queue and the LRU for an almost unchanged tree over a thin link.

The text: Lionel Bouton's test of Obnam 1.8, 155,000 files of 3.66 GiB in all, of which hardly any
changed, over a link of 1 ms and 3 MB/s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from strongroom.base import clock
from strongroom.cli.measure.testbed.command import measure
from strongroom.cli.measure.testbed.link import slow_link
from strongroom.cli.measure.testbed.vault import Vault
from strongroom_bench.suites.repositories import taken_of
from strongroom_bench.suites.result import Row, Taken, Way, counted, in_turns

FILES: Final = 155_000
SIZE_BYTES: Final = 3_930_000_000
FILES_A_DIRECTORY: Final = 100
MILLISECONDS: Final = 1.0
BYTES_A_SECOND: Final = 3e6
# Files that change before each run.
CHANGED: Final = 50
DEFAULTS: Final = "defaults"
SEED: Final = (
    "Lionel Bouton, obnam-support 2014-June/003086 (obnam.org/faq/tuning): ~155,000 files, "
    "3.66 GiB, very minimal changes, WiFi of ~1 ms and ~3 MB/s by sftp; lru-size and "
    "upload-queue-size make a significant difference to Obnam's time and memory. The times of its "
    "table are not stated here. Its client had an Intel i5-3317U of 1.7 GHz and btrfs on an SSD, "
    "its server ext4 on a disk of 7200 rpm; memory of neither is stated. Our link is a relay on "
    "the same machine, and our files are generated: half noise, half zeros, all of one size. Peers "
    "have no upload queue and no LRU to set, so none is measured here."
)
_SIGNIFICANT: Final = "time and memory differ significantly"
WAYS: Final = (
    Way(DEFAULTS),
    *(
        Way(
            f"2 workers, queue of {counted(size, 'block')}",
            ("--workers", "2", "--upload-queue-size", str(size)),
            size,
        )
        for size in (8, 32, 128, 512)
    ),
    *(
        Way(f"LRU of {counted(pages, 'page')}", ("--lru-size", str(pages)))
        for pages in (2, 32, 128)
    ),
)


def measure_obnam(
    folder: Path, scale: float, rounds: int, tell: Callable[[str], None]
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    files = max(CHANGED, round(FILES * scale))
    tree = folder / "tree"
    tell(f"making {files:,} files")
    _make_tree(tree, files)
    with Vault(folder / "vault") as vault:
        tell("a first backup, without the link")
        first = vault.backup("tls", str(tree))
        measure(first, vault.environment, folder, folder / "log")
        with slow_link(vault.port, MILLISECONDS, BYTES_A_SECOND) as port:

            def run(way: Way) -> Iterator[tuple[str, Taken]]:
                tell(way.name)
                _change(tree, files)
                command = vault.backup("tls", *way.words, str(tree), port=port)
                found = measure(command, vault.environment, folder, folder / "log")
                yield "almost unchanged", taken_of(found, folder / "log")

            texts = {("almost unchanged", way.name): _SIGNIFICANT for way in WAYS[1:]}
            rows = in_turns("1 ms, 3 MB/s", WAYS, rounds, run, texts=texts)
    size_bytes = files * (SIZE_BYTES // FILES)
    return f"{files:,} files, {size_bytes / 1e9:.2f} GB, {CHANGED} of them changed each time", rows


def _make_tree(tree: Path, files: int) -> None:
    # Noise, of which half is repeated, so that a codec has something to do.
    half = SIZE_BYTES // FILES // 2
    for number in range(files):
        path = _path(tree, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(clock.random_bytes(half) + bytes(half))


def _change(tree: Path, files: int) -> None:
    for number in range(0, files, max(1, files // CHANGED)):
        with _path(tree, number).open("r+b") as file:
            file.write(clock.random_bytes(64))


def _path(tree: Path, number: int) -> Path:
    return tree / f"d{number // FILES_A_DIRECTORY:05}" / f"f{number:06}"
