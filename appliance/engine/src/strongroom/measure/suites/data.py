"""Data of the suites: what the texts measured with, as far as this machine has it.

`multimedia` is noise in files of many sizes, for recordings do not shrink. `sources` are the
kernel's where the package linux-source is installed, else source files of /usr. `root` are files of
/usr. A part of either is chosen by a digest of each path.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from strongroom import clock
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEDIA_FILES: Final = 150
MEDIA_BYTES: Final = 2_500_000_000
ROOT_BYTES: Final = 2_500_000_000
SOURCE_BYTES: Final = 1_300_000_000
_PIECE_BYTES: Final = 1 << 20
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
    """Noise, in files whose sizes spread over two orders of magnitude."""
    folder.mkdir(parents=True)
    weights = [10 ** (2 * number / MEDIA_FILES) for number in range(MEDIA_FILES)]
    for number, weight in enumerate(weights):
        left = max(1, int(MEDIA_BYTES * scale * weight / sum(weights)))
        with (folder / f"recording-{number:03}.mkv").open("wb") as file:
            while left:
                left -= file.write(clock.random_bytes(min(left, _PIECE_BYTES)))
    return _counted("multimedia", folder)


def make_sources(folder: Path, scale: float) -> Data:
    """Files of source code."""
    folder.mkdir(parents=True)
    place, pattern = _KERNEL
    archives = sorted(Path(place).glob(pattern))
    if archives:
        if scale >= 1:
            command = ["tar", "-xJf", str(archives[-1]), "-C", str(folder), "--no-same-owner"]
            subprocess.run(command, check=True)
        else:
            _unpack_part(archives[-1], folder, scale)
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
    ordered = sorted(paths, key=lambda path: _digest(os.fsencode(path)))
    left = size_bytes
    for path in ordered:
        left -= path.stat().st_size
        if left < 0:
            break
        target = folder / path.relative_to(_FROM)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copy2(path, target)
        except OSError as error:
            raise UsageError(f"nothing can be measured: {path}: {error.strerror}") from error


def _unpack_part(archive: Path, folder: Path, share: float) -> None:
    """A share of the files of an archive: those with the least digests."""
    limit = int(share * (1 << 64)).to_bytes(9, "big")[-8:]
    with tarfile.open(archive, "r|xz") as packed:
        for member in packed:
            if not member.isfile() or _digest(os.fsencode(member.name))[:8] >= limit:
                continue
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            content = packed.extractfile(member)
            assert content is not None
            with content, target.open("wb") as file:
                shutil.copyfileobj(content, file)
            os.utime(target, (member.mtime, member.mtime))


def _digest(path: bytes) -> bytes:
    return hashlib.blake2b(path).digest()


def _counted(kind: str, folder: Path) -> Data:
    files = size_bytes = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            files += 1
            size_bytes += os.lstat(os.path.join(parent, name)).st_size
    return Data(kind, folder, files, size_bytes)
