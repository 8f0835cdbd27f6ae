"""Records of mode "off": readable on the wire, but protected against forgery, loss and replay.

    length u32 | flags u8 | payload | tag (16)             an ordinary record, at most 256 KiB
    length u32 | flags u8 | tag (16) | payload             RAW: a part of a stored object
    0 u32      | flags u8 | tag (16)                       END: nothing follows

The tag is BLAKE3 keyed for the direction, over the record's number (u64), its head and (unless RAW)
its payload. A record's bytes are handed out only after its tag was verified; those of a RAW record
are bounded in length and position, and the receiver verifies their content.
"""

from __future__ import annotations

import hmac
import socket
import struct

from blake3 import blake3
from typing_extensions import Buffer

from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels.channel import Security
from strongroom.net.channels.plain_stream import PlainChannel, byte_view, ended
from strongroom.net.identities.peer import Peer

KEY_SIZE = 32
TAG_SIZE = 16
GREATEST_PAYLOAD_BYTES = 256 << 10
GREATEST_RAW_BYTES = 1 << 30
HEAD = struct.Struct("<IB")
RAW = 1
END = 2
SECURITY = Security(mode="off", cipher="BLAKE3-128 tags, not encrypted")

_NUMBER = struct.Struct("<Q")


class RecordSeal:
    """Makes the tags of one direction, in the order of its records."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def tag(self, head: bytes, parts: list[memoryview]) -> bytes:
        """The tag of the next record."""
        hasher = blake3(_NUMBER.pack(self._number) + head, key=self._key)
        for part in parts:
            hasher.update(part)
        self._number += 1
        return hasher.digest(TAG_SIZE)

    def check(self, head: bytes, parts: list[memoryview], tag: Buffer) -> None:
        """PeerRefusedError unless `tag` is that of the next record."""
        if not hmac.compare_digest(self.tag(head, parts), bytes(tag)):
            raise PeerRefusedError(
                "a record was forged or damaged on the way: the connection is not to be trusted"
            )


class OffChannel(PlainChannel):
    """A Channel of authenticated records over a socket, which it owns."""

    def __init__(
        self, connection: socket.socket, peer: Peer, send_key: bytes, receive_key: bytes
    ) -> None:
        super().__init__(connection, peer, SECURITY)
        self._send_seal = RecordSeal(send_key)
        self._receive_seal = RecordSeal(receive_key)
        # Verified bytes not handed out yet, and the bytes of a RAW record still to come.
        self._kept = memoryview(b"")
        self._raw_left = 0
        self._has_ended = False
        # Set while a record is being sent: if that fails, no other may follow.
        self._is_sending = False

    def send(self, *parts: Buffer) -> None:
        """Send the parts in as few records as hold them."""
        gathered: list[memoryview] = []
        room = GREATEST_PAYLOAD_BYTES
        for part in parts:
            view = byte_view(part)
            while len(view) > room:
                self._send_record([*gathered, view[:room]])
                view, gathered, room = view[room:], [], GREATEST_PAYLOAD_BYTES
            gathered.append(view)
            room -= len(view)
        self._send_record(gathered)

    def send_content(self, start: Buffer, content: Buffer) -> None:
        """Send `start` as an ordinary record and `content` as a RAW one, by one call."""
        view, first = byte_view(content), byte_view(start)
        if not 0 < len(view) <= GREATEST_RAW_BYTES or not 0 < len(first) <= GREATEST_PAYLOAD_BYTES:
            raise ValueError(f"{len(first)} and {len(view)} bytes do not fit into two records")
        head = HEAD.pack(len(first), 0)
        tag = self._send_seal.tag(head, [first])
        raw = HEAD.pack(len(view), RAW)
        between = memoryview(tag + raw + self._send_seal.tag(raw, []))
        self._is_sending = True
        self._stream.send([memoryview(head), first, between, view])
        self._is_sending = False

    def send_file(self, descriptor: int, offset: int, length: int) -> None:
        """Send a part of a file as RAW records, by the kernel alone."""
        while length:
            size = min(length, GREATEST_RAW_BYTES)
            head = HEAD.pack(size, RAW)
            self._is_sending = True
            self._stream.send([memoryview(head + self._send_seal.tag(head, []))])
            self._stream.send_file(descriptor, offset, size)
            self._is_sending = False
            offset += size
            length -= size

    def receive_into(self, view: memoryview) -> None:
        """Fill `view`; a record that fits is received directly into it."""
        view = byte_view(view)
        filled = 0
        try:
            while filled < len(view):
                filled += self._receive_some(view[filled:])
        except ConnectionLostError as error:
            if filled and error.clean:
                raise ended(clean=False) from error
            raise

    def wait_readable(self, timeout_seconds: float) -> bool:
        """Wait for bytes or the end; those of a record that is not whole yet count."""
        return bool(len(self._kept)) or super().wait_readable(timeout_seconds)

    def close(self) -> None:
        """Send END if that does not block; close the socket."""
        try:
            if not self._is_sending:
                self._stream.socket.setblocking(False)
                head = HEAD.pack(0, END)
                self._stream.socket.send(head + self._send_seal.tag(head, []))
        except OSError:
            # It is gone or not reading: it will see that the end was not announced.
            pass
        finally:
            self._stream.socket.close()

    def _send_record(self, parts: list[memoryview]) -> None:
        size = sum(map(len, parts))
        if size:
            head = HEAD.pack(size, 0)
            tag = self._send_seal.tag(head, parts)
            self._is_sending = True
            self._stream.send([memoryview(head), *parts, memoryview(tag)])
            self._is_sending = False

    def _receive_some(self, view: memoryview) -> int:
        """Read at least one byte into `view`; gives how many."""
        if len(self._kept):
            count = min(len(view), len(self._kept))
            view[:count] = self._kept[:count]
            self._kept = self._kept[count:]
            return count
        if not self._raw_left:
            size = self._begin_record()
            if size:
                return self._receive_payload(size, view)
        count = min(len(view), self._raw_left)
        self._fill(view[:count])
        self._raw_left -= count
        return count

    def _begin_record(self) -> int:
        """Receive a head: the size of the payload that follows; 0 for a RAW record."""
        if self._has_ended:
            raise ended(clean=True)
        buffer = bytearray(HEAD.size)
        try:
            self._stream.fill(memoryview(buffer))
        except ConnectionLostError as error:
            # An end that was not announced may be an attacker's.
            raise ConnectionLostError(str(error)) from error
        head = bytes(buffer)
        size, flags = HEAD.unpack(head)
        if flags == 0 and 0 < size <= GREATEST_PAYLOAD_BYTES:
            self._head = head
            return int(size)
        is_raw = flags == RAW and 0 < size <= GREATEST_RAW_BYTES
        if not is_raw and (flags, size) != (END, 0):
            raise PeerRefusedError("the connection carries an invalid record: it was tampered with")
        tag = bytearray(TAG_SIZE)
        self._fill(memoryview(tag))
        self._receive_seal.check(head, [], tag)
        if is_raw:
            self._raw_left = size
            return 0
        self._has_ended = True
        raise ended(clean=True)

    def _receive_payload(self, size: int, view: memoryview) -> int:
        in_place = size <= len(view)
        payload = view[:size] if in_place else memoryview(bytearray(size))
        self._fill(payload)
        tag = bytearray(TAG_SIZE)
        self._fill(memoryview(tag))
        self._receive_seal.check(self._head, [payload], tag)
        if in_place:
            return size
        view[:] = payload[: len(view)]
        self._kept = payload[len(view) :]
        return len(view)

    def _fill(self, view: memoryview) -> None:
        try:
            self._stream.fill(view)
        except ConnectionLostError as error:
            raise ended(clean=False) if error.clean else error from error
