"""A repository that a storage daemon serves: its folder, its book, its quotas."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom.clock import SECOND_NS
from strongroom.daemons.storage.accounts import Quotas
from strongroom.daemons.storage.provenance import DOUBTED, FALSE, FOLDER, Provenance
from strongroom.daemons.storage.trusted_clock import SureTime
from strongroom.errors import ObjectMissingError, RepositoryNotFoundError
from strongroom.stores.local import LocalStore
from strongroom.stores.store import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strongroom.daemons.storage.metrics import Labels
    from strongroom.daemons.storage.settings import Limits

# Hundreds of objects may come in at once.
_WRITE_BUFFER_BYTES: Final = 512 << 10


class ServedRepository:
    """Opened when the daemon starts, which makes the folder if need be. Raises StoreError."""

    def __init__(self, name: str, folder: bytes, limits: Limits) -> None:
        self.name = name
        self.folder = folder
        self.limits = limits
        store = LocalStore(folder)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self.book = Provenance(folder)
            self.time = SureTime(name, os.path.join(folder, FOLDER))
            self.abandoned = store.remove_abandoned()
            self.entered = 0
            for kind in KINDS:
                self.entered += self.book.reconcile(kind, list(store.list(kind)))[0]
        finally:
            store.close()
        used = {owner: size for owner, (_, size) in self.book.usage().items()}
        self.quotas = Quotas(limits, used)

    def set_limits(self, limits: Limits) -> None:
        """Follow a changed configuration."""
        self.limits = limits
        self.quotas.limits = limits

    def open_store(self) -> LocalStore:
        """A store for one connection; it learns of every write error since it was opened."""
        return LocalStore(self.folder, _WRITE_BUFFER_BYTES)

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
        """What metrics show of it."""
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
        status = os.statvfs(self.folder)
        yield "free_bytes", (mine,), status.f_bavail * status.f_frsize
        yield "size_bytes", (mine,), status.f_blocks * status.f_frsize

    def close(self) -> None:
        """Give the book back."""
        self.book.close()
