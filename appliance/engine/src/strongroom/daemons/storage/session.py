"""One connection of a storage daemon: reads requests, does them one after the other, answers.

Each connection has a thread and a store of its own; all connections share the book, the quotas and
the bandwidth of their job. `deadline` is written by this thread and read by the daemon's watch,
which ends a connection that is too slow: nothing a peer does or leaves undone holds a thread.

A snapshot of an agent is stored only while the agent holds a lease, and taken back if the lease
went meanwhile: a prune that took the agent for dead removed the lease before it listed snapshots.
"""

from __future__ import annotations

import logging
import os
import traceback
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom import clock
from strongroom.content.digests import is_object_name
from strongroom.daemons.storage.provenance import DOUBTED, FALSE, VOUCHED
from strongroom.daemons.storage.rights import rights_of
from strongroom.daemons.storage.uploads import Upload
from strongroom.errors import (
    ConnectionLostError,
    DamageError,
    LeaseError,
    ObjectMissingError,
    PeerRefusedError,
    ProtocolError,
    QuotaError,
    RightError,
    StoreError,
    StrongroomError,
)
from strongroom.net.frames import FLAG_MORE, FrameReader, encode_start
from strongroom.net.storage_protocol import (
    LARGEST_PART_BYTES,
    LISTED_AT_ONCE,
    PROTOCOL_VERSION,
    CommitUpload,
    Failure,
    FrameType,
    Hello,
    ObjectName,
    ObjectPart,
    PutObject,
    UploadData,
    Vouching,
    Welcome,
    decode,
    encode,
)
from strongroom.stores.local_root import object_path
from strongroom.stores.store import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.daemons.storage.accounts import Bandwidth
    from strongroom.daemons.storage.served import ServedRepository
    from strongroom.daemons.storage.server import StorageServer
    from strongroom.net.channel import Channel
    from strongroom.net.frames import Frame
    from strongroom.net.storage_protocol import PutMode
    from strongroom.stores.local import LocalStore
    from strongroom.stores.store import ObjectInfo

log = logging.getLogger("strongroom.storage")

# Objects whose name is the digest of their bytes.
_DIGESTED: Final = frozenset(("packs", "index", "snapshots", "keys", "tombstones"))
_SMALL_KINDS: Final = frozenset(("config", "leases", "keys", "tombstones"))
# How long an agent may take back a snapshot that it has just stored.
_UNDO_SECONDS: Final = 600.0
# An honest client gives up at the first; more would only fill the log.
_MOST_REFUSALS: Final = 100
_SILENT: Final = frozenset((FrameType.DATA, FrameType.ABORT))
# Answers this small are sent by copying: that is one system call instead of three.
_COPIED_BYTES: Final = 64 << 10


class Session:
    """See the module's docstring. `run` serves until the peer leaves or is thrown out."""

    def __init__(self, server: StorageServer, channel: Channel, address: str) -> None:
        self._server = server
        self._limits = server.limits
        self.channel = channel
        self.peer = channel.peer
        self.shown = f"{channel.peer} at {address}"
        self.deadline: float | None = None
        self._uploads: dict[int, Upload] = {}
        self._undo: dict[str, float] = {}
        self._job: str | None = None
        self._next_request_at = 0.0
        self._refusals = 0
        self._handlers: dict[int, Callable[[Frame], None]] = {
            FrameType.LIST: self._list,
            FrameType.GET: self._get,
            FrameType.SIZE: self._size,
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
        }

    def run(self) -> None:
        """Serve; whatever happens to this connection ends here."""
        reader = FrameReader(self.channel)
        try:
            self._allow(self._limits.greeting_seconds)
            self._greet(reader)
            while True:
                self._allow(self._limits.idle_seconds)
                start = reader.start()
                self._allow_bytes(start.payload_size)
                frame = reader.rest(start)
                self.deadline = None
                if not self._serve(frame):
                    return
        except ConnectionLostError as error:
            if not error.clean or self._uploads:
                log.info("%s: connection lost: %s", self.shown, error)
        except (ProtocolError, PeerRefusedError) as error:
            self._server.metrics.count("failures", error=error.error_id)
            log.warning("%s: thrown out: %s", self.shown, error)
        finally:
            self._end()

    def _greet(self, reader: FrameReader) -> None:
        frame = reader.rest(reader.start())
        self._request_id = frame.request_id
        try:
            if frame.type != FrameType.HELLO:
                raise ProtocolError("a connection begins with a greeting")
            hello = decode(frame.header, Hello)
            if hello.protocol != PROTOCOL_VERSION:
                raise ProtocolError(
                    f"the client speaks version {hello.protocol} of the protocol, the storage "
                    f"daemon {PROTOCOL_VERSION}; upgrade the older side"
                )
            grant = self._server.read_grant(hello.grant) if hello.grant else None
            self._rights = rights_of(self.peer, hello.view_as, grant)
            self._served: ServedRepository = self._server.repository(hello.repository)
        except StrongroomError as error:
            self._fail(error)
            raise PeerRefusedError(str(error)) from error
        self._book = self._served.book
        self._store: LocalStore = self._served.open_store()
        self._bandwidth: Bandwidth = self._server.bandwidths.enter(self.peer.name, hello.job)
        self._job = hello.job
        self._answer(Welcome(PROTOCOL_VERSION, self.peer.role, self._limits.uploads))

    def _serve(self, frame: Frame) -> bool:
        """Do one request; False when the connection is of no more use."""
        self._request_id = frame.request_id
        self._pace()
        try:
            handler = self._handlers.get(frame.type)
            if handler is None:
                raise ProtocolError(f"a request of type {frame.type} is unknown, or out of place")
            self._rights.require_request(FrameType(frame.type))
            handler(frame)
        except ConnectionLostError:
            raise
        except StrongroomError as error:
            self._server.metrics.count("failures", error=error.error_id)
            if isinstance(error, ObjectMissingError):
                log.debug("%s: %s", self.shown, error)
            elif isinstance(error, RightError | QuotaError | ProtocolError | DamageError):
                self._refusals += 1
                log.warning("%s: refused: %s", self.shown, error)
            elif isinstance(error, StoreError):
                log.error("%s: failed: %s", self.shown, error)  # noqa: TRY400 - it says enough
            if frame.type not in _SILENT:
                self._fail(error)
            if self._refusals > _MOST_REFUSALS:
                raise PeerRefusedError(f"{self._refusals} of its requests were refused") from error
            return not isinstance(error, ProtocolError)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the daemon
            self._server.metrics.count("failures", error="bug")
            log.error("%s: a fault of the daemon:\n%s", self.shown, traceback.format_exc())  # noqa: TRY400
            self._fail(StoreError(f"a fault in the storage daemon: {type(error).__name__}"))
            return False
        self._server.metrics.count("requests", type=FrameType(frame.type).name.lower())
        return True

    def _list(self, frame: Frame) -> None:
        kind: Kind = decode(frame.header, Kind)  # type: ignore[arg-type]
        hidden, seen = self._rights.hidden_or_seen(kind, self._book)
        batch: list[ObjectInfo] = []
        for info in self._store.list(kind):
            if info.name in hidden or (seen is not None and info.name not in seen):
                continue
            batch.append(info)
            if len(batch) == LISTED_AT_ONCE:
                self._send_part(msgspec.msgpack.encode(batch))
                batch = []
        if batch:
            self._send_part(msgspec.msgpack.encode(batch))
        self._answer(None)

    def _get(self, frame: Frame) -> None:
        part = decode(frame.header, ObjectPart)
        self._require_seen(part.kind, part.name)
        descriptor, size = self._store.open_object(part.kind, part.name)
        try:
            length = max(0, size - part.offset) if part.length is None else part.length
            if part.offset < 0 or length < 0 or part.offset + length > size:
                raise DamageError(
                    f"{part.kind} {part.name} is cut off: {length} bytes wanted at {part.offset} "
                    f"of {size}; run check"
                )
            offset = part.offset
            while length:
                count = min(length, LARGEST_PART_BYTES)
                self._bandwidth.take(count)
                self._allow_bytes(count)
                start = encode_start(
                    FrameType.PART, FLAG_MORE if count < length else 0, self._request_id, b"", count
                )
                if count <= _COPIED_BYTES:
                    data = os.pread(descriptor, count, offset)
                    if len(data) < count:
                        raise DamageError(f"{part.kind} {part.name} shrank while it was read")
                    self.channel.send(start, data)
                else:
                    self.channel.send(start)
                    self.channel.send_file(descriptor, offset, count)
                self._server.metrics.count("sent_bytes", count)
                offset += count
                length -= count
        except OSError as error:
            # A frame may have been begun.
            raise ConnectionLostError(f"could not read {part.kind} {part.name}: {error}") from error
        finally:
            os.close(descriptor)
        self._answer(None)

    def _size(self, frame: Frame) -> None:
        wanted = decode(frame.header, ObjectName)
        self._require_seen(wanted.kind, wanted.name)
        self._answer(self._store.size(wanted.kind, wanted.name))

    def _put(self, frame: Frame) -> None:
        header = decode(frame.header, PutObject)
        upload = self._new_upload(header.kind)
        self._take(upload, frame.payload)
        self._answer(self._name(upload, header.name, header.mode))

    def _data(self, frame: Frame) -> None:
        header = decode(frame.header, UploadData)
        upload = self._uploads.get(header.number)
        if upload is None:
            if len(self._uploads) >= self._limits.uploads:
                raise ProtocolError(f"more than {self._limits.uploads} uploads at once")
            upload = self._uploads[header.number] = self._new_upload(header.kind)
        self._take(upload, frame.payload)

    def _commit(self, frame: Frame) -> None:
        header = decode(frame.header, CommitUpload)
        upload = self._uploads.pop(header.number, None)
        if upload is None:
            raise ProtocolError(f"nothing was sent of upload {header.number}")
        self._answer(self._name(upload, header.name, header.mode))

    def _abort(self, frame: Frame) -> None:
        upload = self._uploads.pop(decode(frame.header, int), None)
        if upload is not None:
            upload.abort()

    def _delete(self, frame: Frame) -> None:
        wanted = decode(frame.header, ObjectName)
        kind, name = wanted.kind, wanted.name
        undone = kind == "snapshots" and self._undo.pop(name, 0.0) > clock.elapsed_seconds()
        own_lease = kind == "leases" and self._book.is_held(kind, name, self._rights.owner)
        if self._rights.role != "local" and not undone and not own_lease:
            if kind == "leases" and self._book.standing(kind, name) is None:
                # Given back already, or removed by a prune.
                self._answer(None)
                return
            raise RightError(f"{self.peer} may not delete {kind} {name}: only maintenance may")
        if kind == "snapshots" and not undone:
            self._require_old(name)
        self._store.delete(kind, name)
        for owner, size in self._book.forget(kind, name):
            self._served.quotas.release(owner, size)
        if kind != "leases":
            log.info("%s: deleted %s %s", self.shown, kind, name)
        self._answer(None)

    def _sync(self, frame: Frame) -> None:
        self._store.sync()
        self._book.sync()
        self._answer(None)

    def _prepare(self, frame: Frame) -> None:
        self._store.prepare()
        self._answer(None)

    def _remove_abandoned(self, frame: Frame) -> None:
        # Uploads of living connections are locked, those of dead ones were removed with them.
        local = self._rights.role == "local"
        self._answer(self._store.remove_abandoned() if local else 0)

    def _limit(self, frame: Frame) -> None:
        self._bandwidth.limit(decode(frame.header, int))
        self._answer(None)

    def _doubted(self, frame: Frame) -> None:
        kind: Kind = decode(frame.header, Kind)  # type: ignore[arg-type]
        # An agent sees nothing but what it stored itself and what was vouched for.
        doubted = [] if self._rights.view else sorted(self._book.of_standing(kind, DOUBTED))
        for start in range(0, len(doubted), LISTED_AT_ONCE):
            self._send_part(msgspec.msgpack.encode(doubted[start : start + LISTED_AT_ONCE]))
        self._answer(None)

    def _vouch(self, frame: Frame) -> None:
        vouching = decode(frame.header, Vouching)
        self._book.judge(vouching.kind, vouching.names, VOUCHED if vouching.sound else FALSE)
        if not vouching.sound:
            shown = ", ".join(vouching.names)
            log.warning("%s: found false and hidden: %s %s", self.shown, vouching.kind, shown)
        self._book.sync()
        self._answer(None)

    def _metrics(self, frame: Frame) -> None:
        self._send_part(self._server.metrics_text().encode())
        self._answer(None)

    def _new_upload(self, kind: Kind) -> Upload:
        largest = self._limits.object_bytes
        if kind in _SMALL_KINDS:
            largest = self._limits.small_object_bytes
        return Upload(self._store, kind, self._rights.owner, self._served.quotas, largest)

    def _take(self, upload: Upload, data: memoryview) -> None:
        self._bandwidth.take(len(data))
        upload.write(data)
        self._server.metrics.count("received_bytes", len(data))

    def _name(self, upload: Upload, name: str, mode: PutMode) -> bool:
        """Finish an upload; whether the name was free."""
        kind, owner = upload.kind, self._rights.owner
        try:
            self._rights.require_adding(kind, name, mode, self._book)
            self._require_fit(kind, name)
            size = upload.size_bytes
            was_free = upload.commit(self._store, name, mode, is_digest=kind in _DIGESTED)
        finally:
            upload.abort()
        if mode == "new" and not was_free:
            upload.release()
            return False
        now_ns = clock.now_ns()
        appliance = self._rights.is_appliance
        if not self._book.record(kind, name, size, owner, now_ns, vouched=appliance):
            upload.release()
        if kind == "snapshots":
            self._undo[name] = clock.elapsed_seconds() + _UNDO_SECONDS
            self._confirm_lease(name)
        if mode in ("durable", "replace"):
            self._book.sync()
        return was_free

    def _require_fit(self, kind: Kind, name: str) -> None:
        if kind in _DIGESTED and not is_object_name(name):
            raise DamageError(f"{name!r} is no name of an object of {kind}")
        if self._book.standing(kind, name) == FALSE:
            raise DamageError(f"{kind} {name} was found false and is not taken again")
        owner = self._rights.owner
        if not owner:
            return
        if kind == "leases":
            held = self._book.held("leases", owner)
            if name not in held and len(held) >= self._limits.leases_each:
                held = {one for one in held if self._is_there("leases", one)}
            if name not in held and len(held) >= self._limits.leases_each:
                raise QuotaError(f"{owner} holds {len(held)} leases already")
        if kind == "snapshots" and not self._holds_lease():
            raise LeaseError("no snapshot is taken without a lease; run the same command again")

    def _confirm_lease(self, name: str) -> None:
        if self._rights.owner and not self._holds_lease():
            self._store.delete("snapshots", name)
            for owner, size in self._book.forget("snapshots", name):
                self._served.quotas.release(owner, size)
            raise LeaseError(
                "the lease of this job ended while it committed; the commit was taken back: run "
                "the same command again"
            )

    def _holds_lease(self) -> bool:
        held = self._book.held("leases", self._rights.owner)
        return any(self._is_there("leases", name) for name in held)

    def _is_there(self, kind: Kind, name: str) -> bool:
        """Whether an object of the book is there: maintenance without the daemon removes too."""
        try:
            self._store.size(kind, name)
        except ObjectMissingError:
            self._book.forget(kind, name)
            return False
        return True

    def _require_old(self, name: str) -> None:
        minimum = self._limits.minimum_retention_seconds
        stored_ns = self._book.stored_ns("snapshots", name)
        if not minimum or stored_ns is None:
            return
        age_seconds = (clock.now_ns() - stored_ns) / 1e9
        if age_seconds < minimum:
            raise RightError(
                f"snapshot {name} is {age_seconds / 86400:.1f} days old, and nothing younger than "
                f"{minimum / 86400:.1f} days is deleted (Minimum Retention of the storage daemon)"
            )

    def _require_seen(self, kind: Kind, name: str) -> None:
        if not self._rights.sees(kind, name, self._book):
            # The store's own words: whether others have it is not told. A bad name still is bad.
            object_path(kind, name)
            raise ObjectMissingError(f"{kind} {name} is missing; run check to see what needs it")

    def _send_part(self, data: bytes) -> None:
        for at in range(0, len(data), LARGEST_PART_BYTES):
            part = memoryview(data)[at : at + LARGEST_PART_BYTES]
            flags = FLAG_MORE if at + len(part) < len(data) else 0
            self._allow_bytes(len(part))
            start = encode_start(FrameType.PART, flags, self._request_id, b"", len(part))
            self.channel.send(start, part)

    def _answer(self, value: object) -> None:
        self._allow_bytes(0)
        self.channel.send(encode_start(FrameType.OK, 0, self._request_id, encode(value), 0))

    def _fail(self, error: StrongroomError) -> None:
        self._allow_bytes(0)
        header = encode(Failure(error.error_id, str(error)[:4096]))
        self.channel.send(encode_start(FrameType.FAILED, 0, self._request_id, header, 0))

    def _allow(self, seconds: float) -> None:
        self.deadline = clock.elapsed_seconds() + seconds

    def _allow_bytes(self, size_bytes: int) -> None:
        self._allow(self._limits.stall_seconds + size_bytes / self._limits.slowest_bytes_per_second)

    def _pace(self) -> None:
        rate = self._limits.requests_per_second
        if rate:
            now = clock.elapsed_seconds()
            self._next_request_at = max(self._next_request_at, now - 1.0) + 1 / rate
            self._server.pause(self._next_request_at - now)

    def _end(self) -> None:
        self.deadline = None
        for upload in self._uploads.values():
            upload.abort()
        if self._job is not None:
            self._server.bandwidths.leave(self.peer.name, self._job)
            self._store.close()
        self.channel.close()
