"""Counts what there is to back up, in a process that runs ahead of a first backup.

Nothing but the display of progress waits for it, so it is nice to the backup. It starts after three
seconds, so that short backups never notice it. It sends nothing: two words in shared memory hold
the sums, a third says that they are complete.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

from strongroom.jobs.backup.tree_count import TreeCount
from strongroom.printable import flush_standard_streams

if TYPE_CHECKING:
    from strongroom.filesets.exclusions import Selection
    from strongroom.filesets.rules import FileSetSelection
    from strongroom.jobs.backup.own_repository import OwnRepository

_PR_SET_PDEATHSIG: Final = 1
_START_SECONDS: Final = 3.0
# Where no processor is idle it gets a seventieth of one (sched(7)), enough for thousands of files a
# second; shards that wait for a disk leave it more.
_NICENESS: Final = 19
_FILES, _BYTES, _IS_DONE = range(3)


class CountAhead:
    """Fork it before there are threads, and before anything that the child should not inherit."""

    def __init__(
        self,
        paths: tuple[bytes, ...],
        selection: Selection | FileSetSelection | None,
        devices: frozenset[int] | None,
        own: OwnRepository | None,
    ) -> None:
        """`devices`: the file systems to enter; None: all. own: is not entered."""
        self._words = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
        self._count = TreeCount(paths, selection, devices, own=own)
        parent = os.getpid()
        flush_standard_streams()
        self._pid = os.fork()
        if not self._pid:
            self._be_child(parent)

    def totals(self) -> tuple[int, int] | None:
        """Files and bytes; None until everything is counted."""
        if not self._words[_IS_DONE]:
            return None
        return self._words[_FILES], self._words[_BYTES]

    def end(self) -> None:
        """End the process."""
        if self._pid:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def _be_child(self, parent: int) -> NoReturn:
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            gc.disable()
            os.nice(_NICENESS)
            time.sleep(_START_SECONDS)
            counted = self._count.run()
            self._words[_FILES] = counted.files
            self._words[_BYTES] = counted.size_bytes
            self._words[_IS_DONE] = 1
        except BaseException:  # noqa: BLE001 - the progress then shows no totals, which is all
            os._exit(1)
        finally:
            os._exit(0)
