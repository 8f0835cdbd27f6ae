"""A repository that a storage daemon serves: its store, its provenance database, its quotas."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from strongroom.clock import SECOND_NS
from strongroom.daemons.storage.accounts import Quotas
from strongroom.daemons.storage.provenance import DOUBTED, FALSE, FOLDER, Provenance
from strongroom.daemons.storage.trusted_clock import TrustedClock
from strongroom.errors import ObjectMissingError, RepositoryNotFoundError
from strongroom.stores.store import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strongroom.daemons.storage.metrics import Labels
    from strongroom.daemons.storage.settings import StorageLimits
    from strongroom.stores.servable import ServableStore


class ServedRepository:
    """Opened when the daemon starts, which creates the folder if needed. Raises StoreError."""

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
        os.makedirs(folder, mode=0o700, exist_ok=True)
        store = open_store()
        try:
            self.book = Provenance(folder)
            self.time = TrustedClock(name, os.path.join(folder, FOLDER))
            self.abandoned = store.remove_abandoned()
            self.entered = 0
            for kind in KINDS:
                self.entered += self.book.reconcile(kind, list(store.list(kind)))[0]
        finally:
            store.close()
        used = {owner: size for owner, (_, size) in self.book.usage().items()}
        self.quotas = Quotas(limits, used)

    def set_limits(self, limits: StorageLimits) -> None:
        """Apply a changed configuration."""
        self.limits = limits
        self.quotas.limits = limits

    def repository_id(self) -> str:
        """The id of the repository, "" while there is none."""
        store = self.open_store()
        try:
            line = store.get("config", "config").partition(b"\n")[0]
            value = msgspec.json.decode(line, type=dict[str, object]).get("id")
        except (ObjectMissingError, RepositoryNotFoundError, msgspec.MsgspecError):
            return ""
        finally:
            store.close()
        return value if isinstance(value, str) else ""

    def gauges(self) -> Iterator[tuple[str, Labels, float]]:
        """The metrics of this repository."""
        mine = ("repository", self.name)
        for owner, (count, size) in self.book.usage().items():
            labels = (mine, ("owner", owner or "appliance"))
            yield "objects", labels, count
            yield "stored_bytes", labels, size
            if quota := self.limits.quota_of(owner):
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
