"""`python -m strongroom_bench.growth`: how the cost of small jobs grows with the repository.

A repository has a real backup of three tiny files, and beside it index objects of so many chunks as
other backups of the same client would have left, made by the engine's own writer of index objects
with random ids; their packs are empty files of the right size. So what is measured is what a job
costs that has to do with nearly none of it. `small`: files of one chunk, 200 to a block, 4,000 to
a pack. `large`: a chunk is its own block, 32 to a pack, as of files above 1 GiB. `check` takes all
packs for sound here: it would find these damaged.

Printed for each job: processor time of all its processes, the largest memory of one, bytes read of
the repository and requests for them, and the exponent between the last two sizes, start subtracted.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import zstandard

from strongroom.engine.content.codecs import ZSTD
from strongroom.engine.content.digests import (
    BLOCK_ID_SIZE,
    CHUNK_ID_SIZE,
    OBJECT_NAME_SIZE,
    block_id,
    chunk_id,
    ids_and_lengths,
)
from strongroom.engine.repository.block_columns import BlockColumns
from strongroom.engine.repository.keys.wrapping import Argon2Cost
from strongroom.engine.repository.listing.page import encode_page
from strongroom.engine.repository.listing.page_builder import PageBuilder
from strongroom.engine.repository.packs import KIND_DATA, KIND_LISTING, PackFooter
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import PageReference, Snapshot, write_snapshot
from strongroom.engine.rows.rows import new_rows
from strongroom.engine.stores.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PASSWORD: Final = "benchmark only"
_HOST: Final = "growth"
_DIRECTORY: Final = b"data"
_OBJECT_CHUNKS: Final = 100_000
_MIB: Final = 1 << 20
# Runs a command of ours, and writes what it read of the store into a file.
_COUNTED: Final = """
import json, os, sys
from strongroom.engine.stores import local
counts = {"requests": 0, "bytes": 0}
def count(name):
    plain = getattr(local.LocalStore, name)
    def counted(self, *given, **named):
        found = plain(self, *given, **named)
        counts["requests"] += 1
        counts["bytes"] += len(found) if name == "get" else 0
        return found
    setattr(local.LocalStore, name, counted)
for name in ("get", "info", "list"):
    count(name)
if sys.argv[1] == "check":
    from strongroom.engine.check import check, packs
    check.check_pack = lambda *_: packs.PackAnswer([], [], [], False, False, 0)
from strongroom.cli.main import main
code = main()
with open(os.environ["GROWTH_COUNTS"], "w") as file:
    json.dump(counts, file)
sys.exit(code)
"""


class Shape(NamedTuple):
    """Chunks of a block, and blocks of a pack."""

    name: str
    chunks: int
    blocks: int


SHAPES: Final = {"small": Shape("small", 200, 20), "large": Shape("large", 1, 32)}


class Cost(NamedTuple):
    """What one command took."""

    cpu_seconds: float
    memory_mib: float
    read_mb: float
    requests: int


def fill(repository: Repository, shape: Shape, chunk_count: int) -> None:
    """Index objects of so many chunks more, their packs without content, and their snapshots."""
    packs_of_object = max(1, _OBJECT_CHUNKS // (shape.chunks * shape.blocks))
    left = chunk_count
    while left > 0:
        count = min(packs_of_object, -(-left // (shape.chunks * shape.blocks)))
        footers = [_pack(repository, shape) for _ in range(count)]
        listing, pages = _listing(repository, shape, footers)
        repository.write_index([*footers, listing])
        paths = (_DIRECTORY + b"/%d" % left,)
        snapshot = Snapshot(host=_HOST, paths=paths, start_ns=1, end_ns=1, pages=tuple(pages))
        write_snapshot(repository.store, repository.writer, snapshot, repository.cipher)
        left -= count * shape.chunks * shape.blocks


def _listing(
    repository: Repository, shape: Shape, footers: Sequence[PackFooter]
) -> tuple[PackFooter, list[PageReference]]:
    """Files of one chunk, or of a thousand where each is a block, that use all of these packs."""
    blocks = [
        footer.columns.block_ids[at : at + BLOCK_ID_SIZE]
        for footer in footers
        for at in range(0, len(footer.columns.block_ids), BLOCK_ID_SIZE)
    ]
    parts = [(block, slot) for block in blocks for slot in range(shape.chunks)]
    of_file = 1 if shape.chunks > 1 else 1000
    files = [parts[at : at + of_file] for at in range(0, len(parts), of_file)]
    chunk_bytes = 4096 if of_file == 1 else 1 << 20
    names = [b"%09d" % number for number in range(len(files))]
    stats = array("q")
    for file in files:
        stats.extend((0o100644, 0, 0, len(file) * chunk_bytes, 10**18, 10**18, 1, 65, 1, 0))
    rows = new_rows(_DIRECTORY, names, stats)
    rows.part_counts = array("I", map(len, files))
    rows.part_blocks = b"".join(block for block, _ in parts)
    rows.part_slots = array("H", [slot for _, slot in parts])
    builder = PageBuilder()
    keys = repository.writer.client.own
    pack = repository.new_pack(KIND_LISTING)
    pages = []
    for page in builder.add(rows) + builder.finish():
        raw = encode_page(page)
        chunk = chunk_id(keys.chunk_key, raw)
        length = len(raw).to_bytes(4, "little")
        block = block_id(keys.block_key, ids_and_lengths(chunk, length))
        pack.add(block, chunk, [len(raw)], ZSTD, zstandard.compress(raw, 1), len(raw))
        first = page[0].names.partition(b"\0")[0]
        count = sum(rows.row_count for rows in page)
        parts_of_page = sum(sum(rows.part_counts) for rows in page)
        pages.append(PageReference(_DIRECTORY, first, block, count, parts_of_page * chunk_bytes))
    return pack.finish(), pages


def _pack(repository: Repository, shape: Shape) -> PackFooter:
    chunks, blocks = shape.chunks * shape.blocks, shape.blocks
    length = 1 << 20 if shape.chunks == 1 else 4096
    columns = BlockColumns(
        block_ids=os.urandom(blocks * BLOCK_ID_SIZE),
        codecs=bytes(blocks),
        stored_lengths=np.full(blocks, length * shape.chunks + 28, "<u4").tobytes(),
        raw_lengths=np.full(blocks, length * shape.chunks, "<u4").tobytes(),
        chunk_counts=np.full(blocks, shape.chunks, "<u2").tobytes(),
        flags=bytes(blocks),
        chunk_ids=os.urandom(chunks * CHUNK_ID_SIZE),
        chunk_lengths=np.full(chunks, length, "<u4").tobytes(),
        dead=b"",
    )
    pack_id = os.urandom(OBJECT_NAME_SIZE)
    size = 200 + blocks * (length * shape.chunks + 28)
    name = pack_id.hex()
    path = Path(repository.store.location) / "packs" / name[:2] / name
    path.parent.mkdir(exist_ok=True)
    path.touch(0o600)
    os.truncate(path, size)
    return PackFooter(repository.writer.client_id, pack_id, KIND_DATA, size, columns)


class Bench:
    """One repository, its tree of three files and its cache."""

    def __init__(self, folder: Path, shape: Shape, chunk_count: int) -> None:
        self._folder = folder
        self._tree = folder / "tree"
        self._tree.mkdir(parents=True)
        self._number = 0
        self._change()
        store = LocalStore(str(folder / "repository"))
        cost = Argon2Cost(1024, 1, 1)
        repository = Repository.create(store, PASSWORD.encode(), cost=cost).for_client(_HOST)
        self.run("backup", "--host", _HOST, str(self._tree))
        # In its own process: the system counts a parent's memory as that of its children.
        filling = multiprocessing.get_context("fork").Process(
            target=fill, args=(repository, shape, chunk_count)
        )
        filling.start()
        filling.join()
        if filling.exitcode:
            raise SystemExit(f"the repository could not be made: {filling.exitcode}")
        repository.close()
        shutil.rmtree(folder / "cache")

    def costs(self) -> Iterator[tuple[str, Cost]]:
        """Each job, and what it took."""
        backup = ("backup", "--host", _HOST, str(self._tree))
        first = f"latest:{self._tree}/0"
        yield "ls, no cache yet", self.run("ls", f"latest:{self._tree}")
        yield "ls", self.run("ls", f"latest:{self._tree}")
        yield (
            "restore one file",
            self.run("restore", first, "--target", str(self._folder / "restored")),
        )
        self._change()
        yield "backup of 3 new files, no chunks kept yet", self.run(*backup)
        self._change()
        yield "backup of 3 new files", self.run(*backup)
        yield "the same, unchanged", self.run(*backup)
        yield "ls without a cache", self.run("ls", "--no-cache", f"latest:{self._tree}")
        self._change()
        yield "backup of 3 new files without a cache", self.run(*backup, "--no-cache")
        yield "prune, nothing to do", self.run("prune")
        yield "prune again", self.run("prune")
        yield "share, nothing to share", self.run("share")
        self._change()
        self.run(*backup)
        yield "prune after a backup", self.run("prune")
        yield "share after a backup", self.run("share")
        yield "prune that counts all", self.run("prune", "--recount")
        yield "the same in parts of 64 MiB", self.run("prune", "--recount", "--memory", "64M")
        yield "check", self.run("check")
        yield "check in parts of 64 MiB", self.run("check", "--memory", "64M")
        yield "check of what came, nothing", self.run("check", "--new")
        self._change()
        self.run(*backup)
        yield "check of what came, a backup", self.run("check", "--new")

    @property
    def cache_bytes(self) -> int:
        """What is kept on the machine."""
        return sum(path.stat().st_size for path in self._folder.glob("cache/**/*"))

    def run(self, *arguments: str) -> Cost:
        """Run a command of ours; CalledProcessError if it fails."""
        counts = self._folder / "counts"
        environment = {
            "PATH": os.environ["PATH"],
            "STRONGROOM_PASSWORD": PASSWORD,
            "STRONGROOM_REPOSITORY": str(self._folder / "repository"),
            "XDG_CACHE_HOME": str(self._folder / "cache"),
            "GROWTH_COUNTS": str(counts),
            "MALLOC_ARENA_MAX": "2",
        }
        command = [sys.executable, "-c", _COUNTED, *arguments]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, arguments)
        read = json.loads(counts.read_text())
        return Cost(
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss / 1024,
            read["bytes"] / 1e6,
            read["requests"],
        )

    def _change(self) -> None:
        for name in range(3):
            self._number += 1
            (self._tree / str(name)).write_bytes(b"%d %s" % (self._number, os.urandom(90)))


def exponent(before: float, after: float, start: float, factor: float) -> str:
    """The growth between two sizes; "0" where nothing grows beyond the start."""
    less, more = before - start, after - start
    if more <= start * 0.15:
        return "0"
    return f"{math.log(more / max(less, start * 0.05)) / math.log(factor):.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; prints a table for each shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e3, 1e5, 1e6, 1e7])
    parser.add_argument("--shapes", nargs="+", choices=sorted(SHAPES), default=sorted(SHAPES))
    parser.add_argument("--folder", type=Path, help="where it is made (default: a new one in /tmp)")
    options = parser.parse_args(arguments)
    for name in options.shapes:
        found: dict[str, list[Cost]] = {}
        for size in options.sizes:
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                bench = Bench(Path(folder), SHAPES[name], int(size))
                for job, cost in bench.costs():
                    found.setdefault(job, []).append(cost)
                    print(f"{name} {size:.0e} {job}: {cost}", file=sys.stderr, flush=True)
                kept = bench.cache_bytes / 1e6
                print(f"{name} {size:.0e} kept: {kept:.1f} MB", file=sys.stderr, flush=True)
        print(_table(SHAPES[name], options.sizes, found))
    return 0


def _table(shape: Shape, sizes: Sequence[float], found: dict[str, list[Cost]]) -> str:
    heads = " | ".join(f"{size:.0e}: CPU s, MiB, MB read, requests" for size in sizes)
    lines = [f"| {shape.name} | {heads} | exponent CPU / memory |", "|---" * (len(sizes) + 2) + "|"]
    for job, costs in found.items():
        cells = " | ".join(
            f"{cost.cpu_seconds:.2f}, {cost.memory_mib:.0f}, {cost.read_mb:.1f}, {cost.requests}"
            for cost in costs
        )
        grown = ""
        if len(costs) > 1:
            factor = sizes[-1] / sizes[-2]
            cpu = [cost.cpu_seconds for cost in costs]
            memory = [cost.memory_mib for cost in costs]
            grown = exponent(cpu[-2], cpu[-1], cpu[0], factor)
            grown += " / " + exponent(memory[-2], memory[-1], memory[0], factor)
        lines.append(f"| {job} | {cells} | {grown} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
