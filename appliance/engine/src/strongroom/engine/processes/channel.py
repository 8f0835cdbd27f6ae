"""Framed messages between a job's coordinator and its child processes.

A message is a struct in msgpack with a length prefix of four bytes. The child's end blocks; the
coordinator's never does: what does not fit the socket is buffered in memory until the socket is
writable again, so two processes that send to each other at once cannot deadlock.

Either end can post a message, which goes out with the next one that is sent, in one system call and
for one awakening of the other process. A child sends what it posted before it waits.

Each end belongs to one thread, which needs no lock.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from strongroom.base import errors

# Messages between coordinators and children of every kind of job.
#
# Messages are tagged structs in msgpack arrays: a tag, then the fields in order. Both ends are
# forks of one process, so the format is internal and may change with any release. Each kind of job
# has its own messages beside these: `backup.shards.messages`, `restore.messages` and
# `verify.child`. Structs cost what untyped lists would: all messages of a directory of 30 rows
# that changed take 1.4 microseconds of CPU, within a tenth of one.


class ProcessMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all messages and of what they consist of."""


class Failed(ProcessMessage, frozen=True, tag="failed"):
    """The job failed in a child; the job is over."""

    error_id: str
    exit_code: int
    text: str


class RowsEntry(ProcessMessage, frozen=True):
    """Rows of one directory, as `encode_rows` has them, without the ones whose numbers are skipped.

    is_new: the directory was made by this job, so it holds nothing yet.
    """

    place: bytes
    is_new: bool
    skipped: list[int]
    rows: bytes


def failure(error: errors.StrongroomError) -> Failed:
    """The message for an error."""
    return Failed(error.error_id, error.exit_code, str(error))


def error_of(failed: Failed) -> errors.StrongroomError:
    """The error that a child failed with, as its original class."""
    return errors.error_named(failed.error_id, failed.text, exit_code=failed.exit_code)


_Received = TypeVar("_Received")

_LENGTH = struct.Struct("<I")
_LENGTH_BYTES = _LENGTH.size
_RECEIVE_BYTES = 1 << 18
# What a child has posted is sent when it is more than this.
_POSTED_BYTES = 1 << 16

encode_message = msgspec.msgpack.Encoder().encode


class ChannelClosedError(Exception):
    """The peer process has ended."""


def channel_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets: the coordinator's end first, the child's second."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    ours.setblocking(False)
    return ours, theirs


class _FrameReader(Generic[_Received]):
    """Cuts a byte stream into messages."""

    __slots__ = ("_decode", "_rest")

    def __init__(self, decode: Callable[[memoryview], _Received]) -> None:
        self._rest = bytearray()
        self._decode = decode

    def messages(self, data: bytes) -> list[_Received]:
        """Those that are whole now that `data` has come."""
        whole: bytes | bytearray = data
        if self._rest:
            self._rest += data
            whole = self._rest
        view = memoryview(whole)
        end = len(whole)
        messages: list[_Received] = []
        position = 0
        while end - position >= _LENGTH_BYTES:
            # Not bounded: the peer is a fork of ours, and what it read of a store or of a file
            # system it has bounded itself.
            (size,) = _LENGTH.unpack_from(whole, position)
            after = position + _LENGTH_BYTES + size
            if after > end:
                break
            messages.append(self._decode(view[position + _LENGTH_BYTES : after]))
            position = after
        if position or whole is data:
            # A fresh buffer: the decoder may still hold views into the old one.
            self._rest = bytearray(view[position:])
        return messages


class ChildChannel(Generic[_Received]):
    """The child's end: blocking. `decode` takes a message of the coordinator."""

    def __init__(self, end: socket.socket, decode: Callable[[memoryview], _Received]) -> None:
        self._socket = end
        self._reader = _FrameReader(decode)
        self._received: deque[_Received] = deque()
        self._posted = bytearray()

    def fileno(self) -> int:
        """The descriptor to wait for, when nothing has been received yet."""
        return self._socket.fileno()

    def post(self, message: msgspec.Struct) -> None:
        """Send one message with those to come. Raises `ChannelClosedError`."""
        data = encode_message(message)
        self._posted += _LENGTH.pack(len(data))
        self._posted += data
        if len(self._posted) > _POSTED_BYTES:
            self.flush()

    def send(self, message: msgspec.Struct) -> None:
        """Send what was posted, and one message. Raises `ChannelClosedError`."""
        self.post(message)
        self.flush()

    def flush(self) -> None:
        """Send what was posted. Raises `ChannelClosedError`."""
        if not self._posted:
            return
        posted, self._posted = self._posted, bytearray()
        try:
            self._socket.sendall(posted)
        except OSError as error:
            raise ChannelClosedError from error

    def receive(self) -> _Received:
        """Wait for the next message. Raises `ChannelClosedError`."""
        self._wait()
        return self._received.popleft()

    def receive_all(self) -> list[_Received]:
        """Wait for the next message; every one that has come. Raises `ChannelClosedError`."""
        self._wait()
        received = list(self._received)
        self._received.clear()
        return received

    def _wait(self) -> None:
        if not self._received:
            self.flush()
        while not self._received:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except OSError as error:
                raise ChannelClosedError from error
            if not data:
                raise ChannelClosedError
            self._received.extend(self._reader.messages(data))


class CoordinatorChannel(Generic[_Received]):
    """The coordinator's end: never blocks. `decode` takes a message of the child."""

    def __init__(self, end: socket.socket, decode: Callable[[memoryview], _Received]) -> None:
        self.socket = end
        self._reader = _FrameReader(decode)
        self._posted: list[bytes] = []
        self._outgoing = memoryview(b"")

    @property
    def has_outgoing(self) -> bool:
        """Whether something still waits for room in the socket."""
        return bool(self._outgoing or self._posted)

    def post(self, message: msgspec.Struct) -> None:
        """Queue one message, for the next `flush`."""
        data = encode_message(message)
        self._posted += (_LENGTH.pack(len(data)), data)

    def send(self, message: msgspec.Struct) -> None:
        """Queue one message and send what fits."""
        self.post(message)
        self.flush()

    def flush(self) -> None:
        """Send as much as the socket takes.

        Nothing is sent to a process that has ended; its last messages can still be received,
        and then `receive` raises.
        """
        while self._outgoing or self._posted:
            if not self._outgoing:
                self._outgoing = memoryview(b"".join(self._posted))
                self._posted.clear()
            try:
                sent = self.socket.send(self._outgoing)
            except BlockingIOError:
                return
            except OSError:
                sent = len(self._outgoing)
                self._posted.clear()
            self._outgoing = self._outgoing[sent:]

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
        return self._reader.messages(data)
