"""What a folder that is to be backed up costs: stat rate, attributes, opening, reading.

The walks are bare loops of listing and lstat: what no program can be faster than with one thread.
Beside each stands what the kernel read meanwhile: entries for each read are what a file system's
metadata is worth (inodes next to each other come with one read).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeVar

from strongroom.base import clock
from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.cli.measure.disk import file_system_of
from strongroom.cli.measure.profile import AttributeKind, Attributes, Tree, Walk
from strongroom.engine.content.codecs import Compressor, parse_compression

SMALL_BYTES: Final = 16 << 10
SAMPLED_FILES: Final = 4096
GREATEST_READ_BYTES: Final = 1 << 30
# Of the content that is compressed: of each file at most the size of a block.
SAMPLE_BYTES: Final = 32 << 20
CODEC: Final = "zstd1"
# Of the attributes that exist: so many values of ACLs, and of all others.
MOST_VALUES: Final = 4096

_Thing = TypeVar("_Thing")
_READ_BYTES: Final = 1 << 20
_SECTOR_BYTES: Final = 512
_ACL_PREFIX: Final = "system.posix_acl_"
_DROP: Final = Path("/proc/sys/vm/drop_caches")
# Each round goes over the whole sample; the fastest counts, as the least disturbed.
_ROUNDS: Final = 3


class _Content(NamedTuple):
    """What reading found; `sample`: the first block of files."""

    bytes_per_second: float
    is_cold: bool
    sample: list[bytes]


class _Counts:
    """What one walk found."""

    def __init__(self) -> None:
        self.files = 0
        self.directories = 0
        self.size_bytes = 0
        self.largest_bytes = 0
        self.paths: list[str] = []
        self.folders: list[str] = []
        self.unreadable = 0


def measure_tree(
    folder: str, seconds: float, *, cold: bool, tell: Callable[[str], None]
) -> tuple[Tree, list[str]]:
    """Walk a folder and read some of it, for `seconds` of reading; notes on what went wrong.

    `cold`: empty the kernel's caches before the first walk, which slows down the whole machine for
    a while. Raises UsageError when the folder cannot be listed, or the caches cannot be emptied.
    """
    if not os.path.isdir(folder):
        raise UsageError(f"{folder} is not a folder")
    notes = []
    walks = []
    if cold:
        drop_caches()
    states: tuple[Literal["cold", "first", "warm"], ...] = ("cold" if cold else "first", "warm")
    counts = _Counts()
    for state in states:
        tell(f"walking {folder}, {state}")
        counts, walk = _walk(folder, state)
        walks.append(walk)
    if counts.unreadable:
        notes.append(
            f"{counted(counts.unreadable, 'folder')} could not be listed, and are left out"
        )
    tell("attributes and ACLs")
    attributes = _attributes(folder, _every_nth(counts.folders + counts.paths, SAMPLED_FILES))
    tell("small files")
    sampled = _every_nth(counts.paths, SAMPLED_FILES)
    small = [path for path in sampled if _is_small(path)]
    tell("content")
    read = _read(sampled, seconds)
    tell("compression")
    ratio, codec_rate = _compression(read.sample)
    tree = Tree(
        printable(os.path.abspath(folder)),
        counts.files,
        counts.directories,
        counts.size_bytes,
        counts.largest_bytes,
        tuple(walks),
        _attributes_us(attributes),
        _cost_us(small, _open_and_read),
        len(small),
        read.bytes_per_second,
        read.is_cold,
        ratio,
        codec_rate,
        attributes,
        _reads_uncounted(folder) if walks[0].read_ios is None else "",
    )
    return tree, notes


def require_drop() -> None:
    """Raise UsageError where `drop_caches` has no right to."""
    try:
        with _DROP.open("ab"):
            return
    except OSError as error:
        raise _cannot_drop(error) from error


def drop_caches() -> None:
    """Empty the kernel's caches of files. Raises UsageError without the right to."""
    os.sync()
    try:
        _DROP.write_text("3\n")
    except OSError as error:
        raise _cannot_drop(error) from error


def _cannot_drop(error: OSError) -> UsageError:
    return UsageError(
        f"the caches cannot be emptied ({error.strerror}): measure as root, outside of a "
        "container, or without --cold"
    )


def _walk(folder: str, state: Literal["cold", "first", "warm"]) -> tuple[_Counts, Walk]:
    counts = _Counts()
    device = os.stat(folder).st_dev
    before = _device_reads(device)
    started, computed = clock.elapsed_seconds(), clock.thread_seconds()
    pending = [folder]
    while pending:
        folder = pending.pop()
        try:
            entries = os.scandir(folder)
        except OSError:
            counts.unreadable += 1
            continue
        counts.directories += 1
        counts.folders.append(folder)
        with entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    # Of other file systems the counter of this device says nothing.
                    if found.st_dev == device:
                        pending.append(entry.path)
                    continue
                counts.files += 1
                if stat.S_ISREG(found.st_mode):
                    counts.paths.append(entry.path)
                    counts.size_bytes += found.st_size
                    counts.largest_bytes = max(counts.largest_bytes, found.st_size)
    elapsed, computed = clock.elapsed_seconds() - started, clock.thread_seconds() - computed
    after = _device_reads(device)
    ios = read_bytes = None
    if before is not None and after is not None:
        ios, read_bytes = after[0] - before[0], after[1] - before[1]
    total = counts.files + counts.directories
    return counts, Walk(state, total, elapsed, ios, read_bytes, computed)


def _device_reads(device: int) -> tuple[int, int] | None:
    """Reads completed and bytes read of a block device since boot (Documentation/block/stat)."""
    try:
        fields = _counter(device).read_text().split()
    except OSError:
        return None
    return int(fields[0]), int(fields[2]) * _SECTOR_BYTES


def _counter(device: int) -> Path:
    return Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")


def _reads_uncounted(folder: str) -> str:
    """Why `_device_reads` knows nothing of a folder's file system."""
    device = os.stat(folder).st_dev
    if os.major(device):
        return f"the kernel's counter of reads, {_counter(device)}, cannot be read here"
    name = file_system_of(folder) or "this file system"
    return f"the kernel counts reads by block device, and {name} has none of its own"


def _every_nth(found: list[_Thing], most: int) -> list[_Thing]:
    return found[:: max(1, -(-len(found) // most))]


def _is_small(path: str) -> bool:
    try:
        return 0 < os.lstat(path).st_size <= SMALL_BYTES
    except OSError:
        return False


def _cost_us(things: list[_Thing], work: Callable[[_Thing], object]) -> float:
    """Microseconds of `work` for each path or attribute, warm: the fastest of some rounds."""
    if not things:
        return 0.0
    best = float("inf")
    for _ in range(_ROUNDS):
        started = clock.elapsed_seconds()
        for thing in things:
            work(thing)
        best = min(best, clock.elapsed_seconds() - started)
    return best / len(things) * 1e6


def _attributes(folder: str, paths: list[str]) -> Attributes:
    """What it takes to list and read the attributes of files and folders, warm."""
    none = AttributeKind(0, 0, 0.0)
    if not _has_attributes(folder):
        return Attributes(len(paths), False, 0.0, none, none)
    list_us = _cost_us(paths, _attribute_names)
    acls: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for path in paths:
        for name in _attribute_names(path):
            kind = acls if name.startswith(_ACL_PREFIX) else others
            kind.setdefault(path, []).append(name)
    return Attributes(len(paths), True, list_us, _kind(acls), _kind(others))


def _kind(found: dict[str, list[str]]) -> AttributeKind:
    values = [(path, name) for path, names in found.items() for name in names]
    read_us = _cost_us(_every_nth(values, MOST_VALUES), _read_attribute)
    return AttributeKind(len(found), len(values), read_us)


def _attributes_us(found: Attributes) -> float:
    """What listing and reading takes for an entry, those without any included."""
    reading = sum(kind.values * kind.read_us for kind in (found.acls, found.others))
    return found.list_us + (reading / found.sampled if found.sampled else 0.0)


def _has_attributes(folder: str) -> bool:
    try:
        os.listxattr(folder)
    except OSError as error:
        return error.errno not in (errno.ENOTSUP, errno.ENOSYS)
    return True


def _attribute_names(path: str) -> list[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError:
        return []


def _read_attribute(of: tuple[str, str]) -> None:
    path, name = of
    try:
        os.getxattr(path, name, follow_symlinks=False)
    except OSError:
        return


def _open_and_read(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fstat(descriptor)
        os.read(descriptor, SMALL_BYTES)
    finally:
        os.close(descriptor)


def _read(paths: list[str], seconds: float) -> _Content:
    """Read files one after the other, past the caches if the kernel lets us."""
    buffer = bytearray(_READ_BYTES)
    total = 0
    elapsed = 0.0
    is_cold = bool(paths)
    sample: list[bytes] = []
    sampled_bytes = 0
    for path in paths:
        if elapsed >= seconds or total >= GREATEST_READ_BYTES:
            break
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            started = clock.elapsed_seconds()
            got = os.readv(descriptor, [buffer])
            if sampled_bytes < SAMPLE_BYTES:
                sample.append(bytes(memoryview(buffer)[:got]))
                sampled_bytes += got
            while got and total < GREATEST_READ_BYTES:
                total += got
                got = os.readv(descriptor, [buffer])
            elapsed += clock.elapsed_seconds() - started
        except OSError:
            is_cold = False
        finally:
            os.close(descriptor)
    return _Content(total / elapsed if elapsed else 0.0, is_cold, sample)


def _compression(sample: list[bytes]) -> tuple[float, float]:
    """Ratio and input bytes a second of what a block would hold: small files, joined."""
    joined = b"".join(sample)
    if not joined:
        return 1.0, 0.0
    compressor = Compressor(parse_compression(CODEC))
    stored = 0
    started = clock.elapsed_seconds()
    for at in range(0, len(joined), _READ_BYTES):
        stored += memoryview(compressor.compress(joined[at : at + _READ_BYTES])[1]).nbytes
    elapsed = clock.elapsed_seconds() - started
    return len(joined) / stored, len(joined) / elapsed
