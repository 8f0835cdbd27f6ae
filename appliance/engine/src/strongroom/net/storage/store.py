"""A repository at a storage daemon, as a store like any other.

Objects that are streamed are sent without waiting; only `commit` waits, until the object has its
name, so latency to a remote daemon costs nothing while packs are filled. After a lost connection
every call of the store object raises ConnectionLostError. The job fails, and its next run finds
what was stored by the index and the packs, and does not send it again.

Any thread may use the store; each writer belongs to one thread at a time. `reopen` after a fork
makes its own connection and leaves the inherited one alone. Connections are made at first use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from typing_extensions import Buffer

from strongroom.engine.stores.capabilities import own_capability
from strongroom.engine.stores.shared_counts import Traffic
from strongroom.engine.stores.store import Kind, ObjectInfo, Writer
from strongroom.net.channels.channel import Channel, Security
from strongroom.net.storage.client import StorageAnswer, StorageClient
from strongroom.net.storage.object_cache import ObjectCache
from strongroom.net.storage.protocol import (
    LARGEST_PART_BYTES,
    UPLOAD_PART_BYTES,
    FrameType,
    ObjectName,
    ObjectPart,
    PutMode,
    PutObject,
    SharedCharge,
    StorageHello,
    Verdicts,
    decode,
    decode_info,
    decode_infos,
    decode_names,
)
from strongroom.net.storage.read_ahead import (
    AT_FIRST,
    WINDOW_OBJECTS,
    ConnectionsAhead,
    ReadAhead,
    RequestsAhead,
    RequestSeries,
    SpeculativeRequest,
    after_lease,
    after_renewal,
)
from strongroom.net.storage.writer import RemoteWriter

_Capability = TypeVar("_Capability")

# Kinds that are listed and then read one by one; those that are also kept on this machine.
_READ_AHEAD: Final = frozenset(("index", "snapshots", "tombstones"))
_CACHED: Final = frozenset(("index", "snapshots"))


class RemoteStore:
    """A `strongroom.engine.stores.store.Store` behind a connection."""

    def __init__(
        self,
        location: str,
        connect: Callable[[], Channel],
        hello: StorageHello,
        cache_folder: bytes | None = None,
        *,
        is_far: bool = False,
        client: StorageClient | None = None,
    ) -> None:
        """`connect` makes a new connection; `cache_folder` keeps index objects and snapshots.

        `is_far`: connections to the daemon have latency, so a job's usual requests are sent ahead.
        `client`: an existing connection.
        """
        self.location = location
        self._connect = connect
        self._hello = hello
        self._cache_folder = cache_folder
        self._cache = None if cache_folder is None else ObjectCache(cache_folder)
        self._is_far = is_far
        self.most_together, self.has_read_ahead = (WINDOW_OBJECTS if is_far else 1), True
        self.takes_changes = False
        self.traffic: Traffic | None = None
        self._requests_ahead = RequestsAhead()
        self._lease = ""
        self._series: RequestSeries | None = None
        self._connecting = threading.Lock()
        self._client = client
        self._own_ahead = ConnectionsAhead(self._dial, 0)
        self._copies_ahead = ConnectionsAhead(self._dial, 0)
        self._reading = threading.Lock()
        self._ahead: dict[Kind, ReadAhead] = {}
        self._latest: tuple[str, bytes] | None = None

    @property
    def security(self) -> Security:
        """What protects the connection."""
        return self.client().security

    @property
    def role(self) -> str:
        """Our role for the daemon."""
        return self.client().welcome.role

    def client(self) -> StorageClient:
        """The connection, made now if there is none. Raises ConnectionLostError and the like."""
        with self._connecting:
            if self._client is None:
                self._client = self._own_ahead.take_only() or self._dial()
            return self._client

    def prepare(self) -> None:
        """Make folders at the daemon; only on its own machine."""
        self.client().ask(FrameType.PREPARE, None)

    def writer(self, kind: Kind) -> Writer:
        """Begin an object that is sent while it is written."""
        return self._stream(kind)

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object."""
        self._put(kind, name, data, "put")

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        """Store a small object unless the name is taken."""
        return self._put(kind, name, data, "new")

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object; it is on stable storage when this returns."""
        self._put(kind, name, data, "durable")

    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object, replacing the one of that name."""
        self._put(kind, name, data, "replace")

    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read an object or a part of it."""
        if kind in _READ_AHEAD:
            return self._get_small(kind, name, offset, length)
        if kind == "config":
            part = ObjectPart(kind, name, offset, length)
            return self._requests_ahead.ask(self.client(), FrameType.GET, part).payload()
        return self._get(kind, name, offset, length)

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """Size of an object in bytes, and its time by the daemon's clock."""
        answer = self._requests_ahead.ask(self.client(), FrameType.INFO, ObjectName(kind, name))
        return decode_info(answer.header)

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        """Every object of a kind that is visible to us, complete before the first is returned."""
        answer = self._requests_ahead.ask(self.client(), FrameType.LIST, kind)
        infos = [info for part in answer.parts for info in decode_infos(part)]
        if kind in _READ_AHEAD:
            names = {info.name for info in infos}
            if self._cache is not None and kind in _CACHED:
                self._cache.keep_only(kind, names)
            with self._reading:
                self._ahead[kind] = ReadAhead(kind, infos, lambda name: self._has(kind, name))
        return iter(infos)

    def list_ahead(
        self, kinds: Sequence[Kind], meanwhile: Callable[[], _Capability]
    ) -> _Capability:
        """What `meanwhile` gives; the next `list` of each kind gives what is there meanwhile."""
        if self._is_far:
            self._ask_ahead(kinds)
        return meanwhile()

    def delete(self, kind: Kind, name: str) -> None:
        """Remove an object; RightError for a peer without that right."""
        if name == self._lease:
            self._lease = ""
        self.change(FrameType.DELETE, ObjectName(kind, name))

    def remove_abandoned(self) -> int:
        """Remove what dead writers left; the daemon removes that of its own clients."""
        if self.role == "agent":
            return 0
        return decode(self.change(FrameType.REMOVE_ABANDONED, None).header, int)

    def sync(self) -> None:
        """Everything put so far is on the daemon's stable storage when this returns."""
        self.change(FrameType.SYNC, None, following=self._lease_questions())

    def unverified(self, kind: Kind) -> frozenset[str]:
        """Objects of a kind that the appliance has not verified, for roles that see them."""
        if self.role == "agent":
            # An agent sees only what it stored itself and what was verified.
            return frozenset()
        answer = self._requests_ahead.ask(self.client(), FrameType.UNVERIFIED, kind)
        return frozenset(name for part in answer.parts for name in decode_names(kind, part))

    def false(self, kind: Kind) -> frozenset[str]:
        """Objects of a kind that were found false, for roles that see them."""
        if self.role not in ("director", "local"):
            return frozenset()
        answer = self.client().ask(FrameType.FALSE, kind)
        return frozenset(name for part in answer.parts for name in decode_names(kind, part))

    def owners(self, kind: Kind) -> dict[str, set[str]]:
        """Who has stored each object of a kind, "" for the appliance; only an appliance may ask."""
        found: dict[str, set[str]] = {}
        for part in self.client().ask(FrameType.OWNERS, kind).parts:
            for name, owner in decode(part, list[tuple[str, str]]):
                found.setdefault(name, set()).add(owner)
        return found

    def vouch(self, kind: Kind, names: Sequence[str], *, sound: bool) -> None:
        """Mark objects as verified, or as false and hidden; only an appliance may."""
        for start in range(0, len(names), 512):
            chosen = tuple(names[start : start + 512])
            self.change(FrameType.VOUCH, Verdicts(kind, chosen, sound))

    def charge(self, client_id: bytes, size_bytes: int) -> None:
        """Set what shared packs hold in place of a client; only on the daemon's own machine."""
        self.change(FrameType.CHARGE, SharedCharge(client_id, size_bytes))

    def metrics(self) -> str:
        """The daemon's metrics in Prometheus' format; only on its own machine."""
        return self.client().ask(FrameType.METRICS, None).payload().decode()

    @contextmanager
    def together(self) -> Iterator[RequestSeries | None]:
        """Changes by this thread are sent at the end, each done only if those before it were."""
        if not self._is_far:
            yield None
            return
        series = self._series = RequestSeries()
        try:
            yield series
        finally:
            self._series = None
        client = self.client()
        if series.requests:
            series.settle(client, self._requests_ahead.request_series(client, series.requests))

    def change(
        self,
        frame_type: FrameType,
        header: object,
        data: Buffer = b"",
        following: Sequence[SpeculativeRequest] = (),
    ) -> StorageAnswer:
        """Do a request that changes something, and send the expected requests after it."""
        if self._series is not None and self._series.is_ours:
            return self._series.add(frame_type, header, data)
        client = self.client()
        return client.wait(
            self._requests_ahead.request(client, frame_type, header, data, following)
        )

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        """The capabilities of a daemon: see strongroom.engine.stores.capabilities."""
        return own_capability(self, wanted)

    def reopen(self) -> RemoteStore:
        """The same store with its own connection, begun now if it has latency."""
        again = self._copy()
        again.connect_ahead(0, ())
        return again

    def connect_ahead(
        self, copies: int, questions: Sequence[SpeculativeRequest] = AT_FIRST
    ) -> None:
        """Connect in the background, and for this many `copy_ahead` as well, if it has latency.

        `questions`: the first requests.
        """

        def connect() -> StorageClient:
            client = self._dial()
            self._requests_ahead.send(client, questions)
            # Not earlier: a daemon limits concurrent handshakes, and a copy is optional.
            self._copies_ahead = ConnectionsAhead(self._dial, copies)
            return client

        if self._is_far:
            self._own_ahead = ConnectionsAhead(connect, 1)

    def copy_ahead(self) -> RemoteStore | None:
        """The same store with a connection made ahead, None if there is none; no thread runs."""
        client = self._copies_ahead.take()
        if client is None:
            return None
        return self._copy(client)

    def close(self) -> None:
        """End the connection."""
        with self._connecting:
            # In this order: the first starts the others.
            self._own_ahead.close()
            self._copies_ahead.close()
            if self._client is not None:
                self._client.close()
        if self._cache is not None:
            self._cache.close()

    def _copy(self, client: StorageClient | None = None) -> RemoteStore:
        copy = type(self)(
            self.location,
            self._connect,
            self._hello,
            self._cache_folder,
            is_far=self._is_far,
            client=client,
        )
        copy.traffic = self.traffic
        return copy

    def _dial(self) -> StorageClient:
        channel = self._connect()
        try:
            return StorageClient(channel, self._hello, self.location, traffic=self.traffic)
        except BaseException:
            channel.close()
            raise

    def _put(self, kind: Kind, name: str, data: Buffer, mode: PutMode) -> bool:
        if self._cache is not None and kind in _CACHED:
            # The next job reads it; if it does not arrive, that job discards it.
            self._cache.put(kind, name, bytes(data))
        if memoryview(data).nbytes <= UPLOAD_PART_BYTES:
            following = self._questions_after(kind, name, mode)
            answer = self.change(FrameType.PUT, PutObject(kind, name, mode), data, following)
            return decode(answer.header, bool)
        writer = self._stream(kind)
        try:
            writer.write(data)
            return writer.finish(name, mode)
        finally:
            writer.abort()

    def _stream(self, kind: Kind) -> RemoteWriter:
        return RemoteWriter(self.client(), kind, self.change)

    def _ask_ahead(self, kinds: Sequence[Kind]) -> None:
        questions = [SpeculativeRequest(FrameType.LIST, kind) for kind in kinds]
        if "index" in kinds and self.role != "agent":
            questions.append(SpeculativeRequest(FrameType.UNVERIFIED, "index"))
        self._requests_ahead.keep_all()
        self._requests_ahead.send(self.client(), questions)

    def _questions_after(
        self, kind: Kind, name: str, mode: PutMode
    ) -> Sequence[SpeculativeRequest]:
        """The requests of a job once it has put this object."""
        if not self._is_far:
            return ()
        if kind == "leases" and mode == "new":
            self._lease = name
            return after_lease(name)
        if kind == "leases":
            return after_renewal(name)
        return self._lease_questions() if kind == "snapshots" else ()

    def _lease_questions(self) -> Sequence[SpeculativeRequest]:
        """Before and after a commit a job checks that its lease exists."""
        return after_renewal(self._lease) if self._lease else ()

    def _get(self, kind: Kind, name: str, offset: int, length: int | None) -> bytes:
        client = self.client()
        if length is None or length < LARGEST_PART_BYTES:
            return client.ask(FrameType.GET, ObjectPart(kind, name, offset, length)).payload()
        answer = client.request(
            FrameType.GET, ObjectPart(kind, name, offset, length), limit_bytes=length
        )
        return client.wait(answer).payload()

    def _get_small(self, kind: Kind, name: str, offset: int, length: int | None) -> bytes:
        with self._reading:
            cached = self._cached(kind, name, length)
            if cached is None:
                cached = self._read_whole(kind, name, length)
        if cached is None or offset > len(cached) or offset + (length or 0) > len(cached):
            # A missing object is reported by the daemon.
            return self._get(kind, name, offset, length)
        return cached[offset : None if length is None else offset + length]

    def _cached(self, kind: Kind, name: str, length: int | None) -> bytes | None:
        if self._cache is None or kind not in _CACHED:
            return None
        if self._latest is None or self._latest[0] != name:
            data = self._cache.get(kind, name)
            self._latest = None if data is None else (name, data)
        latest = self._latest
        if length is None:
            # A reader that reached the end does not come back.
            self._latest = None
        return None if latest is None else latest[1]

    def _read_whole(self, kind: Kind, name: str, length: int | None) -> bytes | None:
        """The object, or as much of its beginning as is needed; None when it was not listed."""
        ahead = self._ahead.get(kind)
        size = None if ahead is None else ahead.size_of(name)
        head = None if ahead is None or size is None else ahead.head(self.client(), name)
        if head is None or size is None:
            return None
        if length is None and len(head) < size:
            head += self._get(kind, name, len(head), None)
        if len(head) == size and self._cache is not None and kind in _CACHED:
            self._cache.put(kind, name, head)
        return head

    def _has(self, kind: Kind, name: str) -> bool:
        return self._cache is not None and self._cache.has(kind, name)
