"""Whose an object is, by its head: also of one that cannot be read any further.

A storage daemon stores no object whose head names another client than the one that sends it; in a
plain folder, or of a damaged object, it is only what the object says.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final, cast

from strongroom.base.errors import ObjectMissingError, StoreError
from strongroom.engine.repository.keys.owners import CLIENT_ID_SIZE, SHARED
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.stores.store import Kind, Store

# Each begins with its magic, version and flags, and then the owner.
_OWNER_AT: Final = 8
_MAGICS: Final[dict[Kind, bytes]] = {
    "packs": b"SRPK",
    "index": b"SRIX",
    "snapshots": b"SRSN",
    "leases": b"SRLS",
    "tombstones": b"SRTS",
}


def owner_of_object(store: Store, kind: Kind, name: str) -> bytes:
    """The id of the client that an object says it is of; b"" where it does not say. StoreError."""
    size = min(store.info(kind, name).size_bytes, _OWNER_AT + CLIENT_ID_SIZE)
    data = store.get(kind, name, 0, size)
    owner = data[_OWNER_AT:]
    return owner if data[:4] == _MAGICS.get(kind) and len(owner) == CLIENT_ID_SIZE else b""


class ObjectOwners:
    """Names of clients for objects of a repository."""

    def __init__(self, repository: Repository, clients: Iterable[tuple[str, int]] = ()) -> None:
        """clients: names and generations; those of snapshots that can be read are known, too."""
        self._repository = repository
        self._clients = tuple(clients)

    def client_of(self, kind: str, name: str) -> str:
        """The name of the client that an object is of, else its id; "" where neither is known."""
        try:
            owner = owner_of_object(self._repository.store, cast("Kind", kind), name)
            if not owner or owner == SHARED:
                return ""
            return self._names.get(owner) or f"with the id {owner.hex()}"
        except (StoreError, ObjectMissingError):
            # It is gone.
            return ""

    @cached_property
    def _names(self) -> dict[bytes, str]:
        key = self._repository.key
        read = {one.owner: one.host for one in self._repository.snapshots(SetAside())}
        return read | {key.put_key(*one).client_id: one[0] for one in self._clients}
