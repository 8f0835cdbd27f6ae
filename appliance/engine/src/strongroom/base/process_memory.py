"""The memory of our processes: who may read it, and how much of it one may have.

Keys are in it, so no one of the same user may read it, nor a core dump. The kernel then refuses
ptrace and /proc/PID/mem to everybody but root, and writes no core. Forked processes inherit that; a
process that executes another program must ask for itself. What belongs to the process in /proc
belongs to root from then on; a process still reads its own /proc/self/fd.
"""

from __future__ import annotations

import ctypes
import os
import resource
from typing import Final

from strongroom.base.errors import OperatingSystemError

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
# With a quarter of it the coordinator of a backup takes a third more processor time: arrays of the
# size of a page of the listing come and go all the time.
_LARGE_BYTES: Final = 4 << 20
# As glibc has it for a threshold that it found itself: else all that is freed at the end of the
# heap goes back at once, to be asked for again.
_KEPT_BYTES: Final = 2 * _LARGE_BYTES


def free_large_at_once() -> None:
    """Have the kernel take back pieces of 4 MiB or more when they are freed.

    As it is, glibc keeps what may come again, up to 32 MiB a piece (mallopt(3)). Without effect
    where the C library has no such setting.
    """
    setting = getattr(ctypes.CDLL(None), "mallopt", None)
    if setting is not None:
        setting(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        setting(_M_TRIM_THRESHOLD, _KEPT_BYTES)


_PR_SET_DUMPABLE: Final = 4
_LEAST_LIMIT_BYTES: Final = 1 << 30


def forbid_inspection() -> None:
    """Forbid it for this process from now on. Raises OperatingSystemError."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise OperatingSystemError(f"the kernel does not protect the memory of keys: {reason}")


def limit_memory() -> None:
    """Give this process, and each that it forks, at most three quarters of the machine's memory.

    What a peer or a client made may take any amount: then the job fails with MemoryError, instead
    of the machine running out of memory and the kernel ending a daemon. Never less than 1 GiB.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit_bytes = max(_LEAST_LIMIT_BYTES, physical * 3 // 4)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        limit_bytes = min(limit_bytes, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))
