"""The folder of a repository with an owner list beside it, for who has the folder itself.

Prune, check and the others rely on it as behind a storage daemon: what others stored counts once
`vouch` has verified it (see `owner_list`), and what was found false is hidden. What is stored
through this gets no entry: it is the keeper's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from strongroom.base.errors import ObjectMissingError
from strongroom.engine.content.digests import OBJECT_NAME_SIZE
from strongroom.engine.stores.local import LocalStore, OpenFile
from strongroom.engine.stores.servable import ServableStore
from strongroom.engine.stores.store import KINDS, Kind, ObjectInfo
from strongroom.net.storage.protocol import DIGESTED_KINDS
from strongroom.storage.owner_list import (
    FALSE,
    NO_CLIENT,
    UNVERIFIED,
    VERIFIED,
    OwnerList,
    owner_list_path,
)
from strongroom.storage.uploads import CLIENT_END, CLIENT_KINDS, CLIENT_START


def open_folder(path: str) -> LocalStore:
    """The store of a folder, with its owner list where there is one that this user may change."""
    # No one who may not change it removes anything there, either.
    if os.access(owner_list_path(os.fsencode(path)), os.R_OK | os.W_OK):
        return OwnedFolder(path)
    return LocalStore(path)


def open_shared_list(folder: bytes, store: ServableStore) -> OwnerList:
    """The owner list that several processes use, made where there is none. Raises StoreError."""
    return OwnerList(folder, partial(_stored_before, store))


def client_of(store: ServableStore, kind: Kind, info: ObjectInfo) -> bytes:
    """The client that an object in the store names."""
    if kind not in CLIENT_KINDS or info.size_bytes < CLIENT_END:
        return NO_CLIENT
    try:
        return store.get(kind, info.name, CLIENT_START, CLIENT_END - CLIENT_START)
    except ObjectMissingError:
        return NO_CLIENT


class OwnedFolder(LocalStore):
    """A folder whose owner list counts. The list is opened at first use."""

    _list: OwnerList | None = None

    def list(self, kind: Kind) -> Iterator[ObjectInfo]:
        """Every object of a kind but those that are false; of snapshots these too."""
        hidden = self._hidden(kind)
        return (info for info in super().list(kind) if info.name not in hidden)

    def pack_ids(self) -> bytes:
        """The ids of all packs but those that are false, joined."""
        ids, hidden = super().pack_ids(), self._hidden("packs")
        if not hidden:
            return ids
        starts = range(0, len(ids), OBJECT_NAME_SIZE)
        each = (ids[start : start + OBJECT_NAME_SIZE] for start in starts)
        return b"".join(one for one in each if one.hex() not in hidden)

    @contextmanager
    def outgoing(self, kind: Kind, name: str) -> Iterator[OpenFile]:
        """The file of an object. ObjectMissingError also where it is false."""
        self._require_seen(kind, name)
        with super().outgoing(kind, name) as found:
            yield found

    def info(self, kind: Kind, name: str) -> ObjectInfo:
        """Size of an object in bytes and the time of its file; as `outgoing`."""
        self._require_seen(kind, name)
        return super().info(kind, name)

    def delete(self, kind: Kind, name: str) -> None:
        """Remove an object, and its entry."""
        super().delete(kind, name)
        if kind in DIGESTED_KINDS:
            self._owner_list.forget(kind, name)

    def unverified(self, kind: Kind) -> frozenset[str]:
        """What others stored and no one has verified; of snapshots also those that are false."""
        names = self._owner_list.of_standing(kind, UNVERIFIED)
        return frozenset(names | self.false(kind) if kind == "snapshots" else names)

    def false(self, kind: Kind) -> frozenset[str]:
        """Objects of a kind that were found false."""
        return frozenset(self._owner_list.of_standing(kind, FALSE))

    def vouch(self, kind: Kind, names: Sequence[str], *, sound: bool) -> None:
        """Mark objects as verified, or as false and hidden."""
        self._owner_list.judge(kind, names, VERIFIED if sound else FALSE)

    def reopen(self) -> OwnedFolder:
        """The same with its own descriptors."""
        return OwnedFolder(self._root.path, self._write_buffer_bytes)

    def close(self) -> None:
        """Close the directory and the list."""
        if self._list is not None:
            self._list.close()
        super().close()

    @property
    def _owner_list(self) -> OwnerList:
        if self._list is None:
            self._list = open_shared_list(self._root.path, LocalStore(self._root.path))
        return self._list

    def _hidden(self, kind: Kind) -> frozenset[str]:
        return frozenset() if kind == "snapshots" else self.false(kind)

    def _require_seen(self, kind: Kind, name: str) -> None:
        if kind in ("packs", "index") and self._owner_list.standing(kind, name) == FALSE:
            raise ObjectMissingError(f"{kind} {name} is missing; run check to see what needs it")


def _stored_before(store: ServableStore) -> Iterator[tuple[Kind, ObjectInfo, bytes]]:
    for kind in KINDS:
        if kind in DIGESTED_KINDS:
            for info in store.list(kind):
                yield kind, info, client_of(store, kind, info)
