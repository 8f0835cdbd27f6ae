"""Tombstones: packs that a prune has marked for removal.

Writers that begin later do not deduplicate against these packs; the packs are removed only after
every writer that began earlier has ended. A tombstone is a sealed object under the index key:

    magic "SRTS" | version u8 | 0 u8 x 3 | sealed: created i64 (ns) | pack ids (32 each)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from strongroom import clock
from strongroom.content.ciphers import open_object, seal_object
from strongroom.content.digests import OBJECT_NAME_SIZE, object_name
from strongroom.errors import DamageError, ObjectMissingError, UnknownFormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strongroom.repo.keys import Key
    from strongroom.stores.store import Store

_MAGIC = b"SRTS"
_VERSION = 1
_HEAD = struct.Struct("<4sB3x")
_CREATED = struct.Struct("<q")
_LABEL = b"strongroom tombstone 1"


class Tombstone(NamedTuple):
    """Packs marked by one prune."""

    name: str
    created_ns: int
    pack_ids: tuple[bytes, ...]


def write_tombstone(store: Store, key: Key, pack_ids: Sequence[bytes], cipher: int) -> str:
    """Mark packs durably; the name of the tombstone."""
    text = _CREATED.pack(clock.now_ns()) + b"".join(pack_ids)
    sealed = seal_object(key.put_key.index_key, _LABEL, text, cipher)
    data = _HEAD.pack(_MAGIC, _VERSION) + sealed
    name = object_name(data)
    store.put_durable("tombstones", name, data)
    return name


def read_tombstone(store: Store, key: Key, name: str) -> Tombstone:
    """One tombstone; DamageError when it is not sound."""
    data = store.get("tombstones", name)
    if data[:4] != _MAGIC or len(data) < _HEAD.size:
        raise DamageError(f"tombstone {name} does not begin as tombstones do; run repair")
    if data[4] != _VERSION:
        raise UnknownFormatError(f"tombstone {name} has version {data[4]}; update strongroom")
    text = open_object(key.put_key.index_key, _LABEL, data[_HEAD.size :])
    ids = text[_CREATED.size :]
    if len(text) < _CREATED.size or len(ids) % OBJECT_NAME_SIZE:
        raise DamageError(f"tombstone {name} is cut off; run repair")
    (created_ns,) = _CREATED.unpack_from(text)
    starts = range(0, len(ids), OBJECT_NAME_SIZE)
    return Tombstone(name, created_ns, tuple(ids[at : at + OBJECT_NAME_SIZE] for at in starts))


def read_tombstones(store: Store, key: Key) -> list[Tombstone]:
    """All tombstones."""
    tombstones = []
    for info in store.list("tombstones"):
        try:
            tombstones.append(read_tombstone(store, key, info.name))
        except ObjectMissingError:
            # Swept by a prune since it was listed.
            continue
    return tombstones
