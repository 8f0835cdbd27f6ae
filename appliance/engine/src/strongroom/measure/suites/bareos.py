"""`bareos-compression`, `bareos-acl-xattr`, `bareos-signature`: Bareos on its workers.

The text: the measurements of Bareos' pull request 1597, which brought Maximum Workers Per Job: its
file daemon against multimedia, a root file system and kernel sources.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from strongroom.content.codecs import parse_compression
from strongroom.errors import UsageError
from strongroom.measure.suites.data import MAKERS, Data
from strongroom.measure.suites.peers import installed_peers
from strongroom.measure.suites.repositories import BACKUP, Fresh
from strongroom.measure.suites.result import Row, Taken, Way, in_turns
from strongroom.measure.testbed.daemons import plain_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

UNSIGNED: Final = "none"
INLINE: Final = "none, 0 workers"
WORKERS: Final = (0, 1, 2, 4, 8)
CODECS: Final = ("none", "gzip1", "lzo", "lzfast", "lz4", "zstd1", "auto")
# With more workers than none only these are measured: the others would say the same.
THREADED: Final = ("none", "lz4", "zstd1", "auto")
SIGNATURES: Final = ("none", "md5", "sha1", "sha256", "sha512", "xxh128", "blake3")
KEPT: Final = "ACLs and attributes"
ENTRIES: Final = 20_000
_OF: Final = (
    "Bareos, pull request 1597 (Maximum Workers Per Job), whose program reads blocks of 256 KiB, "
    "has a queue of futures for each file, and sends by one stream; "
)
COMPRESSION_SEED: Final = (
    f"{_OF}multimedia was up to 5 times as fast with workers, kernel sources hardly faster, lz4 "
    "150 MB/s with one thread and 500 MB/s with five. Its pipeline begins anew with each file, so "
    "files below 512 KiB never meet a worker; ours makes blocks of many files. Its lz4 goes "
    "through a bundled wrapper. Here shards use all cores without workers. Its machine, disks and "
    "network are not ours: compare ratios."
)
ACL_SEED: Final = (
    f"{_OF}sets of many files were 17 to 19% faster without ACLs and extended attributes. Here the "
    "attributes of an entry are listed once, and of a file system without them not at all."
)
SIGNATURE_SEED: Final = (
    f"{_OF}the effect of signatures looked random. There a digest is one chain, whose updates each "
    "wait for the one before. Here each file's digest is made beside the one that finds duplicates."
)
_TEXTS: Final = {
    "multimedia": {(BACKUP, "lz4, 8 workers"): "up to 5 times as fast with workers"},
    "sources": {(BACKUP, "lz4, 8 workers"): "almost no gain by workers"},
    "root": {},
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
    ways = [
        Way(
            f"{codec}, {workers} workers",
            ("--compression", codec, "--workers", str(workers)),
            workers if codec == "auto" else None,
        )
        for codec in codecs
        if _is_known(codec)
        for workers in (workers_of if codec in THREADED else workers_of[:1])
    ]
    rows: list[Row] = []
    words = []
    for kind, make in MAKERS.items():
        tell(f"making {kind}")
        data = make(folder / kind, scale)
        words.append(data.words)
        rows += _measured(folder, kind, data, ways, rounds, tell, _TEXTS[kind])
    return "; ".join(words), rows


def measure_signature(
    folder: Path,
    scale: float,
    rounds: int,
    tell: Callable[[str], None],
    signatures: tuple[str, ...] = SIGNATURES,
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    ways = [Way(name, ("--signature", name)) for name in signatures]
    rows: list[Row] = []
    words = []
    for kind in ("multimedia", "sources"):
        tell(f"making {kind}")
        data = MAKERS[kind](folder / kind, scale)
        words.append(data.words)
        texts = {(BACKUP, "md5"): "inconclusive"}
        rows += _measured(folder, kind, data, ways, rounds, tell, texts, with_peers=False)
    return "; ".join(words), rows


def measure_acl_xattr(
    folder: Path, scale: float, rounds: int, tell: Callable[[str], None]
) -> tuple[str, list[Row]]:
    """What was backed up, and the rows. `folder` is new. Raises UsageError."""
    ways = [
        Way(KEPT),
        Way("no ACLs", ("--no-acls",)),
        Way("no attributes", ("--no-xattrs",)),
        Way("neither", ("--no-acls", "--no-xattrs")),
    ]
    texts = {(BACKUP, "neither"): "17 to 19% faster, many files"}
    rows: list[Row] = []
    words = []
    tell("making sources")
    data = MAKERS["sources"](folder / "sources", scale)
    rows += _measured(folder, "sources", data, ways, rounds, tell, texts, with_peers=False)
    words.append(data.words)
    tell("making files with attributes")
    data = _make_attributes(folder / "attributes", max(10, round(ENTRIES * scale)))
    rows += _measured(folder, data.kind, data, ways, rounds, tell, {}, with_peers=False)
    words.append(data.words)
    return "; ".join(words), rows


def _is_known(codec: str) -> bool:
    try:
        parse_compression(codec)
    except UsageError:
        return False
    return True


def _measured(
    folder: Path,
    group: str,
    data: Data,
    ways: list[Way],
    rounds: int,
    tell: Callable[[str], None],
    texts: dict[tuple[str, str], str],
    *,
    with_peers: bool = True,
) -> list[Row]:
    """Backup and restore of the data, in each way and by the peers that are installed."""
    place = folder / "run"
    place.mkdir()
    fresh = Fresh(place, plain_environment(folder / "home"))
    peers = {peer.name: peer for peer in installed_peers()} if with_peers else {}

    def run(way: Way) -> Iterator[tuple[str, Taken]]:
        tell(f"{group}, {way.name}")
        if way.name in peers:
            yield from fresh.peer(peers[way.name], data.folder)
        else:
            yield from fresh.ours(data.folder, *way.words)

    everything = [*ways, *(Way(name) for name in peers)]
    rows = in_turns(group, everything, rounds, run, data.size_bytes, texts)
    place.joinpath("log").unlink(missing_ok=True)
    place.rmdir()
    return rows


def _make_attributes(folder: Path, entries: int) -> Data:
    """Small files, each with an attribute of its own. Raises UsageError where there are none."""
    content = b"of a measurement\n"
    for number in range(entries):
        path = folder / f"{number // 500:03}" / f"{number:06}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        try:
            os.setxattr(path, "user.strongroom.measured", b"%d" % number)
        except OSError as error:
            raise UsageError(
                f"this file system takes no extended attributes ({error.strerror}): name another "
                "folder with --work"
            ) from error
    return Data("files with attributes", folder, entries, entries * len(content))
