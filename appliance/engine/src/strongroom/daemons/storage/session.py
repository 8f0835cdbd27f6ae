"""One connection of a storage daemon: reads requests, does them one after the other, answers.

Each connection has a thread and a store of its own; all connections share the provenance database,
the quotas and the bandwidth limit of their job. The daemon's watch thread ends a connection that is
too slow (`answers` has the deadline), so a peer cannot block a thread.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom import clock
from strongroom.daemons.log_lines import one_line
from strongroom.daemons.storage.changes import Changes
from strongroom.daemons.storage.incoming_payload import Incoming
from strongroom.daemons.storage.provenance import DOUBTED, FALSE, VOUCHED
from strongroom.daemons.storage.response_writer import Answers
from strongroom.daemons.storage.rights import as_client, rights_of
from strongroom.errors import (
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
from strongroom.net.channels.local_channel import local_peer
from strongroom.net.storage.frames import FrameReader
from strongroom.net.storage.protocol import (
    LISTED_AT_ONCE,
    PROTOCOL_VERSION,
    FrameType,
    ObjectName,
    ObjectPart,
    Probe,
    SharedCharge,
    StorageHello,
    StorageWelcome,
    Vouching,
    decode,
)
from strongroom.stores.store import Kind, require_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from strongroom.daemons.storage.accounts import JobBandwidth
    from strongroom.daemons.storage.served_repository import ServedRepository
    from strongroom.daemons.storage.serving import Serving
    from strongroom.daemons.storage.shares import Share
    from strongroom.net.channels.channel import Channel
    from strongroom.net.storage.frames import Frame, FrameStart
    from strongroom.stores.servable import ServableStore
    from strongroom.stores.store import ObjectInfo

log = logging.getLogger("strongroom.storage")

# An honest client gives up at the first refusal; more would only fill the log.
_MOST_REFUSALS: Final = 100
_SILENT: Final = frozenset((FrameType.DATA, FrameType.ABORT))
# Directors and operators, whom the configuration names one by one, and local peers.
_TRUSTED_IDLE_SECONDS: Final = 24 * 3600.0
# Shorter requests take the interpreter's time and hardly any memory, longer ones the reverse.
_SHORT_BYTES: Final = 64 << 10
# What the names of a large repository take.
_HELD_FOR_NAMES: Final = 16 << 20
_HELD_FOR_A_NAME: Final = 512
_LISTING_ATTEMPTS: Final = 5
_ANSWERED_BY_NAMES: Final = frozenset((FrameType.LIST, FrameType.DOUBTED, FrameType.OWNERS))
# Sending content takes a processor's time, but not the interpreter's.
_SENT_BYTES_PER_SECOND: Final = 1 << 29


class Session:
    """See the module's docstring. `run` serves until the peer leaves or is disconnected."""

    def __init__(self, serving: Serving, channel: Channel, share: Share, address: str) -> None:
        """`share`: what the peer's client holds, this connection included."""
        self._serving = serving
        self._share = share
        self._limits = serving.limits
        self.channel = channel
        self.peer = channel.peer
        self.shown = f"{channel.peer} at {address}"
        self.answers = Answers(channel, serving.limits)
        self._job: str | None = None
        self._next_request_at = 0.0
        self._is_idle = False
        self._sent_bytes = 0
        self._refusals = 0
        # The error that answers the rest of a series of requests.
        self._failed: StrongroomError | None = None
        self._handlers: dict[int, Callable[[Frame], None]] = {
            FrameType.LIST: self._list,
            FrameType.GET: self._get,
            FrameType.INFO: self._info,
            FrameType.PUT: self._put,
            FrameType.DATA: self._data,
            FrameType.COMMIT: self._commit,
            FrameType.ABORT: self._abort,
            FrameType.DELETE: self._delete,
            FrameType.SYNC: self._sync,
            FrameType.PREPARE: self._prepare,
            FrameType.REMOVE_ABANDONED: self._remove_abandoned,
            FrameType.LIMIT: self._limit,
            FrameType.DOUBTED: self._doubted,
            FrameType.VOUCH: self._vouch,
            FrameType.METRICS: self._metrics,
            FrameType.OWNERS: self._owners,
            FrameType.CONFIRM_CLOCK: self._confirm_clock,
            FrameType.CHARGE: self._charge,
            FrameType.FALSE: self._false,
            FrameType.PROBE: self._probe,
        }

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
            if not error.clean or (self._job is not None and self._changes.has_uploads):
                self._say(logging.INFO, "connection lost: %s", error)
        except (ProtocolError, PeerRefusedError) as error:
            self._serving.metrics.count("failures", error=error.error_id)
            self._say(logging.WARNING, "disconnected: %s", error)
        finally:
            self._end()

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
        began, self._sent_bytes = clock.thread_seconds(), 0
        held_bytes = self._held_for_names() if start.type in _ANSWERED_BY_NAMES else 0
        if start.payload_size >= _SHORT_BYTES:
            held_bytes = start.payload_size
        self.answers.deadline = None
        with self._serving.shares.holding(self._share, held_bytes):
            self.answers.allow_bytes(start.payload_size)
            if start.type == FrameType.DATA:
                goes_on = self._take_data(reader.head(start), start.payload_size)
            else:
                frame = reader.rest(start)
                self.answers.deadline = None
                goes_on = self._serve(frame)
        self.answers.deadline = None
        used_seconds = clock.thread_seconds() - began - self._sent_bytes / _SENT_BYTES_PER_SECOND
        self._serving.shares.charge(self._share, max(0.0, used_seconds))
        return goes_on

    def begin_upload(self) -> int:
        """See UploadPlaces."""
        return self._serving.shares.begin_upload(self._share)

    def end_upload(self, buffer_bytes: int) -> None:
        """See UploadPlaces."""
        self._serving.shares.end_upload(self._share, buffer_bytes)

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """See UploadPlaces."""
        return self._serving.writers.submit(self._share.shown, work)

    def _say(self, level: int, message: str, error: object) -> None:
        self._serving.lines.say(level, self.peer, f"%s: {message}", self.shown, str(error))

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
            rights = rights_of(self.peer, verbs, hello.view_as, grant)
            self._served: ServedRepository = self._serving.repository(hello.repository)
            self._rights = as_client(rights, self.peer, self._served.repository_id())
        except StrongroomError as error:
            self.answers.fail(error)
            raise PeerRefusedError(str(error)) from error
        self._book = self._served.book
        if self._rights.client:
            self._book.learn_name(self._rights.client, self.peer.name)
        self._store: ServableStore = self._served.open_store()
        self._bandwidth: JobBandwidth = self._serving.bandwidths.enter(self.peer.name, hello.job)
        self._changes = Changes(
            self._served,
            self._store,
            self._rights,
            self._limits,
            self.shown,
            self._receive_turn,
            self,
        )
        self._job = hello.job
        self.answers.send(StorageWelcome(PROTOCOL_VERSION, self.peer.role, self._limits.uploads))

    def _take_data(self, frame: Frame, payload_size: int) -> bool:
        """Serve a frame whose payload goes from the connection straight to the disk's buffer."""
        self._incoming = Incoming(self.channel, self.answers, payload_size)
        goes_on = self._serve(frame)
        if goes_on:
            self._incoming.skip()
        return goes_on

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
            handler = self._handlers.get(frame.type)
            if handler is None:
                raise ProtocolError(f"a request of type {frame.type} is unknown, or out of place")
            self._rights.require_request(FrameType(frame.type))
            handler(frame)
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

    def _list(self, frame: Frame) -> None:
        kind: Kind = decode(frame.header, Kind)  # type: ignore[arg-type]
        hidden, seen = self._rights.hidden_or_seen(kind, self._book)
        batch: list[ObjectInfo] = []
        for info in self._store.list(kind) if seen is None else self._seen_of(kind):
            if info.name in hidden:
                continue
            batch.append(info)
            if len(batch) == LISTED_AT_ONCE:
                self.answers.send_part(msgspec.msgpack.encode(batch))
                batch = []
        if batch:
            self.answers.send_part(msgspec.msgpack.encode(batch))
        self.answers.send(None)

    def _seen_of(self, kind: Kind) -> list[ObjectInfo]:
        """The objects of a peer that sees only some: nothing of the others is looked at.

        Where one object replaces another meanwhile, one of the two is there.
        """
        infos: dict[str, ObjectInfo] = {}
        looked_at: set[str] = set()
        for _ in range(_LISTING_ATTEMPTS):
            seen = self._rights.hidden_or_seen(kind, self._book)[1] or set()
            if seen == looked_at:
                break
            for name in seen - looked_at:
                with suppress(ObjectMissingError):
                    infos[name] = self._store.info(kind, name)
            looked_at = seen
        return [info for name, info in infos.items() if name in looked_at]

    def _held_for_names(self) -> int:
        """What a request takes whose answer is names."""
        view = self._rights.view
        count = 0 if view is None else self._served.quotas.objects(view)
        return max(_HELD_FOR_NAMES, _HELD_FOR_A_NAME * count)

    def _get(self, frame: Frame) -> None:
        part = decode(frame.header, ObjectPart)
        self._require_seen(part.kind, part.name)
        with self._store.outgoing(part.kind, part.name) as found:
            size = found.size_bytes
            length = max(0, size - part.offset) if part.length is None else part.length
            if part.offset < 0 or length < 0 or part.offset + length > size:
                raise DamageError(
                    f"{part.kind} {part.name} is truncated: {length} bytes wanted at {part.offset} "
                    f"of {size}; run check"
                )
            self.answers.send_object(found, part.offset, length, self._send_turn)
        self.answers.send(None)

    def _info(self, frame: Frame) -> None:
        wanted = decode(frame.header, ObjectName)
        self._require_seen(wanted.kind, wanted.name)
        self.answers.send(self._store.info(wanted.kind, wanted.name))

    def _put(self, frame: Frame) -> None:
        self.answers.send(self._changes.put(frame))

    def _data(self, frame: Frame) -> None:
        self._changes.data(frame, self._incoming)

    def _commit(self, frame: Frame) -> None:
        self.answers.send(self._changes.commit(frame))

    def _abort(self, frame: Frame) -> None:
        self._changes.abort(frame)

    def _delete(self, frame: Frame) -> None:
        deleted = self._changes.delete(frame)
        if deleted:
            self._say(logging.INFO, "deleted %s", deleted)
        self.answers.send(None)

    def _sync(self, frame: Frame) -> None:
        self._store.sync()
        self._book.sync()
        self.answers.send(None)

    def _prepare(self, frame: Frame) -> None:
        self._store.prepare()
        self.answers.send(None)

    def _remove_abandoned(self, frame: Frame) -> None:
        # Uploads of open connections are locked, those of closed ones were removed already.
        local = self._rights.role == "local"
        self.answers.send(self._store.remove_abandoned() if local else 0)

    def _limit(self, frame: Frame) -> None:
        self._bandwidth.limit(decode(frame.header, int))
        self.answers.send(None)

    def _doubted(self, frame: Frame) -> None:
        kind: Kind = decode(frame.header, Kind)  # type: ignore[arg-type]
        # An agent sees nothing but what it stored itself and what was verified.
        is_whole = self._rights.view is None
        doubted = self._book.of_standing(kind, DOUBTED) if is_whole else set()
        if kind == "snapshots" and is_whole:
            # Whoever sees those that were found false must not rely on them either.
            doubted |= self._book.of_standing(kind, FALSE)
        self._send_names(doubted)

    def _false(self, frame: Frame) -> None:
        self._send_names(self._book.of_standing(decode(frame.header, Kind), FALSE))  # type: ignore[arg-type]

    def _send_names(self, names: set[str]) -> None:
        listed = sorted(names)
        for start in range(0, len(listed), LISTED_AT_ONCE):
            self.answers.send_part(msgspec.msgpack.encode(listed[start : start + LISTED_AT_ONCE]))
        self.answers.send(None)

    def _owners(self, frame: Frame) -> None:
        pairs = self._book.owners(decode(frame.header, Kind))  # type: ignore[arg-type]
        for start in range(0, len(pairs), LISTED_AT_ONCE):
            self.answers.send_part(msgspec.msgpack.encode(pairs[start : start + LISTED_AT_ONCE]))
        self.answers.send(None)

    def _charge(self, frame: Frame) -> None:
        charge = decode(frame.header, SharedCharge)
        self._served.charge(charge.client, charge.size_bytes)
        self._book.sync()
        self.answers.send(None)

    def _probe(self, frame: Frame) -> None:
        wanted = decode(frame.header, Probe)
        self._receive_turn(len(frame.payload))
        self._send_turn(wanted.answer_bytes)
        if wanted.answer_bytes:
            self.answers.send_noise(wanted.answer_bytes)
        self.answers.send(None)

    def _confirm_clock(self, frame: Frame) -> None:
        # Maintenance users may delete, but not decide how old the deleted objects are.
        if self.peer.name not in {local_peer(user).name for user in (0, os.geteuid())}:
            raise RightError(
                f"{self.peer} may not confirm the clock: only root and the daemon's user may"
            )
        self.answers.send(self._serving.confirm_clock(str(self.peer)))

    def _vouch(self, frame: Frame) -> None:
        vouching = decode(frame.header, Vouching)
        self._book.judge(vouching.kind, vouching.names, VOUCHED if vouching.sound else FALSE)
        if not vouching.sound:
            shown = ", ".join(vouching.names)
            log.warning("%s: found false: %s %s", self.shown, vouching.kind, shown)
        self._book.sync()
        self.answers.send(None)

    def _metrics(self, frame: Frame) -> None:
        self.answers.send_part(self._serving.metrics_text())
        self.answers.send(None)

    def _require_seen(self, kind: Kind, name: str) -> None:
        if not self._rights.sees(kind, name, self._book):
            # The store's own message: it does not reveal whether others have the object.
            require_name(kind, name)
            raise ObjectMissingError(f"{kind} {name} is missing; run check to see what needs it")

    def _receive_turn(self, size_bytes: int) -> None:
        self._bandwidth.take(size_bytes)
        self._serving.metrics.count("received_bytes", size_bytes)

    def _send_turn(self, size_bytes: int) -> None:
        self._bandwidth.take(size_bytes)
        self._serving.metrics.count("sent_bytes", size_bytes)
        self._sent_bytes += size_bytes

    def _pace(self) -> None:
        rate = self._limits.requests_per_second
        if rate:
            now = clock.elapsed_seconds()
            self._next_request_at = max(self._next_request_at, now - 1.0) + 1 / rate
            self._serving.pause(self._next_request_at - now)

    def _end(self) -> None:
        self.answers.deadline = None
        if self._job is not None:
            self._changes.close()
            self._serving.bandwidths.leave(self.peer.name, self._job)
            self._store.close()
        self.channel.close()
