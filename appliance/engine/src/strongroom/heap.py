"""How the C library keeps memory that was freed."""

from __future__ import annotations

import ctypes
from typing import Final

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
