"""Bytes on a blocking socket, not protected in any way: what the modes "local" and "off" run on.

Timeouts are the kernel's (SO_RCVTIMEO), so waiting costs no system call of its own, and a whole
buffer is filled by one call where the bytes are there.
"""

from __future__ import annotations

import os
import select
import socket
from typing import TYPE_CHECKING

from strongroom.errors import ConnectionLostError
from strongroom.net.channel import set_kernel_timeout

if TYPE_CHECKING:
    from collections.abc import Sequence

# What the kernel takes in one sendmsg.
_GREATEST_PARTS = 1024


class PlainStream:
    """One thread may send while another receives; they share nothing."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)
        set_kernel_timeout(connection, None)

    def send(self, parts: Sequence[memoryview]) -> None:
        """Send all of `parts` (views of bytes)."""
        left = [part for part in parts if len(part)]
        try:
            while left:
                sent = self.socket.sendmsg(left[:_GREATEST_PARTS])
                left = _after(left, sent)
        except OSError as error:
            raise lost(error) from error

    def send_file(self, descriptor: int, offset: int, length: int) -> None:
        """Let the kernel send a part of a file."""
        while length:
            try:
                sent = os.sendfile(self.socket.fileno(), descriptor, offset, length)
            except OSError as error:
                raise lost(error) from error
            if not sent:
                raise ConnectionLostError("a file that was being sent became shorter")
            offset += sent
            length -= sent

    def fill(self, view: memoryview) -> None:
        """Fill `view`; ConnectionLostError, clean if the end came before the first byte."""
        filled = 0
        while filled < len(view):
            try:
                count = self.socket.recv_into(view[filled:], 0, socket.MSG_WAITALL)
            except OSError as error:
                raise lost(error) from error
            if not count:
                raise ended(clean=not filled)
            filled += count

    def wait_readable(self, timeout_seconds: float) -> bool:
        """Whether bytes, or the end, come within the time."""
        return bool(self._readable.poll(max(0.0, timeout_seconds) * 1000))


def ended(*, clean: bool) -> ConnectionLostError:
    """The error for an end of the stream."""
    if clean:
        return ConnectionLostError("the other side ended the connection", clean=True)
    return ConnectionLostError("the connection broke in the middle of a message")


def lost(error: OSError) -> ConnectionLostError:
    """The error for a failed system call on a connection."""
    if isinstance(error, (BlockingIOError, TimeoutError)):
        return ConnectionLostError("the connection stalled: nothing moved within the time allowed")
    return ConnectionLostError(f"the connection broke ({error.strerror or error})")


def byte_view(part: object) -> memoryview:
    """Any buffer as a view of its bytes."""
    view = memoryview(part)  # type: ignore[arg-type]
    return view if view.format == "B" and view.ndim == 1 and view.contiguous else view.cast("B")


def _after(parts: list[memoryview], sent: int) -> list[memoryview]:
    """What is left of `parts` when `sent` bytes of them have gone."""
    for number, part in enumerate(parts):
        if sent < len(part):
            return [part[sent:], *parts[number + 1 :]]
        sent -= len(part)
    return []
