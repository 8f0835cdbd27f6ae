"""The SFTP protocol, version 3 with OpenSSH's extensions, over the system's ssh.

    length u32 | type u8 | id u32 | fields of the type

Only what a store needs. A batch of requests is sent before its answers are read, at most WINDOW of
them at once, so a far server costs one round trip for a batch. The server does the requests of a
connection one after the other.

One batch at a time; any thread may ask, the lock is held meanwhile.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError, ProtocolError, StoreError
from strongroom.base.printable import printable
from strongroom.engine.stores.place import SshLocation
from strongroom.engine.stores.shared_counts import Traffic
from strongroom.engine.stores.ssh_command import SshProcess

# Small enough that unread answers, or unread requests, fit into the buffers of the connection.
WINDOW: Final = 32
_SILENCE_SECONDS: Final = 300.0
_VERSION: Final = 3
_LONGEST_PACKET_BYTES: Final = 1 << 20
# What every server takes; OpenSSH says that it takes more.
_USUAL_BYTES: Final = 32 << 10
_MOST_BYTES: Final = 255 << 10

_INIT, _SERVER_VERSION = 1, 2
OPEN, CLOSE, READ, WRITE, LSTAT = 3, 4, 5, 6, 7
OPENDIR, READDIR, REMOVE, MKDIR = 11, 12, 13, 14
RENAME, EXTENDED = 18, 200
_STATUS, _HANDLE, _DATA, _NAME, _ATTRS, _EXTENDED_REPLY = 101, 102, 103, 104, 105, 201

READING: Final = 1
CREATING: Final = 0x02 | 0x08 | 0x20
HARD_LINK: Final = b"hardlink@openssh.com"
REPLACING_RENAME: Final = b"posix-rename@openssh.com"
FSYNC: Final = b"fsync@openssh.com"
_LIMITS: Final = b"limits@openssh.com"

_FX_EOF, _FX_MISSING = 1, 2
_HAS_SIZE, _HAS_OWNER, _HAS_MODE, _HAS_TIMES, _HAS_MORE = 1, 2, 4, 8, 0x80000000
NO_ATTRIBUTES: Final = struct.pack(">I", 0)
PRIVATE_FILE: Final = struct.pack(">II", _HAS_MODE, 0o600)
PRIVATE_FOLDER: Final = struct.pack(">II", _HAS_MODE, 0o700)


class Request(NamedTuple):
    """A request: its type, and its fields encoded. payload: the last string, not copied."""

    type: int
    fields: bytes
    payload: memoryview | None = None


class Attributes(NamedTuple):
    """Of a file. mode is 0 where the server does not say it."""

    size_bytes: int
    mode: int
    modified_seconds: int


class Answer(NamedTuple):
    """What came: `status` and `text` of a refusal, or else one of the others. 0: it was done."""

    status: int = 0
    text: str = ""
    data: bytes = b""
    names: tuple[tuple[bytes, Attributes], ...] = ()
    attributes: Attributes | None = None

    @property
    def is_missing(self) -> bool:
        """Whether there is no such file."""
        return self.status == _FX_MISSING

    @property
    def is_end(self) -> bool:
        """Whether there is nothing more."""
        return self.status == _FX_EOF


def text(*parts: bytes) -> bytes:
    """Strings, each with its length before it."""
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


class SftpClient:
    """A session of SFTP. Connects when it is made. Failures are StoreError."""

    def __init__(self, place: SshLocation, traffic: Traffic | None = None) -> None:
        self._place = place
        self._traffic = traffic
        self._lock = threading.Lock()
        self._next_id = 0
        self._is_broken = False
        self._process = SshProcess(place, ("sftp",), is_subsystem=True)
        self._socket = self._process.socket
        self._socket.settimeout(_SILENCE_SECONDS)
        try:
            self.extensions = self._greet()
            self.part_bytes = _USUAL_BYTES
            if _LIMITS in self.extensions:
                (limits,) = self.ask([Request(EXTENDED, text(_LIMITS))])
                if len(limits.data) >= 32:
                    _, reading, writing, _ = struct.unpack_from(">4Q", limits.data)
                    least = min(reading or _MOST_BYTES, writing or _MOST_BYTES)
                    self.part_bytes = max(_USUAL_BYTES, min(least, _MOST_BYTES))
        except BaseException:
            self.close()
            raise

    @property
    def is_broken(self) -> bool:
        """Whether the connection is of no more use."""
        with self._lock:
            return self._is_broken

    def ask(self, requests: Sequence[Request]) -> list[Answer]:
        """Send requests, and give the answers in their order. Raises ConnectionLostError."""
        answers: dict[int, Answer] = {}
        began_ns = clock.since_boot_ns()
        with self._lock, self._whole_or_ended():
            first = self._next_id
            self._next_id = (first + len(requests)) & 0x7FFFFFFF
            for place, request in enumerate(requests):
                if place >= WINDOW:
                    self._take(answers)
                self._send(first + place, request)
            while len(answers) < len(requests):
                self._take(answers)
        if self._traffic is not None:
            sent = sum(len(request.payload or b"") for request in requests)
            received = sum(len(answer.data) for answer in answers.values())
            self._traffic.count(1, sent, received)
            self._traffic.answered(began_ns)
        wanted = range(first, first + len(requests))
        if answers.keys() != set(wanted):
            raise ProtocolError("the SFTP server answers requests that were not sent")
        return [answers[place] for place in wanted]

    def close(self) -> None:
        """End the connection."""
        self._process.close()

    @contextmanager
    def _whole_or_ended(self) -> Iterator[None]:
        """A request sent in part, or an answer not read, leaves a connection of no more use.

        A later request, to tidy up, must not wait for it.
        """
        if self._is_broken:
            raise ConnectionLostError(f"{printable(self._place.text)}: the connection broke before")
        self._is_broken = True
        yield
        self._is_broken = False

    def _greet(self) -> frozenset[bytes]:
        try:
            self._socket.sendall(struct.pack(">IBI", 5, _INIT, _VERSION))
            packet = self._packet()
        except (OSError, ConnectionLostError) as error:
            shown = printable(self._place.text)
            reached = ConnectionLostError(f"{shown} did not answer as an SFTP server")
            raise self._process.explain(reached) from error
        if packet[0] != _SERVER_VERSION:
            raise ProtocolError(f"{printable(self._place.text)} is not an SFTP server")
        reader = _Reader(packet, 5)
        names = set()
        while reader.left:
            names.add(reader.string())
            reader.string()
        return frozenset(names)

    def _send(self, number: int, request: Request) -> None:
        payload, fields = request.payload, request.fields
        if payload is not None:
            fields += struct.pack(">I", len(payload))
        size = 5 + len(fields) + len(payload or b"")
        try:
            self._socket.sendall(struct.pack(">IBI", size, request.type, number) + fields)
            if payload is not None:
                self._socket.sendall(payload)
        except OSError as error:
            raise self._lost(error) from error

    def _take(self, answers: dict[int, Answer]) -> None:
        packet = self._packet()
        reader = _Reader(packet, 1)
        number = reader.number()
        answers[number] = _answer(packet[0], reader)

    def _packet(self) -> bytes:
        (size,) = struct.unpack(">I", self._receive(4))
        if not 5 <= size <= _LONGEST_PACKET_BYTES:
            raise ProtocolError(
                f"{printable(self._place.text)} sent what is not SFTP: if the shell of the user "
                "there prints a text when it starts, let it do so at a terminal only"
            )
        return self._receive(size)

    def _receive(self, size: int) -> bytes:
        buffer = bytearray(size)
        view, filled = memoryview(buffer), 0
        while filled < size:
            try:
                count = self._socket.recv_into(view[filled:])
            except OSError as error:
                raise self._lost(error) from error
            if not count:
                raise self._process.explain(
                    ConnectionLostError(f"{printable(self._place.text)}: the connection ended")
                )
            filled += count
        return bytes(buffer)

    def _lost(self, error: OSError) -> ConnectionLostError:
        reason = (
            "nothing moved" if isinstance(error, TimeoutError) else error.strerror or str(error)
        )
        return self._process.explain(
            ConnectionLostError(f"{printable(self._place.text)}: the connection broke ({reason})")
        )


class _Reader:
    """Reads the fields of a packet. Raises ProtocolError where they are not there."""

    def __init__(self, packet: bytes, start: int) -> None:
        self._packet = packet
        self._at = start

    @property
    def left(self) -> int:
        return len(self._packet) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise ProtocolError("the SFTP server sent a packet that is too short")
        self._at += size
        return self._packet[self._at - size : self._at]

    def number(self) -> int:
        (value,) = struct.unpack(">I", self.take(4))
        return int(value)

    def string(self) -> bytes:
        return self.take(self.number())

    def attributes(self) -> Attributes:
        flags = self.number()
        size = struct.unpack(">Q", self.take(8))[0] if flags & _HAS_SIZE else 0
        if flags & _HAS_OWNER:
            self.take(8)
        mode = self.number() if flags & _HAS_MODE else 0
        modified = struct.unpack(">II", self.take(8))[1] if flags & _HAS_TIMES else 0
        if flags & _HAS_MORE:
            for _ in range(self.number()):
                self.string()
                self.string()
        return Attributes(size, mode, modified)


def _answer(packet_type: int, reader: _Reader) -> Answer:
    if packet_type == _STATUS:
        status = reader.number()
        return Answer(status, reader.string().decode("utf-8", "replace") if reader.left else "")
    if packet_type in (_HANDLE, _DATA):
        return Answer(data=reader.string())
    if packet_type == _NAME:
        return Answer(names=tuple(_names(reader)))
    if packet_type == _ATTRS:
        return Answer(attributes=reader.attributes())
    if packet_type == _EXTENDED_REPLY:
        return Answer(data=reader.take(reader.left))
    raise ProtocolError(f"the SFTP server sent a packet of type {packet_type}")


def _names(reader: _Reader) -> Iterator[tuple[bytes, Attributes]]:
    for _ in range(reader.number()):
        name = reader.string()
        reader.string()
        yield name, reader.attributes()


def require_done(answers: Sequence[Answer], what: str) -> None:
    """Raise StoreError for the first answer that is a refusal."""
    for answer in answers:
        if answer.status:
            raise StoreError(
                f"could not {what}: the server says {printable(answer.text, 200)} "
                f"({answer.status}); look for free space and rights there, then run the same "
                "command again"
            )
