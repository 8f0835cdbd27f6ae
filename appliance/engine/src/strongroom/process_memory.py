"""Keys are in the memory of our processes: nobody of the same user may read it, nor a core dump.

The kernel then refuses ptrace and /proc/PID/mem to everybody but root, and writes no core. Forked
processes inherit that; a process that executes another program must ask for itself. What belongs to
the process in /proc belongs to root from then on; a process still reads its own /proc/self/fd.
"""

from __future__ import annotations

import ctypes
import os
import resource
from typing import Final

from strongroom.errors import OperatingSystemError

_PR_SET_DUMPABLE: Final = 4


def forbid_inspection() -> None:
    """Forbid it for this process from now on. Raises OperatingSystemError."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise OperatingSystemError(f"the kernel does not protect the memory of keys: {reason}")
