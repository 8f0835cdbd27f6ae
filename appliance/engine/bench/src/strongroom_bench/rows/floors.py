"""The floors: the cost of the kernel's work alone, which no backup program can go below.

Each floor is its own command, measured like the contenders; the loops are in this file.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

READ_BYTES = 1 << 20


def scan(root: str) -> None:
    """Scandir and lstat of everything, nothing kept: the floor of an unchanged backup."""
    pending = [root]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)


def read(root: str) -> None:
    """The same, and every regular file opened, read and closed by a plain Python loop."""
    buffer = bytearray(READ_BYTES)
    pending = [root]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    descriptor = os.open(entry.path, os.O_RDONLY)
                    while os.readv(descriptor, [buffer]):
                        pass
                    os.close(descriptor)


LOOPS: dict[str, Callable[[str], None]] = {"scan": scan, "read": read}


def floor_commands(data: Path, restored: Path, archive: Path) -> dict[str, list[str]]:
    """Command lines of all floors: the loops above, cat to nothing, and cp -a for restore.

    Beside them, where there is zstd, what users know: tar and zstd, to `archive` and back.
    """
    loop = [sys.executable, "-I", str(Path(__file__)), "--"]
    cat = 'find "$1" -type f -print0 | xargs -0 --no-run-if-empty cat >/dev/null'
    floors = {
        "scan": [*loop, "scan", str(data)],
        "read": [*loop, "read", str(data)],
        "cat": ["sh", "-c", cat, "sh", str(data)],
        "copy": ["cp", "-a", str(data), str(restored)],
    }
    if shutil.which("zstd"):
        pack = 'tar -C "$1" -cf - . | zstd -1 -T0 -q -f -o "$2"'
        unpack = 'mkdir "$1" && tar -C "$1" --zstd -xpf "$2"'
        floors["tar"] = ["sh", "-ec", pack, "sh", str(data), str(archive)]
        floors["untar"] = ["sh", "-ec", unpack, "sh", str(restored), str(archive)]
    return floors


if __name__ == "__main__":
    LOOPS[sys.argv[2]](sys.argv[3])
