"""A file system of its own for each restore, made anew.

ext4 avoids inodes that were deleted in the last minutes, so on a used one a restore of many files
is several times as slow as on a machine that was lost, and slower the later its turn.

Its device writes past the page cache, as a disk does. Without that every page would be in memory
twice, and a restore of many bytes would be measured with the kernel's search for memory.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOM_BYTES = 1 << 30
_BYTES_AN_ENTRY = 8192
_SPARE_INODES = 10_000


@contextmanager
def fresh_file_system(place: Path, entries: int, file_bytes: int) -> Iterator[bool]:
    """An empty ext4 at `place`, with room for a tree of that size; gone afterwards.

    Gives False where this user cannot mount: then `place` is a folder like any other.
    """
    image = place.with_name(place.name + ".ext4")
    place.mkdir()
    mounted = False
    try:
        with image.open("wb") as file:
            file.truncate(_ROOM_BYTES + 2 * file_bytes + entries * _BYTES_AN_ENTRY)
        inodes = str(entries + _SPARE_INODES)
        made = _output("mkfs.ext4", "-q", "-F", "-N", inodes, str(image))
        mounted = made is not None and _mounted(image, place)
        yield mounted
    finally:
        let_go(place)
        subprocess.run(["rm", "-rf", "--", place, image], check=True)


def let_go(place: Path) -> None:
    """Unmount what a killed run left at `place`, if anything; it cannot be removed before."""
    if place.is_mount():
        subprocess.run(["umount", place], check=True)


def _mounted(image: Path, place: Path) -> bool:
    device = _output("losetup", "--find", "--show", "--direct-io=on", str(image))
    if device is None:
        return _output("mount", "-o", "loop", str(image), str(place)) is not None
    try:
        return _output("mount", device, str(place)) is not None
    finally:
        # As soon as nothing uses it, which is when the file system is unmounted.
        _output("losetup", "--detach", device)


def _output(*command: str) -> str | None:
    """What a command printed; None if it failed or is not there."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return None if done.returncode else done.stdout.strip()
