"""The wall clock of a process and of all that it starts, moved by a test while they run.

A small library is put before the C library (LD_PRELOAD), so the engine, Python and OpenSSL (which
judges when certificates begin and end) see the same wrong time.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("shifted_clock.c")
_SECOND_NS = 1_000_000_000
DAY_SECONDS = 86400


def can_shift_clocks() -> bool:
    """Whether there is a compiler for the library."""
    return shutil.which("cc") is not None


class ShiftedClock:
    """A clock whose error stands in a file of `folder`; right until `set` says otherwise."""

    def __init__(self, folder: Path, name: str) -> None:
        library = folder / "shifted_clock.so"
        if not library.exists():
            command = ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
            subprocess.run([*command, "-o", str(library), str(_SOURCE)], check=True)
        self._file = folder / f"{name}.clock"
        self.set(0)
        self.environment = {
            "LD_PRELOAD": str(library),
            "SHIFTED_CLOCK_FILE": str(self._file),
        }

    def set(self, ahead_seconds: float) -> None:
        """From now on the clock is so much ahead of the machine's; below 0 it is behind."""
        data = struct.pack("=q", int(ahead_seconds * _SECOND_NS))
        # The file is mapped by those who read it, so it must stay the same file.
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(data)
