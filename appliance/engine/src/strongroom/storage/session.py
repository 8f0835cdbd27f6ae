"""One connection of a storage daemon: reads requests, does them one after the other, answers.

Each connection has a thread and its own store; all connections share the owner list,
the quotas and the bandwidth limit of their job. The daemon's watch thread ends a connection that is
too slow (`answers` has the deadline), so a peer cannot block a thread. `request_handlers` has what
each request does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import (
    ConnectionLostError,
    DamageError,
    ObjectMissingError,
    PeerRefusedError,
    ProtocolError,
    QuotaError,
    RightError,
    StoreError,
    StrongroomError,
)
from strongroom.net.channels.channel import Channel
from strongroom.net.storage.frames import Frame, FrameReader, FrameStart
from strongroom.net.storage.protocol import (
    PROTOCOL_VERSION,
    FrameType,
    StorageHello,
    StorageWelcome,
    decode,
)
from strongroom.service.log_lines import one_line
from strongroom.storage.accounts import JobBandwidth
from strongroom.storage.incoming_payload import Incoming
from strongroom.storage.request_handlers import RequestHandlers
from strongroom.storage.response_writer import ResponseWriter
from strongroom.storage.rights import as_client, as_job, rights_of
from strongroom.storage.served_repository import ServedRepository
from strongroom.storage.serving import Serving
from strongroom.storage.shares import ClientShare

log = logging.getLogger("strongroom.storage")

# Requests that a daemon answers whose disk is not mounted.
_WITHOUT_REPOSITORY: Final = frozenset((FrameType.PREPARE, FrameType.METRICS))
# An honest client gives up at the first refusal; more would only fill the log.
_MOST_REFUSALS: Final = 100
_SILENT: Final = frozenset((FrameType.DATA, FrameType.ABORT))
# Directors and operators, whom the configuration names one by one, and local peers.
_TRUSTED_IDLE_SECONDS: Final = 24 * 3600.0
# Shorter requests take the interpreter's time and hardly any memory, longer ones the reverse.
_SHORT_BYTES: Final = 64 << 10
_ANSWERED_BY_NAMES: Final = frozenset((FrameType.LIST, FrameType.UNVERIFIED, FrameType.OWNERS))
# Sending content takes a processor's time, but not the interpreter's.
_SENT_BYTES_PER_SECOND: Final = 1 << 29


class Session:
    """The connection of one peer. `run` serves until the peer leaves or is disconnected."""

    def __init__(
        self, serving: Serving, channel: Channel, share: ClientShare, address: str
    ) -> None:
        """`share`: what the peer's client holds, this connection included."""
        self._serving = serving
        self._share = share
        self._limits = serving.limits
        self.channel = channel
        self.peer = channel.peer
        self.shown = f"{channel.peer} at {address}"
        self.answers = ResponseWriter(channel, serving.limits)
        self._job: str | None = None
        self._served: ServedRepository | None = None
        self._generation = 0
        self._next_request_at = 0.0
        self._is_idle = False
        self._refusals = 0
        # The error that answers the rest of a series of requests.
        self._failed: StrongroomError | None = None

    def run(self) -> None:
        """Serve; handles every failure of this connection."""
        reader = FrameReader(self.channel)
        try:
            self.answers.allow(self._limits.greeting_seconds)
            self._greet(reader)
            idle_seconds = _TRUSTED_IDLE_SECONDS
            if self.peer.role == "agent":
                idle_seconds = self._limits.idle_seconds
            while True:
                self.answers.allow(idle_seconds)
                self._is_idle = True
                start = reader.start()
                self._is_idle = False
                self._bandwidth.used_at = clock.elapsed_seconds()
                self.answers.allow_bytes(start.payload_size)
                if not self._take(reader, start):
                    return
        except ConnectionLostError as error:
            if not error.clean or (self._job is not None and self._requests.changes.has_uploads):
                self._say(logging.INFO, "connection lost: %s", error)
        except (ProtocolError, PeerRefusedError) as error:
            self._serving.metrics.count("failures", error=error.error_id)
            self._say(logging.WARNING, "disconnected: %s", error)
        finally:
            self._end()

    @property
    def is_of_the_past(self) -> bool:
        """Whether the repository has gone, come, or changed since this connection began."""
        return self._served is not None and self._generation != self._served.generation

    def is_late(self, now: float) -> bool:
        """Whether the peer has not done its part in time.

        An idle connection of a job may stay while others of the job work.
        """
        deadline = self.answers.deadline
        if deadline is None or now <= deadline:
            return False
        return not self._is_idle or now > self._bandwidth.used_at + self._limits.idle_seconds

    def _take(self, reader: FrameReader, start: FrameStart) -> bool:
        """Receive and serve the rest of a request; False when the connection has to end."""
        if start.type == FrameType.DATA and start.payload_size >= _SHORT_BYTES:
            return self._take_data(reader.head(start), start.payload_size)
        began, self._requests.sent_bytes = clock.thread_seconds(), 0
        held_bytes = 0
        if start.type in _ANSWERED_BY_NAMES:
            held_bytes = self._requests.held_for_names()
        if start.payload_size >= _SHORT_BYTES:
            held_bytes = start.payload_size
        self.answers.deadline = None
        with self._serving.shares.holding(self._share, held_bytes):
            self.answers.allow_bytes(start.payload_size)
            if start.type == FrameType.DATA:
                continues = self._take_data(reader.head(start), start.payload_size)
            else:
                frame = reader.rest(start)
                self.answers.deadline = None
                continues = self._serve(frame)
        self.answers.deadline = None
        used_seconds = clock.thread_seconds() - began
        used_seconds -= self._requests.sent_bytes / _SENT_BYTES_PER_SECOND
        self._serving.shares.charge(self._share, max(0.0, used_seconds))
        return continues

    def begin_upload(self) -> int:
        """See UploadSlots."""
        return self._serving.shares.begin_upload(self._share)

    def end_upload(self, buffer_bytes: int) -> None:
        """See UploadSlots."""
        self._serving.shares.end_upload(self._share, buffer_bytes)

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """See UploadSlots."""
        return self._serving.writers.submit(self._share.shown, work)

    def _say(self, level: int, message: str, error: object) -> None:
        self._serving.say(level, self.peer, f"%s: {message}", self.shown, str(error))

    def _greet(self, reader: FrameReader) -> None:
        frame = reader.rest(reader.start())
        self.answers.request_id = frame.request_id
        try:
            if frame.type != FrameType.HELLO:
                raise ProtocolError("a connection must begin with a greeting")
            hello = decode(frame.header, StorageHello)
            if hello.protocol != PROTOCOL_VERSION:
                raise ProtocolError(
                    f"the client speaks version {hello.protocol} of the protocol, the storage "
                    f"daemon {PROTOCOL_VERSION}; upgrade the older side"
                )
            grant = self._serving.read_grant(hello.grant) if hello.grant else None
            verbs = self._serving.admission.verbs(self.peer)
            rights = as_job(rights_of(self.peer, verbs, hello.view_as, grant), hello.job)
            served = self._serving.repository(hello.repository)
            served.refresh()
            self._served, self._generation = served, served.generation
            self._rights = as_client(rights, self.peer, served.repository_id())
            if self._rights.client:
                served.owner_list.learn_name(self._rights.client, self.peer.name)
        except StrongroomError as error:
            self.answers.fail(error)
            raise PeerRefusedError(str(error)) from error
        self._bandwidth: JobBandwidth = self._serving.bandwidths.enter(self.peer.name, hello.job)
        self._requests = RequestHandlers(
            self._serving,
            served,
            self._rights,
            self._bandwidth,
            self.answers,
            self.peer,
            self.shown,
            self,
        )
        self._job = hello.job
        self.answers.send(StorageWelcome(PROTOCOL_VERSION, self.peer.role, self._limits.uploads))

    def _take_data(self, frame: Frame, payload_size: int) -> bool:
        """Serve a frame whose payload goes from the connection straight to the disk's buffer."""
        incoming = Incoming(self.channel, self.answers, payload_size)
        self._requests.incoming = incoming
        continues = self._serve(frame)
        if continues:
            incoming.skip()
        return continues

    def _serve(self, frame: Frame) -> bool:
        """Do one request; False when the connection cannot be used any more."""
        self.answers.request_id = frame.request_id
        self._pace()
        if self._failed is not None:
            if frame.type not in _SILENT:
                self.answers.fail(self._failed)
            self._failed = self._failed if frame.has_more else None
            return True
        try:
            handler = self._requests.by_type.get(frame.type)
            if handler is None:
                raise ProtocolError(f"a request of type {frame.type} is unknown, or out of place")
            self._rights.require_request(FrameType(frame.type))
            if self._served is not None and frame.type not in _WITHOUT_REPOSITORY:
                self._served.require()
            answer = handler(frame)
            if frame.type not in _SILENT:
                self.answers.send(answer)
        except (ConnectionLostError, PeerRefusedError):
            raise
        except StrongroomError as error:
            self._failed = error if frame.has_more else None
            self._serving.metrics.count("failures", error=error.error_id)
            if frame.type == FrameType.DELETE and isinstance(error, RightError):
                self._serving.metrics.count("refused_deletes", role=self.peer.role)
            if isinstance(error, ObjectMissingError):
                log.debug("%s: %s", self.shown, one_line(str(error)))
            elif isinstance(error, RightError | QuotaError | ProtocolError | DamageError):
                self._refusals += 1
                self._say(logging.WARNING, "refused: %s", error)
            elif isinstance(error, StoreError):
                self._say(logging.ERROR, "failed: %s", error)
            if frame.type not in _SILENT:
                self.answers.fail(error)
            if self._refusals > _MOST_REFUSALS:
                raise PeerRefusedError(f"{self._refusals} of its requests were refused") from error
            return not isinstance(error, ProtocolError)
        except Exception as error:
            # A bug in a request must not end the daemon.
            self._serving.metrics.count("failures", error="bug")
            log.exception("%s: internal error", self.shown)
            self.answers.fail(StoreError(f"internal error of the daemon: {type(error).__name__}"))
            return False
        self._serving.metrics.count("requests", type=FrameType(frame.type).name.lower())
        return True

    def _pace(self) -> None:
        rate = self._limits.requests_per_second
        if rate:
            now = clock.elapsed_seconds()
            self._next_request_at = max(self._next_request_at, now - 1.0) + 1 / rate
            self._serving.pause(self._next_request_at - now)

    def _end(self) -> None:
        self.answers.deadline = None
        if self._job is not None:
            self._requests.close()
            self._serving.bandwidths.leave(self.peer.name, self._job)
        self.channel.close()
