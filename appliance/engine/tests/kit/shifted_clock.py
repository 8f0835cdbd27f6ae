"""The clocks of a process and of all that it starts, moved by a test while they run.

A small library is put before the C library (LD_PRELOAD), so the engine, Python and OpenSSL (which
judges when certificates begin and end) see the same wrong time. A ShiftedClock is set, as by an
operator. With a LeapingClock time has gone by: sleeps and timeouts end with it.
"""

from __future__ import annotations

import atexit
import shutil
import struct
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

_SOURCE = Path(__file__).with_name("shifted_clock.c")
_SECOND_NS = 1_000_000_000
DAY_SECONDS = 86400
# Names in the environment the file that says how wrong a clock is.
CLOCK_FILE = "SHIFTED_CLOCK_FILE"


def can_shift_clocks() -> bool:
    """Whether there is a compiler for the library."""
    return shutil.which("cc") is not None


@cache
def _library() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="shifted-clock-"))
    atexit.register(shutil.rmtree, folder)
    library = folder / "shifted_clock.so"
    command = ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(library), str(_SOURCE), "-ldl"], check=True)
    return library


class ShiftedClock:
    """A clock whose error is in a file of `folder`; right until `set` says otherwise."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = folder / f"{name}.clock"
        self._slept_seconds = 0.0
        self.set(0)
        self.environment = {
            "LD_PRELOAD": str(_library()),
            CLOCK_FILE: str(self._file),
        }

    def set(self, ahead_seconds: float) -> None:
        """From now on the clock is so much ahead of the machine's; below 0 it is behind."""
        self._write(ahead_seconds, 0, self._slept_seconds)

    def sleep(self, seconds: float) -> None:
        """The machine sleeps for so long; its clock is right when it wakes."""
        self._slept_seconds += seconds
        self._write(self._slept_seconds, 0, self._slept_seconds)

    def _write(self, *seconds: float) -> None:
        numbers = [int(one * _SECOND_NS) for one in seconds]
        data = struct.pack(f"={len(numbers)}q", *numbers)
        # The file is mapped by those who read it, so it must stay the same file.
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(data)


class LeapingClock(ShiftedClock):
    """A clock that goes ahead when a test says so, for all processes with its environment."""

    def __init__(self, folder: Path, name: str) -> None:
        self.ahead_seconds = 0.0
        super().__init__(folder, name)

    def set(self, ahead_seconds: float) -> None:
        """From now on so much more time has gone by than on the machine's clocks."""
        self.ahead_seconds = ahead_seconds
        self._write(ahead_seconds, ahead_seconds)

    def leap(self, seconds: float) -> None:
        """Let time go by."""
        self.set(self.ahead_seconds + seconds)

    @property
    def now(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return time.time() + self.ahead_seconds
