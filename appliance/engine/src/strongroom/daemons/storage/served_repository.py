"""A repository that a storage daemon serves: its store, its provenance database, its quotas."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from strongroom.clock import SECOND_NS
from strongroom.daemons.storage.accounts import Quotas
from strongroom.daemons.storage.provenance import (
    DOUBTED,
    FALSE,
    FOLDER,
    NO_CLIENT,
    Provenance,
)
from strongroom.daemons.storage.trusted_clock import TrustedClock
from strongroom.daemons.storage.uploads import CLIENT_END, CLIENT_KINDS, CLIENT_START
from strongroom.errors import ObjectMissingError, RepositoryNotFoundError
from strongroom.repo.keys.owners import SHARED
from strongroom.stores.local_place import require_own_folder
from strongroom.stores.store import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strongroom.daemons.storage.metrics import Labels
    from strongroom.daemons.storage.settings import StorageLimits
    from strongroom.stores.servable import ServableStore
    from strongroom.stores.store import Kind


class ServedRepository:
    """Opened when the daemon starts, which creates the folder if needed.

    Raises StoreError, and RepositoryExistsError where the folder holds something else.
    """

    def __init__(
        self,
        name: str,
        folder: bytes,
        limits: StorageLimits,
        open_store: Callable[[], ServableStore],
    ) -> None:
        """`folder`: of the database. `open_store`: a store for one connection, which closes it.

        Such a store is told of every write error since it was opened.
        """
        self.name = name
        self.folder = folder
        self.limits = limits
        self.open_store = open_store
        require_own_folder(folder)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        store = open_store()
        try:
            self.book = Provenance(folder)
            self.time = TrustedClock(name, os.path.join(folder, FOLDER))
            self.abandoned = store.remove_abandoned()
            self.entered = 0
            for kind in KINDS:
                present = list(store.list(kind))
                self.entered += self.book.reconcile(kind, present, partial(_client, store, kind))[0]
        finally:
            store.close()
        usage = self.book.usage()
        used = {client: one.stored_bytes + one.charge_bytes for client, one in usage.items()}
        objects = {client: one.objects for client, one in usage.items()}
        self.quotas = Quotas(limits, used, objects)

    def set_limits(self, limits: StorageLimits) -> None:
        """Apply a changed configuration."""
        self.limits = limits
        self.quotas.limits = limits

    def repository_id(self) -> bytes:
        """The id of the repository, b"" while there is none."""
        store = self.open_store()
        try:
            line = store.get("config", "config").partition(b"\n")[0]
            value = msgspec.json.decode(line, type=dict[str, object]).get("id")
        except (ObjectMissingError, RepositoryNotFoundError, msgspec.MsgspecError):
            return b""
        finally:
            store.close()
        try:
            return bytes.fromhex(value) if isinstance(value, str) else b""
        except ValueError:
            return b""

    def charge(self, client: bytes, size_bytes: int) -> None:
        """Set what counts against a client's quota besides what it holds."""
        before = self.book.charge(client, size_bytes)
        self.quotas.count(client, size_bytes - before)

    def gauges(self) -> Iterator[tuple[str, Labels, float]]:
        """The metrics of this repository."""
        mine = ("repository", self.name)
        usage: dict[str, tuple[int, int]] = {}
        for client, one in self.book.usage().items():
            name = one.name or _shown(client)
            objects, stored_bytes = usage.get(name, (0, 0))
            usage[name] = (objects + one.objects, stored_bytes + one.stored_bytes)
        for name, (objects, stored_bytes) in usage.items():
            labels = (mine, ("owner", name))
            yield "objects", labels, objects
            yield "stored_bytes", labels, stored_bytes
            if quota := self.limits.quota_of(name):
                yield "quota_bytes", labels, quota
        for kind in ("packs", "index"):
            labels = (mine, ("kind", kind))
            yield "doubted_objects", labels, len(self.book.of_standing(kind, DOUBTED))
            yield "false_objects", labels, len(self.book.of_standing(kind, FALSE))
        yield "clock_ahead_seconds", (mine,), self.time.ahead_ns() / SECOND_NS
        store = self.open_store()
        try:
            space = store.space()
        finally:
            store.close()
        yield "free_bytes", (mine,), space.free_bytes
        yield "size_bytes", (mine,), space.size_bytes

    def close(self) -> None:
        """Close the database."""
        self.book.close()


def _client(store: ServableStore, kind: Kind, name: str) -> bytes:
    """The client that an object in the store names."""
    if kind not in CLIENT_KINDS:
        return NO_CLIENT
    try:
        size = store.info(kind, name).size_bytes
        if size < CLIENT_END:
            return NO_CLIENT
        return store.get(kind, name, CLIENT_START, CLIENT_END - CLIENT_START)
    except ObjectMissingError:
        return NO_CLIENT


def _shown(client: bytes) -> str:
    """Who a client is for whom no agent has connected."""
    return "appliance" if client in (NO_CLIENT, SHARED) else client.hex()
