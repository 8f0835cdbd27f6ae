"""What scan threads do for one job on a slow file server: `python -m bench.latency`.

Shows a tree of small files through a file system that sleeps 1, 5 or 10 ms before each answer
(bench.delayed_files; needs /dev/fuse and the library mfusepy) and measures, for a first and for an
unchanged backup,

- one job with 1 scan thread in each shard,
- nine jobs with 1 scan thread at once, each with a ninth of the directories: what sites did whose
  program had no such threads,
- one job with 32 scan threads in each shard, and one that chooses by itself.

All in A B C D A B C D order; medians and ratios go to standard output as a Markdown table. With
--write they go into docs/measurements/latency.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "measurements" / "latency.md"
DIRECTORIES = 45
JOBS = 9
WAYS = {
    "1 thread": ["--scan-threads", "1"],
    "nine jobs": [],
    "32 threads": ["--scan-threads", "32"],
    "by itself": [],
}
ENVIRONMENT = {**os.environ, "STRONGROOM_PASSWORD": "bench"}


def make_tree(folder: Path, files: int) -> list[str]:
    """`files` files of 1 KiB in DIRECTORIES directories; their names."""
    names = [f"directory-{number:02}" for number in range(DIRECTORIES)]
    for name in names:
        (folder / name).mkdir(parents=True)
    for number in range(files):
        path = folder / names[number % DIRECTORIES] / f"file-{number:06}"
        path.write_bytes(os.urandom(1024))
    return names


@contextmanager
def mounted(folder: Path, place: Path, milliseconds: float) -> Iterator[None]:
    """`folder` at `place`, delayed. Raises SystemExit when that is impossible here."""
    place.mkdir()
    words = ["-m", "bench.delayed_files", str(folder), str(place), str(milliseconds)]
    command = [sys.executable, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "mounted\n":
            raise SystemExit("cannot mount: this needs /dev/fuse, fusermount3 and mfusepy")
        yield
    finally:
        subprocess.run(["fusermount3", "-u", "-z", place], check=False)
        process.wait()


def start(repository: Path, paths: list[Path], words: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "strongroom", "backup", "--json", "--repo", str(repository)]
    return subprocess.Popen(
        [*command, *words, *map(str, paths)], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )


def end(process: subprocess.Popen[str]) -> int:
    """Files that the job holds. Raises SystemExit when it was not whole."""
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a backup ended with {process.returncode}: {output}")
    return int(json.loads(output.splitlines()[-1])["files"])


def measure(repository: Path, place: Path, names: list[str], way: str, files: int) -> float:
    """Seconds of one backup, or of nine at once."""
    started = time.perf_counter()
    if way == "nine jobs":
        parts = [[place / name for name in names[job::JOBS]] for job in range(JOBS)]
        words = ["--scan-threads", "1", "--shards", "1"]
        jobs = [start(repository, part, words) for part in parts]
    else:
        jobs = [start(repository, [place], WAYS[way])]
    if sum(map(end, jobs)) != files:
        raise SystemExit("a backup missed files")
    return time.perf_counter() - started


def rows(arguments: argparse.Namespace, work: Path) -> Iterator[str]:
    """Lines of the table."""
    names = make_tree(work / "tree", arguments.files)
    yield f"| delay | backup | {' | '.join(WAYS)} | threads | by itself | against nine jobs |"
    yield "|---:|---|" + "---:|" * (len(WAYS) + 3)
    for milliseconds in arguments.delays:
        taken: dict[tuple[str, str], list[float]] = {}
        for repeat in range(arguments.repeats):
            for way in WAYS:
                repository = work / "repository"
                command = [sys.executable, "-m", "strongroom", "init", "-q"]
                subprocess.run([*command, "--repo", str(repository)], env=ENVIRONMENT, check=True)
                for backup in ("first", "unchanged"):
                    # A new mount each time: what the kernel has cached of it is gone.
                    place = work / "mount"
                    with mounted(work / "tree", place, milliseconds):
                        seconds = measure(repository, place, names, way, arguments.files)
                    place.rmdir()
                    taken.setdefault((backup, way), []).append(seconds)
                shutil.rmtree(repository)
                print(f"{milliseconds:g} ms, repeat {repeat + 1}, {way}", file=sys.stderr)
        for backup in ("first", "unchanged"):
            seconds_of = {way: statistics.median(taken[backup, way]) for way in WAYS}
            cells = " | ".join(f"{seconds_of[way]:.2f} s" for way in WAYS)
            threads = seconds_of["1 thread"] / seconds_of["32 threads"]
            itself = seconds_of["1 thread"] / seconds_of["by itself"]
            against = seconds_of["nine jobs"] / seconds_of["32 threads"]
            yield (
                f"| {milliseconds:g} ms | {backup} | {cells} | {threads:.1f} x | {itself:.1f} x "
                f"| {against:.1f} x |"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--delays", type=float, nargs="+", default=[1.0, 5.0, 10.0], metavar="MS")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write docs/measurements/latency.md")
    arguments = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="latency-"))
    try:
        table = list(rows(arguments, work))
        machine = ", ".join(f"{value}" for value in describe_machine(work).values())
    finally:
        shutil.rmtree(work)
    print("\n".join(table))
    if arguments.write:
        today = datetime.now(UTC).date().isoformat()
        text = "\n".join(
            [
                "# Scan threads on a slow file server",
                "",
                "*For administrators who back up network file systems, and for developers.*",
                "",
                f"`python -m bench.latency --files {arguments.files} --write`, {today}: {machine}.",
                f"{arguments.files:,} files of 1 KiB in {DIRECTORIES} directories,",
                f"medians of {arguments.repeats}, the kernel's cache empty each time.",
                "",
                *table,
                "",
                "The first columns are seconds; `threads` is 1 thread against 32 in each shard,",
                "`by itself` 1 thread against the default, which sees that the file system is far",
                "away, and `against nine jobs` nine jobs at once, each with a ninth of the",
                "directories, against one job with 32 threads in each shard.",
                "",
            ]
        )
        DOCUMENT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
