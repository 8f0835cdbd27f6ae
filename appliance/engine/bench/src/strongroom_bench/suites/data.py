"""Data of the suites: what the texts measured with, as far as this machine has it.

`multimedia` and the kernel's `sources` are those of the rows of `make bench`, the latter where the
package linux-source is installed, else source files of /usr. `root` are files of /usr. A part of
either is chosen by a digest of each path.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from strongroom.base.errors import os_errors
from strongroom_bench.datasets import file_sizes, generate_media, share_of, unpack_sources

ROOT_BYTES: Final = 2_500_000_000
SOURCE_BYTES: Final = 1_300_000_000
_FROM: Final = "/usr"
_KERNEL: Final = ("/usr/src", "linux-source-*.tar.xz")
_SOURCES: Final = (
    ".c", ".h", ".cc", ".cpp", ".hpp", ".py", ".pl", ".pm", ".rb", ".js", ".sh", ".rs", ".go",
)  # fmt: skip


BAREOS_MACHINE: Final = (
    "the chapter on performance of its manual: Fedora 39 on an AMD Ryzen 7 PRO 7840U with 16 cores "
    "and 64 GB, data on an NVMe disk with xfs, volumes in memory; 6.4 GB of multimedia in 295 "
    "files, a root file system of 6.2 GB in 149,118, kernel sources of 1.5 GB in 87,084. Our "
    "multimedia is generated noise, which shrinks not at all; theirs shrank by 1%"
)


class Data(NamedTuple):
    """A folder, and what is in it."""

    kind: str
    folder: Path
    files: int
    size_bytes: int

    @property
    def words(self) -> str:
        """For a report."""
        return f"{self.kind}: {self.files:,} files, {self.size_bytes / 1e6:,.0f} MB"


def make_media(folder: Path, scale: float) -> Data:
    """Recordings, as in the row of `make bench`."""
    folder.mkdir(parents=True)
    generate_media(folder, scale)
    return _counted("multimedia", folder)


def make_sources(folder: Path, scale: float) -> Data:
    """Files of source code."""
    folder.mkdir(parents=True)
    place, pattern = _KERNEL
    archives = sorted(Path(place).glob(pattern))
    if archives:
        unpack_sources(archives[-1], folder, scale)
        return _counted("kernel sources", folder)
    wanted = [path for path in _files() if path.suffix in _SOURCES]
    _copy(wanted, folder, int(SOURCE_BYTES * scale))
    return _counted("source files of /usr", folder)


def make_root(folder: Path, scale: float) -> Data:
    """Files of a root file system."""
    folder.mkdir(parents=True)
    _copy(list(_files()), folder, int(ROOT_BYTES * scale))
    return _counted("files of /usr", folder)


MAKERS: Final[dict[str, Callable[[Path, float], Data]]] = {
    "multimedia": make_media, "root": make_root, "sources": make_sources,
}  # fmt: skip


def _files() -> Iterator[Path]:
    for parent, folders, names in os.walk(_FROM):
        folders.sort()
        for name in names:
            path = Path(parent) / name
            if path.is_file() and not path.is_symlink():
                yield path


def _copy(paths: list[Path], folder: Path, size_bytes: int) -> None:
    """Those with the least digests, up to so many bytes, each below its own folder."""
    ordered = sorted(paths, key=lambda path: share_of(os.fsencode(path), b"root"))
    left = size_bytes
    for path in ordered:
        left -= path.stat().st_size
        if left < 0:
            break
        target = folder / path.relative_to(_FROM)
        target.parent.mkdir(parents=True, exist_ok=True)
        with os_errors(f"nothing can be measured: {path}"):
            shutil.copy2(path, target)


def _counted(kind: str, folder: Path) -> Data:
    sizes = file_sizes(folder)
    return Data(kind, folder, len(sizes), sum(sizes))
