"""The requests of one connection of a storage daemon: does each, and answers it.

For the thread of the connection; which requests the peer may send is decided before (`session`).
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec

from strongroom.base.errors import DamageError, ObjectMissingError, RightError
from strongroom.engine.stores.servable import ServableStore
from strongroom.engine.stores.store import Kind, ObjectInfo, require_name
from strongroom.net.channels.local_channel import local_peer
from strongroom.net.identities.peer import Peer
from strongroom.net.storage.frames import Frame
from strongroom.net.storage.protocol import (
    LISTED_AT_ONCE,
    FrameType,
    ObjectName,
    ObjectPart,
    Probe,
    SharedCharge,
    Verdicts,
    decode,
)
from strongroom.storage.accounts import JobBandwidth
from strongroom.storage.changes import Changes
from strongroom.storage.incoming_payload import Incoming
from strongroom.storage.owner_list import FALSE, UNVERIFIED, VERIFIED, OwnerList
from strongroom.storage.response_writer import ResponseWriter
from strongroom.storage.rights import StorageRights
from strongroom.storage.served_repository import ServedRepository
from strongroom.storage.serving import Serving
from strongroom.storage.uploads import UploadSlots

log = logging.getLogger("strongroom.storage")

# What the names of a large repository take.
_HELD_FOR_NAMES: Final = 16 << 20
_HELD_FOR_A_NAME: Final = 512
_LISTING_ATTEMPTS: Final = 5


class RequestHandlers:
    """What a session's requests do. `by_type`: what does a request and returns its answer.

    shown: the peer, for the log. places: for its uploads. incoming: the payload that is arriving.
    sent_bytes: of objects; the session counts them for each request.
    """

    incoming: Incoming

    def __init__(
        self,
        serving: Serving,
        served: ServedRepository,
        rights: StorageRights,
        bandwidth: JobBandwidth,
        answers: ResponseWriter,
        peer: Peer,
        shown: str,
        places: UploadSlots,
    ) -> None:
        self._serving = serving
        self._served = served
        self._store: ServableStore = served.open_store()
        self._rights = rights
        self._bandwidth = bandwidth
        self._answers = answers
        self._peer = peer
        self._shown = shown
        self.changes = Changes(
            served, self._store, rights, serving.limits, shown, self._receive_turn, places
        )
        self.sent_bytes = 0
        self._deleted: Counter[str] = Counter()
        self.by_type: dict[int, Callable[[Frame], object]] = {
            FrameType.LIST: self._list,
            FrameType.GET: self._get,
            FrameType.INFO: self._info,
            FrameType.PUT: self.changes.put,
            FrameType.DATA: lambda frame: self.changes.data(frame, self.incoming),
            FrameType.COMMIT: self.changes.commit,
            FrameType.ABORT: self.changes.abort,
            FrameType.DELETE: self._delete,
            FrameType.SYNC: self._sync,
            FrameType.PREPARE: self._prepare,
            FrameType.REMOVE_ABANDONED: self._remove_abandoned,
            FrameType.UNVERIFIED: self._unverified,
            FrameType.VOUCH: self._vouch,
            FrameType.METRICS: self._metrics,
            FrameType.OWNERS: self._owners,
            FrameType.CONFIRM_CLOCK: self._confirm_clock,
            FrameType.CHARGE: self._charge,
            FrameType.FALSE: self._false,
            FrameType.PROBE: self._probe,
        }

    @property
    def _owner_list(self) -> OwnerList:
        return self._served.owner_list

    def close(self) -> None:
        """The connection has ended."""
        self.changes.close()
        if self._deleted:
            counts = (f"{kind}: {count:,}" for kind, count in sorted(self._deleted.items()))
            self._tell_deleted(", ".join(counts))
        self._store.close()

    def held_for_names(self) -> int:
        """What a request takes whose answer is names."""
        view = self._rights.view
        is_known = view is not None and self._served.is_there
        count = self._served.quotas.objects(view) if view is not None and is_known else 0
        return max(_HELD_FOR_NAMES, _HELD_FOR_A_NAME * count)

    def _list(self, frame: Frame) -> None:
        kind: Kind = decode(frame.header, Kind)  # type: ignore[arg-type]
        hidden, seen = self._rights.hidden_or_seen(kind, self._owner_list)
        infos = self._store.list(kind) if seen is None else self._seen_of(kind)
        self._send_listed(info for info in infos if info.name not in hidden)

    def _seen_of(self, kind: Kind) -> list[ObjectInfo]:
        """The objects of a peer that sees only some: nothing of the others is checked.

        Where one object replaces another meanwhile, one of the two is there.
        """
        infos: dict[str, ObjectInfo] = {}
        looked_at: set[str] = set()
        for _ in range(_LISTING_ATTEMPTS):
            seen = self._rights.hidden_or_seen(kind, self._owner_list)[1] or set()
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

    def _info(self, frame: Frame) -> ObjectInfo:
        wanted = decode(frame.header, ObjectName)
        self._require_seen(wanted.kind, wanted.name)
        return self._store.info(wanted.kind, wanted.name)

    def _delete(self, frame: Frame) -> None:
        deleted = self.changes.delete(frame)
        kind = deleted.partition(" ")[0]
        if kind == "snapshots":
            self._tell_deleted(deleted)
        elif kind:
            # A prune removes 100,000 packs; their names say nothing to anybody.
            self._deleted[kind] += 1

    def _tell_deleted(self, what: str) -> None:
        says = "%s: deleted %s"
        self._serving.say(logging.INFO, self._peer, says, self._shown, what)

    def _sync(self, frame: Frame) -> None:
        self._store.sync()
        self._owner_list.sync()

    def _prepare(self, frame: Frame) -> None:
        self._served.make()
        if self._served.bucket is None:
            self._store.prepare()

    def _remove_abandoned(self, frame: Frame) -> int:
        # Uploads of open connections are locked, those of closed ones were removed already.
        local = self._rights.role == "local"
        return self._store.remove_abandoned() if local else 0

    def _unverified(self, frame: Frame) -> None:
        kind: Kind = decode(frame.header, Kind)  # type: ignore[arg-type]
        # An agent sees nothing but what it stored itself and what was verified.
        is_whole = self._rights.view is None
        unverified = self._owner_list.of_standing(kind, UNVERIFIED) if is_whole else set()
        if kind == "snapshots" and is_whole:
            # Anyone who sees those that were found false must not rely on them either.
            unverified |= self._owner_list.of_standing(kind, FALSE)
        self._send_listed(sorted(unverified))

    def _false(self, frame: Frame) -> None:
        names = self._owner_list.of_standing(decode(frame.header, Kind), FALSE)  # type: ignore[arg-type]
        self._send_listed(sorted(names))

    def _send_listed(self, items: Iterable[object]) -> None:
        left = iter(items)
        while batch := list(islice(left, LISTED_AT_ONCE)):
            self._answers.send_part(msgspec.msgpack.encode(batch))

    def _owners(self, frame: Frame) -> None:
        self._send_listed(self._owner_list.owners(decode(frame.header, Kind)))  # type: ignore[arg-type]

    def _charge(self, frame: Frame) -> None:
        charge = decode(frame.header, SharedCharge)
        self._served.charge(charge.client, charge.size_bytes)
        self._owner_list.sync()

    def _probe(self, frame: Frame) -> None:
        wanted = decode(frame.header, Probe)
        self._receive_turn(len(frame.payload))
        self._send_turn(wanted.answer_bytes)
        if wanted.answer_bytes:
            self._answers.send_noise(wanted.answer_bytes)

    def _confirm_clock(self, frame: Frame) -> object:
        # Maintenance users may delete, but not decide how old the deleted objects are.
        if self._peer.name not in {local_peer(user).name for user in (0, os.geteuid())}:
            raise RightError(
                f"{self._peer} may not confirm the clock: only root and the daemon's user may"
            )
        return self._serving.confirm_clock(str(self._peer))

    def _vouch(self, frame: Frame) -> None:
        verdicts = decode(frame.header, Verdicts)
        self._owner_list.judge(verdicts.kind, verdicts.names, VERIFIED if verdicts.sound else FALSE)
        if not verdicts.sound:
            shown = ", ".join(verdicts.names)
            log.warning("%s: found false: %s %s", self._shown, verdicts.kind, shown)
        self._owner_list.sync()

    def _metrics(self, frame: Frame) -> None:
        self._answers.send_part(self._serving.metrics_text())

    def _require_seen(self, kind: Kind, name: str) -> None:
        if not self._rights.sees(kind, name, self._owner_list):
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
