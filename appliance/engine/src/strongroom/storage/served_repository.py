"""A repository that a storage daemon serves: its store, its owner list, its quotas."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, Literal, NamedTuple

import msgspec

from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import (
    ObjectMissingError,
    RepositoryNotFoundError,
    StoreError,
    StrongroomError,
)
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.stores.local_place import require_own_folder
from strongroom.engine.stores.servable import ServableStore
from strongroom.engine.stores.store import KINDS, Kind
from strongroom.service.log_lines import DailyLog
from strongroom.storage.accounts import Quotas
from strongroom.storage.bucket import Bucket
from strongroom.storage.metrics import Labels
from strongroom.storage.owned_folder import client_of, open_shared_list
from strongroom.storage.owner_list import FALSE, FOLDER, NO_CLIENT, UNVERIFIED, OwnerList
from strongroom.storage.settings import StorageLimits
from strongroom.storage.trusted_clock import TrustedClock

log = logging.getLogger("strongroom.storage")

# Who stored what is in the daemon's own list, in one that other processes use too (see
# `owner_list`), or known as long as the repository is open.
OwnerListKind = Literal["own", "shared", "none"]
_READ_AT_ONCE: Final = 32
_Marks = tuple[tuple[int, int], tuple[int, int] | None]
# A bucket is not unplugged: what is wrong with it is the error of each request.
_OF_A_BUCKET: Final[_Marks] = ((0, 0), (0, 0))


class _Opened(NamedTuple):
    """What is open of a repository. marks: device and inode of its folder, and of its config."""

    owner_list: OwnerList
    time: TrustedClock
    quotas: Quotas
    entered: int
    marks: _Marks


class ServedRepository:
    """A device: its repository is open while it is there, which a disk may not be.

    Without a repository nothing is served, and nothing is written below its folder, which may be
    the place where a disk is mounted later. `generation` changes whenever the repository appears,
    goes, or is another; connections of before must end.

    Raises StoreError, and RepositoryExistsError where the folder holds something else.
    """

    def __init__(
        self,
        name: str,
        folder: bytes,
        limits: StorageLimits,
        open_store: Callable[[], ServableStore],
        owner_list_kind: OwnerListKind = "own",
        bucket: Bucket | None = None,
    ) -> None:
        """`folder`: of the database. `open_store`: a store for one connection, which closes it.

        bucket: where the objects are if not in the folder; it is asked at the start, and while it
        has no repository by each connection.

        Such a store is reported every write error since it was opened.
        """
        self.name = name
        self.folder = folder
        self.limits = limits
        self.open_store = open_store
        self._owner_list_kind = owner_list_kind
        self.bucket = bucket
        self.generation = 0
        self._lock = threading.Lock()
        self._opened: _Opened | None = None
        self._daily = DailyLog(log)
        require_own_folder(folder)
        if self._marks() is None:
            log.warning("%s: %s", name, self._absence())
        else:
            self._opened = self._open()

    @property
    def is_there(self) -> bool:
        """Whether the repository is open."""
        return self._opened is not None

    @property
    def owner_list(self) -> OwnerList:
        """Its owner list. Raises RepositoryNotFoundError, as the others do."""
        return self._present().owner_list

    @property
    def time(self) -> TrustedClock:
        """Its trusted clock."""
        return self._present().time

    @property
    def quotas(self) -> Quotas:
        """What its clients use."""
        return self._present().quotas

    @property
    def entered(self) -> int:
        """How many objects had no entry when it was opened."""
        return 0 if self._opened is None else self._opened.entered

    def refresh(self) -> None:
        """Open it if it is there again, or another; close it if it is gone."""
        with self._lock:
            opened = self._opened
            # One that is being made has no config yet, and perhaps no folders.
            marks = self._marks(is_begun=opened is not None and opened.marks[1] is None)
            if opened is not None and marks is not None and _are_same(opened.marks, marks):
                self._opened = opened._replace(marks=marks)
                return
            if opened is not None:
                self._opened = None
                self.generation += 1
                log.error(
                    "%s: the repository is not there, or was replaced: %s",
                    self.name,
                    self._absence(),
                )
            if marks is None:
                return
            try:
                self._opened = self._open()
            except StrongroomError as error:
                self._daily.error("open", f"{self.name}: {error}")
                return
            self._daily.forget("open")
            self.generation += 1
            log.warning("%s: the repository is there", self.name)

    def make(self) -> None:
        """Make its folder and open it, for anyone who makes a repository. Raises StoreError."""
        with self._lock:
            if self._opened is None:
                if self.bucket is not None:
                    self.bucket.open().prepare()
                self._opened = self._open()

    def require(self) -> None:
        """Raise RepositoryNotFoundError while it is not there."""
        self._present()

    def _present(self) -> _Opened:
        if self._opened is None:
            raise RepositoryNotFoundError(self._absence())
        return self._opened

    def _absence(self) -> str:
        if self.bucket is not None:
            return (
                f"there is no repository at {self.bucket.place.text}: make one with `strongroom "
                "init`"
            )
        return (
            f"there is no repository in {os.fsdecode(self.folder)}: mount its disk, or make one "
            "with `strongroom init`"
        )

    def _marks(self, *, is_begun: bool = False) -> _Marks | None:
        """Of what is there now; None without a repository, or (`is_begun`) one that is made."""
        if self.bucket is not None:
            is_there = self._opened is not None or self.bucket.holds_repository()
            return _OF_A_BUCKET if is_there else None
        try:
            folder = _identity(self.folder)
            with suppress(FileNotFoundError):
                return folder, _identity(os.path.join(self.folder, b"config"))
            is_begun = is_begun or os.path.isdir(os.path.join(self.folder, b"packs"))
            return (folder, None) if is_begun else None
        except OSError:
            return None

    def _open(self) -> _Opened:
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
        except OSError as error:
            shown = os.fsdecode(self.folder)
            raise StoreError(f"could not make {shown}: {error}; fix the cause") from error
        is_own = self._owner_list_kind == "own"
        store = self.open_store()
        try:
            owner_list = self._open_owner_list(store)
            time = TrustedClock(self.name, os.path.join(self.folder, FOLDER) if is_own else None)
            store.remove_abandoned()
            entered = 0
            for kind in KINDS if is_own else ():
                entered += self._reconcile(owner_list, store, kind)
        finally:
            store.close()
        # No quota is set for anyone behind ssh.
        usage = owner_list.usage() if is_own else {}
        used = {client: one.stored_bytes + one.charge_bytes for client, one in usage.items()}
        objects = {client: one.objects for client, one in usage.items()}
        marks = _OF_A_BUCKET
        if self.bucket is None:
            marks = self._marks() or (_identity(self.folder), None)
        return _Opened(owner_list, time, Quotas(self.limits, used, objects), entered, marks)

    def _reconcile(self, owner_list: OwnerList, store: ServableStore, kind: Kind) -> int:
        present = list(store.list(kind))
        read = partial(client_of, store, kind)
        if self.bucket is None:
            return owner_list.reconcile(kind, present, read)[0]
        # After the list was lost each object is a request, which takes its time.
        known = owner_list.names(kind)
        new = [info for info in present if info.name not in known]
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            clients = {
                info.name: client for info, client in zip(new, pool.map(read, new), strict=True)
            }
        return owner_list.reconcile(kind, present, lambda info: clients[info.name])[0]

    def _open_owner_list(self, store: ServableStore) -> OwnerList:
        if self._owner_list_kind == "shared":
            return open_shared_list(self.folder, store)
        return OwnerList(self.folder if self._owner_list_kind == "own" else None)

    def set_limits(self, limits: StorageLimits) -> None:
        """Apply a changed configuration."""
        self.limits = limits
        if self._opened is not None:
            self._opened.quotas.limits = limits

    def repository_id(self) -> bytes:
        """The id of the repository, b"" while there is none."""
        if self._opened is None:
            return b""
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
        before = self.owner_list.charge(client, size_bytes)
        self.quotas.count(client, size_bytes - before)

    def gauges(self) -> Iterator[tuple[str, Labels, float]]:
        """The metrics of this repository, none while it is not there."""
        if self._opened is None:
            return
        mine = ("repository", self.name)
        usage: dict[str, tuple[int, int]] = {}
        for client, one in self.owner_list.usage().items():
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
            yield "unverified_objects", labels, len(self.owner_list.of_standing(kind, UNVERIFIED))
            yield "false_objects", labels, len(self.owner_list.of_standing(kind, FALSE))
        yield "clock_ahead_seconds", (mine,), self.time.ahead_ns() / SECOND_NS
        store = self.open_store()
        try:
            space = store.space()
        finally:
            store.close()
        if space is not None:
            yield "free_bytes", (mine,), space.free_bytes
            yield "size_bytes", (mine,), space.size_bytes

    def close(self) -> None:
        """Close the database."""
        if self._opened is not None:
            self._opened.owner_list.close()


def _are_same(before: _Marks, now: _Marks) -> bool:
    """Whether it is the same repository on the same file system; it may have been made since."""
    return before[0] == now[0] and before[1] in (None, now[1])


def _identity(path: bytes) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _shown(client: bytes) -> str:
    """Who a client is for whom no agent has connected."""
    return "appliance" if client in (NO_CLIENT, SHARED) else client.hex()
