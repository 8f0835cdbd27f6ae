"""Appends to a file past the page cache, so that a backup does not evict other data from it.

Bytes are gathered in aligned buffers; a thread writes a full one with O_DIRECT while the next is
filled: one of its own, or of anyone who gives `submit`. The unaligned rest, and everything on a
file system without O_DIRECT, is written with ordinary writes. Copying packs through the page cache
costs more processor time than compressing them where memory is scarce.

One thread calls all public methods; the writing thread touches only the buffer it was handed, and
the two synchronize at `_wait`.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from typing_extensions import Buffer

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Submit: TypeAlias = Callable[[Callable[[], None]], "Future[None]"]

BUFFER_BYTES: Final = 2 << 20


class DirectFile:
    """An append-only view of an open descriptor, whose owner closes it."""

    def __init__(
        self, descriptor: int, buffer_bytes: int = BUFFER_BYTES, submit: Submit | None = None
    ) -> None:
        """`buffer_bytes`, a multiple of a page, is written at once; two such buffers are held."""
        self._descriptor = descriptor
        self._buffer_bytes = buffer_bytes
        # Anonymous memory is aligned to pages, and its pages cost nothing until they are touched.
        self._buffers = [mmap.mmap(-1, buffer_bytes) for _ in range(2)]
        self._turn = 0
        self._filled = 0
        self._is_direct: bool | None = None
        self._submit = submit
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[None] | None = None

    def write(self, data: Buffer) -> None:
        """Append `data`, which may be reused afterwards. Raises OSError, also of earlier writes."""
        view = memoryview(data).cast("B")
        while len(view):
            room = self.room(len(view))
            room[:] = view[: len(room)]
            self.advance(len(room))
            view = view[len(room) :]

    def room(self, most_bytes: int) -> memoryview:
        """A view to fill with the next bytes, at least one long; call `advance` afterwards."""
        end = min(self._filled + most_bytes, self._buffer_bytes)
        return memoryview(self._buffers[self._turn])[self._filled : end]

    def advance(self, count: int) -> None:
        """Append the first `count` bytes of the latest `room`. Raises OSError as `write` does."""
        self._filled += count
        if self._filled == self._buffer_bytes:
            self._hand_over()

    def flush(self) -> None:
        """Write the rest; the file then has every byte appended. Raises OSError."""
        self._wait()
        if self._filled:
            self._set_direct(wanted=False)
            self._write_all(memoryview(self._buffers[self._turn])[: self._filled])
            self._filled = 0

    def drop(self) -> None:
        """Release buffers and thread, dropping unwritten bytes; may be called again."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None
        if self._writing is not None:
            from concurrent.futures import wait

            # It uses a buffer, and the descriptor that the caller closes next.
            wait((self._writing,))
            self._writing = None
        self._buffers = []

    def _hand_over(self) -> None:
        self._wait()
        if self._is_direct is None:
            self._set_direct(wanted=True)
        view = memoryview(self._buffers[self._turn])
        if self._submit is not None:
            self._writing = self._submit(partial(self._write_all, view))
        else:
            if self._thread is None:
                # Loading it takes longer than most commands write.
                from concurrent.futures import ThreadPoolExecutor

                self._thread = ThreadPoolExecutor(1, "pack writer")
            self._writing = self._thread.submit(self._write_all, view)
        self._turn ^= 1
        self._filled = 0

    def _wait(self) -> None:
        if self._writing is not None:
            writing, self._writing = self._writing, None
            writing.result()

    def _write_all(self, view: memoryview) -> None:
        with view:
            written = 0
            while written < len(view):
                try:
                    written += os.write(self._descriptor, view[written:])
                except OSError as error:
                    # Some file systems accept the flag and refuse the write; a short write leaves
                    # an unaligned end.
                    if error.errno != errno.EINVAL or not self._is_direct:
                        raise
                    self._set_direct(wanted=False)

    def _set_direct(self, *, wanted: bool) -> None:
        if not wanted and not self._is_direct:
            return
        flags = fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
        flags = flags | os.O_DIRECT if wanted else flags & ~os.O_DIRECT
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._is_direct = False
        else:
            self._is_direct = wanted
