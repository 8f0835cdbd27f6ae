"""One connection to a storage daemon: requests are pipelined, answers arrive in their order.

Any thread may send requests. There is no receiving thread, so a process may fork whatever it has
requested: one of the threads that wait for an answer receives, hands out the answers for others,
and when it has its own, another waiting thread takes over.

Locks: `_sending` is held while a frame is written, so that frames are not interleaved and are
expected in the order in which they are sent; `_condition` guards everything else and is held only
briefly.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import (
    CancelledError,
    ConnectionLostError,
    ProtocolError,
    StoreError,
    StrongroomError,
    error_named,
)
from strongroom.engine.stores.shared_counts import Traffic
from strongroom.net.channels.channel import Channel, Security
from strongroom.net.storage.frames import FLAG_MORE, START_SIZE, decode_start, encode_start
from strongroom.net.storage.protocol import (
    PROTOCOL_VERSION,
    FrameType,
    RequestFailure,
    StorageHello,
    StorageWelcome,
    decode,
    encode,
)

MOST_IN_FLIGHT: Final = 64
# The longest answer accepted: bounds the memory that a hostile daemon can make us use.
LARGEST_ANSWER_BYTES: Final = 1 << 30
# An answer may take as long as a busy disk takes to sync.
SILENCE_SECONDS: Final = 900.0
# Smaller requests fit into the buffers of a connection, as long as there are few of them.
_LARGE_BYTES: Final = 16 << 10
# Requests with answers longer than a word or an error; so many of the others fit there.
_ASKING_FOR_DATA: Final = frozenset(
    (
        FrameType.LIST,
        FrameType.GET,
        FrameType.UNVERIFIED,
        FrameType.OWNERS,
        FrameType.METRICS,
        FrameType.PROBE,
    )
)
_FEW_ANSWERS: Final = 8
# A daemon that accepts nothing for this long has stalled, or the network has.
STALL_SECONDS: Final = 300.0
# Request ids start here, and skip it when they wrap around.
_HELLO_ID: Final = 0


@dataclass(slots=True)
class StorageAnswer:
    """What has arrived for one request, or will; complete once `is_done`.

    is_data: it may be long.
    """

    request_id: int
    limit_bytes: int
    is_data: bool = False
    header: bytes = b""
    parts: list[bytes] = field(default_factory=list)
    size_bytes: int = 0
    error: StrongroomError | None = None
    is_awaited: bool = False
    is_done: bool = False
    began_ns: int = 0

    def payload(self) -> bytes:
        """All parts, joined."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class Request(NamedTuple):
    """A request to a daemon."""

    type: FrameType
    header: object
    payload: Buffer = b""


class StorageClient:
    """Requests to a storage daemon, sent ahead. Any failure of the connection is final."""

    def __init__(
        self,
        channel: Channel,
        hello: StorageHello,
        location: str,
        most_in_flight: int = MOST_IN_FLIGHT,
        traffic: Traffic | None = None,
    ) -> None:
        """Sends the greeting without waiting; the first request learns the answer."""
        self._channel = channel
        self._location = location
        self._most_in_flight = most_in_flight
        self._traffic = traffic
        self._sending = threading.Lock()
        self._condition = threading.Condition()
        self._expected: deque[StorageAnswer] = deque()
        self._receiving = False
        self._next_id = _HELLO_ID
        self._next_upload = 1
        self._broken: StrongroomError | None = None
        channel.set_timeout(STALL_SECONDS)
        self._hello = self.request(FrameType.HELLO, hello)

    @property
    def welcome(self) -> StorageWelcome:
        """The daemon's answer to our greeting. Raises its reason for refusing us."""
        return decode(self.wait(self._hello).header, StorageWelcome)

    @property
    def security(self) -> Security:
        """What protects the connection."""
        return self._channel.security

    @property
    def is_broken(self) -> bool:
        """Whether the connection is of no more use."""
        return self._broken is not None

    def new_upload(self) -> int:
        """A number that no upload of this connection has had."""
        with self._condition:
            self._next_upload += 1
            return self._next_upload

    def ask(self, frame_type: FrameType, header: object, payload: Buffer = b"") -> StorageAnswer:
        """Send a request and wait for its answer. Raises the daemon's error."""
        return self.wait(self.request(frame_type, header, payload))

    def request(
        self,
        frame_type: FrameType,
        header: object,
        payload: Buffer = b"",
        limit_bytes: int = LARGEST_ANSWER_BYTES,
    ) -> StorageAnswer:
        """Send a request without waiting for its answer.

        `limit_bytes`: a longer answer is a ProtocolError. Raises ConnectionLostError.
        """
        # Too many requests are unanswered: first receive for the others.
        self._receive_until(lambda: len(self._expected) < self._most_in_flight)
        answer = StorageAnswer(0, limit_bytes, frame_type in _ASKING_FOR_DATA)
        self._send(frame_type, header, payload, answer)
        return answer

    def request_series(self, requests: Sequence[Request]) -> list[StorageAnswer]:
        """Send requests of which each is done only if those before it were; do not wait.

        No other request is sent between them. Raises ConnectionLostError, ValueError for too many.
        """
        if len(requests) > self._most_in_flight:
            raise ValueError(f"a series has at most {self._most_in_flight} requests")
        self._receive_until(
            lambda: len(self._expected) + len(requests) <= self._most_in_flight and self._is_read()
        )
        answers = []
        with self._sending:
            for number, request in enumerate(requests, 1):
                answer = StorageAnswer(0, LARGEST_ANSWER_BYTES)
                flags = FLAG_MORE if number < len(requests) else 0
                self._send_frame(request, answer, flags)
                answers.append(answer)
        return answers

    def post(
        self,
        frame_type: FrameType,
        header: object,
        payload: Buffer = b"",
        *,
        is_verified: bool = False,
    ) -> None:
        """Send a request that has no answer; `is_verified`: the daemon digests the payload.

        Raises ConnectionLostError.
        """
        self._send(frame_type, header, payload, None, is_verified=is_verified)

    def wait(self, answer: StorageAnswer) -> StorageAnswer:
        """Return once the answer has arrived; raises the daemon's error if it is one."""
        answer.is_awaited = True
        self._receive_until(lambda: answer.is_done)
        if answer.error is not None:
            raise answer.error
        return answer

    def close(self) -> None:
        """End the connection; no thread may be waiting."""
        with self._condition:
            if self._broken is None:
                self._broken = ConnectionLostError("this connection was closed")
        self._channel.close()

    def _send(
        self,
        frame_type: FrameType,
        header: object,
        payload: Buffer,
        answer: StorageAnswer | None,
        *,
        is_verified: bool = False,
    ) -> None:
        if memoryview(payload).nbytes >= _LARGE_BYTES:
            # The daemon does not read while it cannot send: with unread answers to requests sent
            # ahead, both sides would wait for each other.
            self._receive_until(self._is_read)
        with self._sending:
            request = Request(frame_type, header, payload)
            self._send_frame(request, answer, 0, is_verified=is_verified)

    def _send_frame(
        self,
        request: Request,
        answer: StorageAnswer | None,
        flags: int,
        *,
        is_verified: bool = False,
    ) -> None:
        """Send a frame, with `_sending` held."""
        encoded = encode(request.header)
        with self._condition:
            self._require_whole()
            request_id = self._next_id
            self._next_id = self._next_id % 0xFFFFFFFF + 1
            if answer is not None:
                answer.request_id = request_id
                self._expected.append(answer)
        size = memoryview(request.payload).nbytes
        if self._traffic is not None:
            self._traffic.count(int(answer is not None), size)
            if answer is not None:
                answer.began_ns = clock.since_boot_ns()
        start = encode_start(request.type, flags, request_id, encoded, size)
        try:
            if size and is_verified:
                self._channel.send_content(start, request.payload)
            elif size:
                self._channel.send(start, request.payload)
            else:
                self._channel.send(start)
        except BaseException as error:
            # Also when a signal interrupted us: half a frame is out, nothing can follow it.
            broken = self._broken_by(error)
            if broken is error:
                raise
            raise broken from error

    def _is_read(self) -> bool:
        """Whether a thread receives, or will, or the outstanding answers fit into buffers."""
        if self._receiving:
            return True
        with self._condition:
            expected = list(self._expected)
        if len(expected) <= _FEW_ANSWERS and not any(answer.is_data for answer in expected):
            return True
        return any(answer.is_awaited for answer in expected)

    def _receive_until(self, satisfied: Callable[[], bool]) -> None:
        with self._condition:
            while not satisfied():
                self._require_whole()
                if self._receiving:
                    self._condition.wait()
                    continue
                self._receiving = True
                self._condition.release()
                try:
                    self._receive_one()
                finally:
                    self._condition.acquire()
                    self._receiving = False
                    self._condition.notify_all()

    def _receive_one(self) -> None:
        # A signal that interrupts the waiting leaves the connection intact; a later one does not.
        if not self._channel.wait_readable(SILENCE_SECONDS):
            raise self._broken_by(ConnectionLostError(f"no answer for {SILENCE_SECONDS:.0f} s"))
        try:
            start = decode_start(self._channel.receive_exactly(START_SIZE))
            header = self._channel.receive_exactly(start.header_size) if start.header_size else b""
            answer = self._oldest(start.request_id)
            answer.size_bytes += start.payload_size
            if answer.size_bytes > answer.limit_bytes:
                raise ProtocolError("the storage daemon sent more than was requested")
            if start.payload_size:
                answer.parts.append(self._channel.receive_exactly(start.payload_size))
                if self._traffic is not None:
                    self._traffic.count(received_bytes=start.payload_size)
            self._take(answer, start.type, header)
        except BaseException as error:
            broken = self._broken_by(error)
            if broken is error:
                raise
            raise broken from error

    def _oldest(self, request_id: int) -> StorageAnswer:
        with self._condition:
            if not self._expected or self._expected[0].request_id != request_id:
                raise ProtocolError("the storage daemon answers a request that was not sent")
            return self._expected[0]

    def _take(self, answer: StorageAnswer, frame_type: int, header: bytes) -> None:
        if frame_type == FrameType.PART:
            return
        if frame_type == FrameType.FAILED:
            failure = decode(header, RequestFailure)
            answer.error = error_named(failure.error_id, failure.message, otherwise=StoreError)
            if answer.request_id == _HELLO_ID:
                # No later request will be answered.
                raise answer.error
        elif frame_type != FrameType.OK:
            raise ProtocolError(f"the storage daemon sent a frame of type {frame_type}")
        elif answer.request_id == _HELLO_ID:
            _require_version(decode(header, StorageWelcome))
        if self._traffic is not None:
            self._traffic.answered(answer.began_ns)
        with self._condition:
            answer.header = header
            self._expected.popleft()
            answer.is_done = True

    def _require_whole(self) -> None:
        if self._broken is not None:
            # A new exception each time: several threads raise it.
            raise type(self._broken)(str(self._broken)) from self._broken

    def _broken_by(self, error: BaseException) -> BaseException:
        """Close the connection for good; returns the error to raise for the one given."""
        if isinstance(error, ConnectionLostError):
            error = ConnectionLostError(
                f"{self._location}: {error}. What was stored is kept and not sent again: run the "
                "same command again"
            )
        with self._condition:
            if self._broken is None:
                if isinstance(error, StrongroomError) and not isinstance(error, CancelledError):
                    self._broken = error
                else:
                    reason = str(error) or type(error).__name__
                    self._broken = ConnectionLostError(f"the connection was closed ({reason})")
            self._condition.notify_all()
        self._channel.shutdown()
        return error


def _require_version(welcome: StorageWelcome) -> None:
    if welcome.protocol != PROTOCOL_VERSION:
        raise ProtocolError(
            f"the storage daemon speaks version {welcome.protocol} of the protocol, this is "
            f"{PROTOCOL_VERSION}; upgrade the older side"
        )
