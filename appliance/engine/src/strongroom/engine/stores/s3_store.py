"""A store in a bucket of an object store that speaks S3.

    PREFIX/config  PREFIX/keys/NAME  PREFIX/packs/xx/NAME  ... as in the folder of a local store

An object is sent whole, in one request, so it is never seen in part: packs are gathered in memory
until they are committed, and the threads that finish packs send several at once. A name is given by
a conditional put (If-None-Match), a lease or the configuration replaced by one that names what was
read before (If-Match). So nothing is overwritten that another writer stored meanwhile, whatever a
list shows and however late. `strongroom.engine.stores.s3_probe` proves that the store keeps this.

Times are the store's, in whole seconds. What is put is on stable storage when the store answers.
Any thread may use it; each writer belongs to one at a time.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import DamageError, ObjectMissingError, StoreError
from strongroom.base.printable import printable
from strongroom.engine.stores.at_once import at_once
from strongroom.engine.stores.capabilities import own_capability
from strongroom.engine.stores.gathered_writer import GatheredWriter
from strongroom.engine.stores.local_place import require_no_others
from strongroom.engine.stores.object_lock import LOCKED_KINDS, LockRule, ObjectVersion
from strongroom.engine.stores.place import BucketLocation
from strongroom.engine.stores.s3_answers import Head, KeyVersion
from strongroom.engine.stores.s3_client import (
    BeyondEnd,
    Counts,
    Missing,
    RefusedError,
    Retention,
    S3Client,
    Taken,
)
from strongroom.engine.stores.shared_counts import Traffic
from strongroom.engine.stores.store import KINDS, Kind, ObjectInfo, Store, require_name

_Capability = TypeVar("_Capability")

# Retries of a list in several parts while it keeps changing; then the last one is used.
_LISTING_ATTEMPTS: Final = 10
_ABANDONED_NS: Final = 86400 * clock.SECOND_NS
# Each at its first time takes a connection.
_READS_TOGETHER: Final = 16
# What was listed ahead and not taken by then may be of before what was listed since.
_AHEAD_SECONDS: Final = 30.0
_LARGEST_BYTES: Final = 5 << 30
# What the names of objects with which promises are tried begin with.
_PROBE: Final = "probe-"
_PROBE_NAME: Final = re.compile(f"{_PROBE}[0-9a-f]{{24}}")
_OLD_PROBE_NS: Final = 3600 * clock.SECOND_NS


class S3Store:
    """A `strongroom.engine.stores.store.Store`; connects at first use."""

    def __init__(self, place: BucketLocation, client: S3Client | None = None) -> None:
        self._place = place
        self._client = client or S3Client(place)
        self._prefix = f"{place.prefix}/" if place.prefix else ""
        # Tags of what this store object has replaced or read before replacing it.
        self._tags: dict[str, str] = {}
        self._lock = threading.Lock()
        # Ceph refuses the tags that it gives, and takes them without their quotes.
        self._is_unquoted = False
        self._rule: LockRule | None = None
        self._ahead: dict[Kind, tuple[float, Sequence[ObjectInfo]]] = {}
        self.most_together, self.has_read_ahead = _READS_TOGETHER, False
        self.takes_changes = True

    @property
    def location(self) -> str:
        """As the user named it."""
        return self._place.text

    @property
    def counts(self) -> Counts:
        """Requests and bytes so far, of this process."""
        return self._client.counts

    @property
    def traffic(self) -> Traffic | None:
        """Where requests are counted for all processes."""
        return self._client.traffic

    @traffic.setter
    def traffic(self, traffic: Traffic | None) -> None:
        self._client.traffic = traffic

    def prepare(self) -> None:
        """Make the bucket if there is none. Raises StoreError if the store breaks promises.

        RepositoryExistsError where there is something else; of many keys the first are seen.
        """
        self._client.make_bucket(can_lock=self._rule is not None)
        try:
            self.info("config", "config")
        except ObjectMissingError:
            found, _ = self._client.part_of_list(self._prefix, "")
            keys = [key[len(self._prefix) :] for key, _ in found]
            require_no_others(
                self.location,
                {
                    os.fsencode(key.partition("/")[0])
                    for key in keys
                    if not _PROBE_NAME.fullmatch(key)
                },
            )
        self.prove()

    def prove(self) -> None:
        """Raise StoreError if the store does not keep what repositories rest on."""
        from strongroom.engine.stores.s3_probe import prove

        # Another process may be trying its own, and other programs' files may begin so.
        old_ns = clock.now_ns() - _OLD_PROBE_NS
        left = self._versions_of(f"{self._prefix}{_PROBE}") if self._rule is not None else ()
        self._client.delete_versions(
            [
                (one.key, one.version)
                for one in left
                if one.stored_ns < old_ns and _PROBE_NAME.fullmatch(one.key[len(self._prefix) :])
            ]
        )
        prove(self._client, f"{self._prefix}{_PROBE}", self.location, self._rule)

    def writer(self, kind: Kind) -> GatheredWriter:
        """Begin an object that is gathered in memory."""
        return GatheredWriter(self, kind)

    def put(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object."""
        if not self.put_new(kind, name, data) and self.get(kind, name) != bytes(data):
            raise StoreError(f"{self._shown(kind, name)} exists with other content; run check")

    def put_durable(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object; every object is on stable storage when it is stored."""
        self.put(kind, name, data)

    def put_new(self, kind: Kind, name: str, data: Buffer) -> bool:
        """Store a small object unless the name is taken."""
        return self.create(kind, name, bytes(data))

    def create(self, kind: Kind, name: str, data: bytes | bytearray) -> bool:
        """Give an object its name unless that is taken."""
        key = self._key(kind, name)
        try:
            tag = self._client.put(key, data, is_new=True, retention=self._retention(kind)).tag
        except Taken as taken:
            # The answer to an earlier attempt was lost: if it is ours, then that one stored it.
            return taken.was_repeated and self.get(kind, name) == data
        with self._lock:
            if kind in ("config", "leases"):
                self._tags[key] = tag
        return True

    def replace(self, kind: Kind, name: str, data: Buffer) -> None:
        """Store a small object, replacing the one of that name as this store last saw it."""
        key, content = self._key(kind, name), bytes(data)
        with self._lock:
            tag = self._tags.get(key)
        if tag is None:
            try:
                tag = self._client.head(key).tag
            except Missing:
                self.put(kind, name, data)
                return
        try:
            tag = self._put_over(key, content, tag, self._retention(kind))
        except (Taken, Missing) as taken:
            with self._lock:
                self._tags.pop(key, None)
            if not self._is_stored(key, content):
                raise ObjectMissingError(
                    f"{self._shown(kind, name)} was removed or replaced by another process"
                ) from taken
            return
        with self._lock:
            self._tags[key] = tag

    def get(self, kind: Kind, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Read an object or a part of it."""
        return self._get(kind, name, offset, length)

    def _get(
        self, kind: Kind, name: str, offset: int, length: int | None, version: str = ""
    ) -> bytes:
        key = self._key(kind, name)
        last = None if length is None else offset + length - 1
        try:
            if length == 0 or (length is not None and length > _LARGEST_BYTES):
                # No range says the first, and only the size whether the second is there.
                return self._of_no_length(kind, name, offset, length, version)
            data = self._client.get(key, offset, last, version)
        except Missing as error:
            raise self._missing(kind, name) from error
        except BeyondEnd:
            return self._of_no_length(kind, name, offset, length or 0, version)
        if length is not None and len(data) != length:
            raise self._truncated(kind, name, offset, length, len(data))
        return data

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """Size of an object in bytes, and its time by the store's clock."""
        head = self._head(kind, name)
        return ObjectInfo(name, head.size_bytes, head.modified_ns)

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        """Every object of a kind, complete before the first is returned."""
        until_seconds, ahead = self._ahead.pop(kind, (0.0, ()))
        return iter(ahead if clock.elapsed_seconds() < until_seconds else self._all(kind))

    def list_ahead(
        self, kinds: Sequence[Kind], meanwhile: Callable[[], _Capability]
    ) -> _Capability:
        """What `meanwhile` gives; the next `list` of each kind gives what is there meanwhile."""
        # One end for all: a new list of snapshots does not go with an older one of the index.
        ends = [until for until, _ in self._ahead.values()]
        until_seconds = min([clock.elapsed_seconds() + _AHEAD_SECONDS, *ends])

        def list_one(kind: Kind) -> None:
            self._ahead[kind] = until_seconds, self._all(kind)

        found: list[_Capability] = []
        at_once(self, lambda: found.append(meanwhile()), *(partial(list_one, one) for one in kinds))
        return found[0]

    def _all(self, kind: Kind) -> Sequence[ObjectInfo]:
        prefix = self._prefix + (kind if kind == "config" else f"{kind}/")
        names: set[str] = set()
        for _ in range(_LISTING_ATTEMPTS):
            found, parts = self._listed(kind, prefix)
            # Something may have come and gone between two parts: a list in which one object
            # replaced another must not be without either.
            if parts == 1 or names == found.keys():
                break
            names = set(found)
        return [*found.values()]

    def delete(self, kind: Kind, name: str) -> None:
        """Remove an object; a missing one is not an error.

        In a repository that is locked a locked object is only hidden, until `remove_versions`.
        """
        key = self._key(kind, name)
        with self._lock:
            self._tags.pop(key, None)
        marker = self._client.delete(key)
        if marker and self._rule is not None and kind not in LOCKED_KINDS:
            self._remove_below(key, marker)

    def remove_abandoned(self) -> int:
        """Remove uploads in parts that no one has finished for a day: we make none."""
        old_ns = clock.now_ns() - _ABANDONED_NS
        # A bucket without a prefix has files of other programs too, which may be on their way.
        found = [
            one
            for one in self._client.begun_uploads(self._prefix)
            if one[2] < old_ns and any(self._is_key(kind, _last(one[0]), one[0]) for kind in KINDS)
        ]
        for key, upload, _ in found:
            self._client.abort_upload(key, upload)
        return len(found)

    def sync(self) -> None:
        """Every object is on stable storage when it is stored."""

    def unverified(self, kind: Kind) -> frozenset[str]:
        """None: every writer with access to the bucket is trusted."""
        return frozenset()

    def capability(self, wanted: type[_Capability]) -> _Capability | None:
        """See strongroom.engine.stores.capabilities."""
        return own_capability(self, wanted)

    def reopen(self) -> S3Store:
        """The same bucket with its own connections."""
        store = S3Store(self._place, self._client.again())
        store._rule = self._rule
        return store

    @property
    def lock_rule(self) -> LockRule | None:
        """How new objects are locked; None: not at all."""
        return self._rule

    def lock_by(self, rule: LockRule) -> None:
        """Lock what is stored from now on."""
        self._rule = rule

    def versions(self, kind: Kind, name: str = "") -> Iterator[ObjectVersion]:
        """Every version of the objects of a kind, or of one; those of an object newest first."""
        if name or kind == "config":
            prefix = self._key(kind, name or "config")
        else:
            prefix = f"{self._prefix}{kind}/"
        for one in self._versions_of(prefix):
            found = one.key[len(self._prefix) :] if kind == "config" else _last(one.key)
            if self._is_key(kind, found, one.key) and name in ("", found):
                yield ObjectVersion(kind, found, *one[1:])

    def locked_until(self, version: ObjectVersion) -> int:
        """When the retention of a version ends, in ns since 1970; 0 where it has none."""
        key = self._key(version.kind, version.name)
        try:
            return self._client.head(key, version.version).locked_until_ns
        except Missing as error:
            raise self._missing(version.kind, version.name) from error

    def extend(self, version: ObjectVersion, until_ns: int) -> None:
        """Let the retention of a version end later."""
        mode = "compliance" if self._rule is None else self._rule.mode
        key = self._key(version.kind, version.name)
        try:
            self._client.retain(key, version.version, Retention(mode.upper(), until_ns))
        except Missing as error:
            raise self._missing(version.kind, version.name) from error
        except RefusedError:
            # Somebody stored it with the stricter mode, which is never weakened.
            stricter = self._client.head(key, version.version).lock_mode
            if stricter in ("", mode.upper()):
                raise
            self._client.retain(key, version.version, Retention(stricter, until_ns))

    def remove_versions(self, versions: Sequence[ObjectVersion]) -> Sequence[ObjectVersion]:
        """Remove versions for good; those that are still locked stay and are returned."""
        keys = {(self._key(one.kind, one.name), one.version): one for one in versions}
        left = self._client.delete_versions(tuple(keys))
        return [version for key, version in keys.items() if key in left]

    def get_version(
        self, version: ObjectVersion, offset: int = 0, length: int | None = None
    ) -> bytes:
        """As `get`, of one version."""
        return self._get(version.kind, version.name, offset, length, version.version)

    def as_of(self, time_ns: int) -> Store:
        """The store as it was at a time, read-only."""
        from strongroom.engine.stores.s3_past import PastStore

        return PastStore(self, time_ns)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _put_over(
        self, key: str, content: bytes, tag: str, retention: Retention | None = None
    ) -> str:
        if not self._is_unquoted:
            try:
                return self._client.put(key, content, tag=tag, retention=retention).tag
            except Taken:
                if self._client.head(key).tag != tag:
                    raise
        # What the store calls by this tag is there, and it refused the tag.
        stored = self._client.put(key, content, tag=tag.strip('"'), retention=retention)
        self._is_unquoted = True
        return stored.tag

    def _retention(self, kind: Kind) -> Retention | None:
        """With what an object of a kind is stored now."""
        if self._rule is None or kind not in LOCKED_KINDS:
            return None
        until_ns = clock.now_ns() + self._rule.seconds * clock.SECOND_NS
        return Retention(self._rule.mode.upper(), until_ns)

    def _versions_of(self, prefix: str) -> Iterator[KeyVersion]:
        after = ("", "")
        while True:
            found, after = self._client.part_of_versions(prefix, after)
            yield from found
            if not any(after):
                return

    def _remove_below(self, key: str, marker: str) -> None:
        """Remove what a lease was, and the mark over it: there is a version of each renewal."""
        found = [one for one in self._versions_of(key) if one.key == key]
        if any(one.is_current and one.version == marker for one in found):
            # The mark goes last: without it the version below would be there again.
            below = [(key, one.version) for one in found if one.version != marker]
            if not self._client.delete_versions(below):
                self._client.delete_versions([(key, marker)])

    def _is_stored(self, key: str, content: bytes) -> bool:
        try:
            return self._client.get(key) == content
        except Missing:
            return False

    def _listed(self, kind: Kind, prefix: str) -> tuple[dict[str, ObjectInfo], int]:
        found: dict[str, ObjectInfo] = {}
        parts, after = 0, ""
        while True:
            objects, after = self._client.part_of_list(prefix, after)
            parts += 1
            for key, head in objects:
                name = key[len(self._prefix) :] if kind == "config" else _last(key)
                if self._is_key(kind, name, key):
                    found[name] = ObjectInfo(name, head.size_bytes, head.modified_ns)
            if not after:
                return found, parts

    def _is_key(self, kind: Kind, name: str, key: str) -> bool:
        """Whether a key in the bucket is that of an object: others may have put files there."""
        try:
            return self._key(kind, name) == key
        except DamageError:
            return False

    def _of_no_length(
        self, kind: Kind, name: str, offset: int, length: int | None, version: str = ""
    ) -> bytes:
        size = self._head(kind, name, version).size_bytes
        if offset + (length or 0) <= size:
            return b""
        raise self._truncated(kind, name, offset, length or 0, max(0, size - offset))

    def _head(self, kind: Kind, name: str, version: str = "") -> Head:
        try:
            return self._client.head(self._key(kind, name), version)
        except Missing as error:
            raise self._missing(kind, name) from error

    def _missing(self, kind: Kind, name: str) -> ObjectMissingError:
        return ObjectMissingError(
            f"{self._shown(kind, name)} is missing; run check to see what needs it"
        )

    def _truncated(
        self, kind: Kind, name: str, offset: int, length: int, available: int
    ) -> DamageError:
        return DamageError(
            f"{self._shown(kind, name)} is truncated: {length} bytes wanted at {offset}, "
            f"{available} available; run check"
        )

    def _key(self, kind: Kind, name: str) -> str:
        if kind == "config":
            return f"{self._prefix}config"
        require_name(kind, name)
        folder = f"packs/{name[:2]}" if kind == "packs" else kind
        return f"{self._prefix}{folder}/{name}"

    def _shown(self, kind: Kind, name: str) -> str:
        return f"{kind} {printable(name)} at {printable(self.location)}"


def _last(key: str) -> str:
    return key.rpartition("/")[2]
