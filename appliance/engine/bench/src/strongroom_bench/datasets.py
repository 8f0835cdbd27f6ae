"""The data sets every contender backs up, and the one percent that changes between two backups.

Each set is made in the work folder and kept until a change; a marker file beside it says that it is
whole and at which scale it was made, so that an interrupted generation starts again. One that was
changed is made anew for the next run: names and inodes in no order make listings grow from run to
run, that of `empty` to six times its size after three changes. All content comes
from seeded generators or from Debian packages: two machines measure the same bytes, but for `usr`,
which is a copy of the machine's own /usr.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

MEDIA_FILES = 150
MEDIA_BYTES = 2_500_000_000
EMPTY_FILES = 1_000_000
SMALL_DIRECTORIES = 1_000
SMALL_FILES_PER_DIRECTORY = 1_000
SMALL_FILE_BYTES = 1_024
STARTUP_FILES = 100
CHANGED_SHARE = 0.01
OVERWRITTEN_BYTES = 4_096
RANDOM_PIECE_BYTES = 1 << 20


class DatasetError(Exception):
    """A data set could not be made; the message says what is missing."""


@dataclass(frozen=True)
class TreeTotals:
    """What a walk of a tree counted: all entries below the root, and the bytes of regular files."""

    entries: int
    file_bytes: int


@dataclass(frozen=True)
class Dataset:
    """One row of the benchmark: `generate(target, scale)` fills the empty folder `target`.

    `repeats` is how often the row is measured when nothing else is asked for.
    """

    name: str
    title: str
    generate: Callable[[Path, float], None]
    repeats: int


def share_of(name: bytes, salt: bytes) -> float:
    """A number in [0, 1) that depends only on `name` and `salt`."""
    digest = hashlib.blake2b(name, digest_size=8, key=salt).digest()
    return int.from_bytes(digest) / 2**64


def walk_entries(root: bytes) -> Iterator[os.DirEntry[bytes]]:
    """Every entry below `root`, in no particular order, symlinks not followed."""
    pending = [root]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)


def tree_totals(root: Path) -> TreeTotals:
    """Entries and file bytes below `root`."""
    entries = file_bytes = 0
    for entry in walk_entries(os.fsencode(root)):
        entries += 1
        if entry.is_file(follow_symlinks=False):
            file_bytes += entry.stat(follow_symlinks=False).st_size
    return TreeTotals(entries, file_bytes)


def file_sizes(root: Path) -> list[int]:
    """The bytes of everything below `root` that is not a directory."""
    return [
        entry.stat(follow_symlinks=False).st_size
        for entry in walk_entries(os.fsencode(root))
        if not entry.is_dir(follow_symlinks=False)
    ]


def _source_archive(download_folder: Path) -> Path:
    """Debian's kernel source archive: the installed one, or the package fetched and unpacked."""
    places = [Path("/usr/src"), download_folder / "usr/src"]
    for place in places:
        found = sorted(place.glob("linux-source-*.tar.xz"))
        if found:
            return found[-1]
    depends = subprocess.run(
        ["apt-cache", "depends", "linux-source"], capture_output=True, text=True, check=False
    ).stdout
    packages = [
        line.split()[-1] for line in depends.splitlines() if "Depends: linux-source-" in line
    ]
    if not packages:
        raise DatasetError("apt knows no linux-source package; run `apt-get update` first")
    download_folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", packages[0]], cwd=download_folder, check=True)
    package_file = max(download_folder.glob("linux-source-*.deb"))
    subprocess.run(["dpkg-deb", "-x", package_file, download_folder], check=True)
    package_file.unlink()
    return max((download_folder / "usr/src").glob("linux-source-*.tar.xz"))


def _generate_kernel(target: Path, scale: float) -> None:
    unpack_sources(_source_archive(target.parent / "download"), target, scale)


def unpack_sources(archive: Path, target: Path, scale: float) -> None:
    """Unpack the archive into `target`; below a scale of 1 the files that their names choose."""
    command = ["tar", "-xJf", str(archive), "-C", str(target), "--no-same-owner"]
    names = None
    if scale < 1:
        listing = subprocess.run(["tar", "-tJf", archive], capture_output=True, check=True).stdout
        chosen = [
            name
            for name in listing.splitlines()
            if not name.endswith(b"/") and share_of(name, b"kernel") < scale
        ]
        command += ["--no-recursion", "-T", "-"]
        names = b"\n".join(chosen) + b"\n"
    subprocess.run(command, input=names, check=True)


def _generate_usr(target: Path, scale: float) -> None:
    chosen: list[bytes] = []
    for entry in walk_entries(b"/usr"):
        if entry.path.startswith(b"/usr/src/linux-source-"):
            continue
        if entry.is_dir(follow_symlinks=False):
            if scale < 1:
                continue
        elif share_of(entry.path, b"usr") >= scale:
            continue
        chosen.append(entry.path[1:])
    chosen.sort()
    packing = subprocess.Popen(
        [
            "tar",
            "-C",
            "/",
            "--no-recursion",
            "--null",
            "-T",
            "-",
            "--ignore-failed-read",
            "-cf",
            "-",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    unpacking = subprocess.Popen(["tar", "-xpf", "-", "-C", str(target)], stdin=packing.stdout)
    if packing.stdin is None or packing.stdout is None:
        raise DatasetError("tar started without its pipes")
    packing.stdout.close()
    # tar reads its whole list of names before it writes the first member: no deadlock here.
    packing.stdin.write(b"\0".join(chosen))
    packing.stdin.close()
    if packing.wait() or unpacking.wait():
        raise DatasetError("copying /usr failed; tar's message is above")


def _write_random(path: Path, size_bytes: int, generator: random.Random) -> None:
    with path.open("wb") as file:
        remaining = size_bytes
        while remaining:
            piece = generator.randbytes(min(remaining, RANDOM_PIECE_BYTES))
            file.write(piece)
            remaining -= len(piece)


def generate_media(target: Path, scale: float) -> None:
    """Noise in an empty folder, for recordings do not shrink."""
    generator = random.Random("media")
    # Sizes spread over two orders of magnitude, as recordings' do.
    weights = [10 ** generator.uniform(0, 2) for _ in range(MEDIA_FILES)]
    total_weight = sum(weights)
    for number, weight in enumerate(weights):
        folder = target / f"album-{number // 10:02d}"
        folder.mkdir(exist_ok=True)
        size_bytes = round(MEDIA_BYTES * scale * weight / total_weight)
        _write_random(folder / f"recording-{number:03d}.mkv", size_bytes, generator)


def generate_empty(target: Path, scale: float) -> None:
    """Empty files, all of them in one folder."""
    directory = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number in range(max(1, round(EMPTY_FILES * scale))):
            os.mknod(f"message-{number:07d}.eml", 0o644, dir_fd=directory)
    finally:
        os.close(directory)


def _vocabulary(generator: random.Random) -> list[str]:
    syllables = [c + v for c in "bcdfghklmnprstvw" for v in ("a", "e", "i", "o", "u", "ou", "ai")]
    return ["".join(generator.choices(syllables, k=generator.randint(1, 4))) for _ in range(8_000)]


def _generate_small(target: Path, scale: float) -> None:
    generator = random.Random("small")
    words = _vocabulary(generator)
    # Word frequencies fall as one over the rank, as in any language.
    frequencies = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    words_per_directory = SMALL_FILES_PER_DIRECTORY * SMALL_FILE_BYTES // 3
    for directory_number in range(max(1, round(SMALL_DIRECTORIES * scale))):
        folder = target / f"folder-{directory_number:04d}"
        folder.mkdir()
        chosen = generator.choices(words, cum_weights=frequencies, k=words_per_directory)
        text = " ".join(chosen).encode()
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        for number in range(SMALL_FILES_PER_DIRECTORY):
            begin = number * SMALL_FILE_BYTES
            name = f"note-{number:04d}.txt"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            descriptor = os.open(name, flags, 0o644, dir_fd=directory)
            os.write(descriptor, text[begin : begin + SMALL_FILE_BYTES])
            os.close(descriptor)
        os.close(directory)


def _generate_startup(target: Path, scale: float) -> None:
    generator = random.Random("startup")
    for number in range(STARTUP_FILES):
        (target / f"setting-{number:03d}.conf").write_bytes(generator.randbytes(SMALL_FILE_BYTES))


DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset("kernel", "Kernel sources", _generate_kernel, 3),
        Dataset("usr", "Root file system: copy of /usr", _generate_usr, 2),
        Dataset("media", "Incompressible media, 150 files", generate_media, 3),
        Dataset("empty", "Empty files in one directory", generate_empty, 2),
        Dataset("small", "Files of 1 KiB in directories of 1,000", _generate_small, 2),
        Dataset("startup", "Start-up, with a hundred small files", _generate_startup, 3),
    )
}


def _marker(data_folder: Path) -> Path:
    return data_folder.with_name(data_folder.name + ".whole.json")


def prepare(dataset: Dataset, work_folder: Path, scale: float) -> Path:
    """The folder of `dataset` at `scale` under `work_folder`, made unless it is there unchanged."""
    target = work_folder / "data" / f"{dataset.name}-{scale:g}"
    marker = _marker(target)
    if marker.exists():
        if not _generation(target):
            return target
        marker.unlink()
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    dataset.generate(target, scale)
    totals = tree_totals(target)
    marker.write_text(
        json.dumps(
            {
                "dataset": dataset.name,
                "scale": scale,
                "entries": totals.entries,
                "file_bytes": totals.file_bytes,
            }
        )
    )
    return target


def known_totals(data_folder: Path) -> TreeTotals:
    """Totals noted when the data set was made; the changes keep both as they are."""
    noted = json.loads(_marker(data_folder).read_text())
    return TreeTotals(noted["entries"], noted["file_bytes"])


def _change_empty(path: bytes, salt: bytes) -> None:
    folder, name = os.path.split(path)
    os.unlink(path)
    os.mknod(os.path.join(folder, name.split(b".")[0] + b"." + salt + b".eml"), 0o644)


def _change_content(path: bytes, size_bytes: int, dataset: Dataset, salt: bytes) -> None:
    generator = random.Random(salt + path)
    with open(path, "r+b", buffering=0) as file:
        if dataset.name == "media":
            remaining = size_bytes
            while remaining:
                remaining -= file.write(generator.randbytes(min(remaining, RANDOM_PIECE_BYTES)))
            return
        length = min(size_bytes, OVERWRITTEN_BYTES)
        file.seek((size_bytes - length) // 2)
        file.write(generator.randbytes((length + 1) // 2).hex().encode()[:length])


def _generation(data_folder: Path) -> int:
    """How often it was changed since it was made."""
    return int(json.loads(_marker(data_folder).read_text()).get("generation", 0))


def _next_generation(data_folder: Path) -> int:
    """A number never used before for this folder, so that every change is a change."""
    noted = json.loads(_marker(data_folder).read_text())
    noted["generation"] = _generation(data_folder) + 1
    _marker(data_folder).write_text(json.dumps(noted))
    return int(noted["generation"])


def change_one_percent(dataset: Dataset, data_folder: Path) -> int:
    """Change one percent of the files, others each time; returns how many.

    Counts and sizes stay as they are: content is overwritten in place (whole recordings in
    `media`, 4 KiB in the middle elsewhere), and an empty file of `empty` gives way to one of
    another name.
    """
    salt = b"change-%d" % _next_generation(data_folder)
    files = [
        (entry.path, entry.stat(follow_symlinks=False).st_size)
        for entry in walk_entries(os.fsencode(data_folder))
        if entry.is_file(follow_symlinks=False)
    ]
    chosen = [item for item in files if share_of(item[0], salt) < CHANGED_SHARE]
    if not chosen:
        chosen = [min(files, key=lambda item: share_of(item[0], salt))]
    for path, size_bytes in chosen:
        if dataset.name == "empty":
            _change_empty(path, salt)
        elif size_bytes:
            _change_content(path, size_bytes, dataset, salt)
    return len(chosen)
