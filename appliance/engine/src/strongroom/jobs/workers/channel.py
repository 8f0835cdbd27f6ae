"""Framed messages between a job's coordinator and its worker processes.

A message is a struct in msgpack with a length prefix of four bytes. The worker's end blocks; the
coordinator's never does: what does not fit the socket is buffered in memory until the socket is
writable again, so two processes that send to each other at once cannot deadlock.

Each end belongs to one thread, which needs no lock.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Received = TypeVar("_Received")

_LENGTH = struct.Struct("<I")
_RECEIVE_BYTES = 1 << 18

encode_message = msgspec.msgpack.Encoder().encode


class ChannelClosedError(Exception):
    """The peer process has ended."""


def channel_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets: the coordinator's end first, the worker's second."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    ours.setblocking(False)
    return ours, theirs


class _FrameReader(Generic[_Received]):
    """Cuts a byte stream into messages."""

    __slots__ = ("_buffer", "_decode")

    def __init__(self, decode: Callable[[memoryview], _Received]) -> None:
        self._buffer = bytearray()
        self._decode = decode

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def messages(self) -> Iterator[_Received]:
        buffer = self._buffer
        position = 0
        while len(buffer) - position >= 4:
            (size,) = _LENGTH.unpack_from(buffer, position)
            if len(buffer) - position - 4 < size:
                break
            yield self._decode(memoryview(buffer)[position + 4 : position + 4 + size])
            position += 4 + size
        if position:
            # A fresh buffer: the decoder may still hold views into the old one.
            self._buffer = bytearray(memoryview(buffer)[position:])


class WorkerChannel(Generic[_Received]):
    """The worker's end: blocking. `decode` takes a message of the coordinator."""

    def __init__(self, end: socket.socket, decode: Callable[[memoryview], _Received]) -> None:
        self._socket = end
        self._reader = _FrameReader(decode)
        self._received: deque[_Received] = deque()

    @property
    def has_received(self) -> bool:
        """Whether `receive` has something to return at once."""
        return bool(self._received)

    def fileno(self) -> int:
        """The descriptor to wait for, when nothing has been received yet."""
        return self._socket.fileno()

    def send(self, message: msgspec.Struct) -> None:
        """Send one message. Raises `ChannelClosedError`."""
        data = encode_message(message)
        try:
            self._socket.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise ChannelClosedError from error

    def receive(self) -> _Received:
        """Wait for the next message. Raises `ChannelClosedError`."""
        while not self._received:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except OSError as error:
                raise ChannelClosedError from error
            if not data:
                raise ChannelClosedError
            self._reader.feed(data)
            self._received.extend(self._reader.messages())
        return self._received.popleft()


class CoordinatorChannel(Generic[_Received]):
    """The coordinator's end: never blocks. `decode` takes a message of the worker."""

    def __init__(self, end: socket.socket, decode: Callable[[memoryview], _Received]) -> None:
        self.socket = end
        self._reader = _FrameReader(decode)
        self._outgoing: deque[memoryview] = deque()

    @property
    def has_outgoing(self) -> bool:
        """Whether something still waits for room in the socket."""
        return bool(self._outgoing)

    def send(self, message: msgspec.Struct) -> None:
        """Queue one message and send what fits."""
        data = encode_message(message)
        self._outgoing.append(memoryview(_LENGTH.pack(len(data)) + data))
        self.flush()

    def flush(self) -> None:
        """Send as much as the socket takes.

        Nothing is sent to a process that has ended; its last messages can still be received,
        and then `receive` raises.
        """
        while self._outgoing:
            data = self._outgoing[0]
            try:
                sent = self.socket.send(data)
            except BlockingIOError:
                return
            except OSError:
                self._outgoing.clear()
                return
            if sent == len(data):
                self._outgoing.popleft()
            else:
                self._outgoing[0] = data[sent:]

    def receive(self) -> list[_Received]:
        """Every whole message that has arrived. Raises `ChannelClosedError`."""
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise ChannelClosedError from error
        if not data:
            raise ChannelClosedError
        self._reader.feed(data)
        return list(self._reader.messages())
