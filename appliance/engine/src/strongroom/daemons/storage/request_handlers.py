"""The requests of one connection of a storage daemon: does each, and answers it.

For the thread of the connection; which requests the peer may send is decided before (`session`).
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom.daemons.storage.changes import Changes
from strongroom.daemons.storage.provenance import DOUBTED, FALSE, VOUCHED
from strongroom.errors import DamageError, ObjectMissingError, RightError
from strongroom.net.channels.local_channel import local_peer
from strongroom.net.storage.protocol import (
    LISTED_AT_ONCE,
    FrameType,
    ObjectName,
    ObjectPart,
    Probe,
    SharedCharge,
    Vouching,
    decode,
)
from strongroom.stores.store import Kind, require_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.daemons.storage.accounts import JobBandwidth
    from strongroom.daemons.storage.incoming_payload import Incoming
    from strongroom.daemons.storage.provenance import Provenance
    from strongroom.daemons.storage.response_writer import ResponseWriter
    from strongroom.daemons.storage.rights import StorageRights
    from strongroom.daemons.storage.served_repository import ServedRepository
    from strongroom.daemons.storage.serving import Serving
    from strongroom.daemons.storage.uploads import UploadPlaces
    from strongroom.net.identities.peer import Peer
    from strongroom.net.storage.frames import Frame
    from strongroom.stores.servable import ServableStore
    from strongroom.stores.store import ObjectInfo

log = logging.getLogger("strongroom.storage")

# What the names of a large repository take.
_HELD_FOR_NAMES: Final = 16 << 20
_HELD_FOR_A_NAME: Final = 512
_LISTING_ATTEMPTS: Final = 5


class RequestHandlers:
    """See the module's docstring. `by_type`: what does a request, by its type.

    shown: the peer, for the log. places: for its uploads. incoming: the payload that is arriving.
    sent_bytes: of objects; the session counts them for each request.
    """

    incoming: Incoming

    def __init__(
        self,
        serving: Serving,
        served: ServedRepository,
        store: ServableStore,
        rights: StorageRights,
        bandwidth: JobBandwidth,
        answers: ResponseWriter,
        peer: Peer,
        shown: str,
        places: UploadPlaces,
    ) -> None:
        self._serving = serving
        self._served = served
        self._store = store
        self._rights = rights
        self._bandwidth = bandwidth
        self._answers = answers
        self._peer = peer
        self._shown = shown
        self.changes = Changes(
            served, store, rights, serving.limits, shown, self._receive_turn, places
        )
        self.sent_bytes = 0
        self._deleted: Counter[str] = Counter()
        self.by_type: dict[int, Callable[[Frame], None]] = {
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

    @property
    def _book(self) -> Provenance:
        return self._served.book

    def close(self) -> None:
        """The connection has ended."""
        self.changes.close()
        if self._deleted:
            counts = (f"{kind}: {count:,}" for kind, count in sorted(self._deleted.items()))
            self._tell_deleted(", ".join(counts))

    def held_for_names(self) -> int:
        """What a request takes whose answer is names."""
        view = self._rights.view
        is_known = view is not None and self._served.is_there
        count = self._served.quotas.objects(view) if view is not None and is_known else 0
        return max(_HELD_FOR_NAMES, _HELD_FOR_A_NAME * count)

    def _list(self, frame: Frame) -> None:
        kind: Kind = decode(frame.header, Kind)  # type: ignore[arg-type]
        hidden, seen = self._rights.hidden_or_seen(kind, self._book)
        batch: list[ObjectInfo] = []
        for info in self._store.list(kind) if seen is None else self._seen_of(kind):
            if info.name in hidden:
                continue
            batch.append(info)
            if len(batch) == LISTED_AT_ONCE:
                self._answers.send_part(msgspec.msgpack.encode(batch))
                batch = []
        if batch:
            self._answers.send_part(msgspec.msgpack.encode(batch))
        self._answers.send(None)

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
            self._answers.send_object(found, part.offset, length, self._send_turn)
        self._answers.send(None)

    def _info(self, frame: Frame) -> None:
        wanted = decode(frame.header, ObjectName)
        self._require_seen(wanted.kind, wanted.name)
        self._answers.send(self._store.info(wanted.kind, wanted.name))

    def _put(self, frame: Frame) -> None:
        self._answers.send(self.changes.put(frame))

    def _data(self, frame: Frame) -> None:
        self.changes.data(frame, self.incoming)

    def _commit(self, frame: Frame) -> None:
        self._answers.send(self.changes.commit(frame))

    def _abort(self, frame: Frame) -> None:
        self.changes.abort(frame)

    def _delete(self, frame: Frame) -> None:
        deleted = self.changes.delete(frame)
        kind = deleted.partition(" ")[0]
        if kind == "snapshots":
            self._tell_deleted(deleted)
        elif kind:
            # A prune removes 100,000 packs; their names say nothing to anybody.
            self._deleted[kind] += 1
        self._answers.send(None)

    def _tell_deleted(self, what: str) -> None:
        says = "%s: deleted %s"
        self._serving.lines.say(logging.INFO, self._peer, says, self._shown, what)

    def _sync(self, frame: Frame) -> None:
        self._store.sync()
        self._book.sync()
        self._answers.send(None)

    def _prepare(self, frame: Frame) -> None:
        self._served.make()
        self._store.prepare()
        self._answers.send(None)

    def _remove_abandoned(self, frame: Frame) -> None:
        # Uploads of open connections are locked, those of closed ones were removed already.
        local = self._rights.role == "local"
        self._answers.send(self._store.remove_abandoned() if local else 0)

    def _limit(self, frame: Frame) -> None:
        self._bandwidth.limit(decode(frame.header, int))
        self._answers.send(None)

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
            self._answers.send_part(msgspec.msgpack.encode(listed[start : start + LISTED_AT_ONCE]))
        self._answers.send(None)

    def _owners(self, frame: Frame) -> None:
        pairs = self._book.owners(decode(frame.header, Kind))  # type: ignore[arg-type]
        for start in range(0, len(pairs), LISTED_AT_ONCE):
            self._answers.send_part(msgspec.msgpack.encode(pairs[start : start + LISTED_AT_ONCE]))
        self._answers.send(None)

    def _charge(self, frame: Frame) -> None:
        charge = decode(frame.header, SharedCharge)
        self._served.charge(charge.client, charge.size_bytes)
        self._book.sync()
        self._answers.send(None)

    def _probe(self, frame: Frame) -> None:
        wanted = decode(frame.header, Probe)
        self._receive_turn(len(frame.payload))
        self._send_turn(wanted.answer_bytes)
        if wanted.answer_bytes:
            self._answers.send_noise(wanted.answer_bytes)
        self._answers.send(None)

    def _confirm_clock(self, frame: Frame) -> None:
        # Maintenance users may delete, but not decide how old the deleted objects are.
        if self._peer.name not in {local_peer(user).name for user in (0, os.geteuid())}:
            raise RightError(
                f"{self._peer} may not confirm the clock: only root and the daemon's user may"
            )
        self._answers.send(self._serving.confirm_clock(str(self._peer)))

    def _vouch(self, frame: Frame) -> None:
        vouching = decode(frame.header, Vouching)
        self._book.judge(vouching.kind, vouching.names, VOUCHED if vouching.sound else FALSE)
        if not vouching.sound:
            shown = ", ".join(vouching.names)
            log.warning("%s: found false: %s %s", self._shown, vouching.kind, shown)
        self._book.sync()
        self._answers.send(None)

    def _metrics(self, frame: Frame) -> None:
        self._answers.send_part(self._serving.metrics_text())
        self._answers.send(None)

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
        self.sent_bytes += size_bytes
