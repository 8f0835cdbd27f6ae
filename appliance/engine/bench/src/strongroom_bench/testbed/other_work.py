"""How much of the machine other programs took while something was measured.

From the kernel's count of busy time, less what this process and its children took, and less what
the kernel's own threads took, which write back what was measured. A measured child counts when it
has been waited for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from strongroom.base import clock

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
# Documentation/filesystems/proc: user, nice, system of `cpu`, then idle, iowait, irq, softirq; time
# that another virtual machine took follows.
_BUSY_FIELDS: Final = (1, 2, 3, 8)
_KERNEL_THREAD: Final = 0x00200000
_FLAGS, _USER, _SYSTEM = 6, 11, 12


class OtherWork:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._began = clock.elapsed_seconds()
        self._busy = _busy_seconds()
        self._own = _own_seconds()
        self._kernel = _kernel_seconds()

    def cores(self) -> float:
        """The cores that others used since, on average."""
        elapsed = clock.elapsed_seconds() - self._began
        # A kernel thread that ended is missed: its time counts as that of others.
        kernel = sum(
            seconds - self._kernel.get(pid, 0.0) for pid, seconds in _kernel_seconds().items()
        )
        others = _busy_seconds() - self._busy - (_own_seconds() - self._own) - kernel
        return max(0.0, others / elapsed) if elapsed else 0.0


def _busy_seconds() -> float:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()
    return sum(int(fields[number]) for number in _BUSY_FIELDS) / _TICKS_PER_SECOND


def _own_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _kernel_seconds() -> dict[int, float]:
    """Of each thread of the kernel."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[_FLAGS]) & _KERNEL_THREAD:
            found[int(name)] = (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_PER_SECOND
    return found
