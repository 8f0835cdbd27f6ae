"""The memory of our processes: who may read it, and how much of it one may have.

Keys are in it, so nobody of the same user may read it, nor a core dump. The kernel then refuses
ptrace and /proc/PID/mem to everybody but root, and writes no core. Forked processes inherit that; a
process that executes another program must ask for itself. What belongs to the process in /proc
belongs to root from then on; a process still reads its own /proc/self/fd.
"""

from __future__ import annotations

import ctypes
import os
import resource
from typing import Final

from strongroom.errors import OperatingSystemError

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
