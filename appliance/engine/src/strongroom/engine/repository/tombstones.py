"""Tombstones: packs that a prune has marked for removal.

Writers that begin later do not deduplicate against these packs; the packs are removed only after
every writer that began earlier has ended. A tombstone names packs of one owner, and is a sealed
object under that owner's index key, signed by the appliance:

    magic "SRTS" | version u8 | 0 u8 x 3 | owner (16)
    | sealed: created i64 (ns) | pack ids (32 each) | signature (64) of all before it
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from strongroom.base import clock
from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    ObjectMissingError,
    UnknownFormatError,
)
from strongroom.engine.content.ciphers import open_object, seal_object
from strongroom.engine.content.digests import OBJECT_NAME_SIZE, object_name
from strongroom.engine.repository.keys.owners import SIGNATURE_SIZE, is_signed
from strongroom.engine.repository.keys.roles import Key, required_appliance_key
from strongroom.engine.stores.at_once import read_each
from strongroom.engine.stores.store import Store

_MAGIC = b"SRTS"
_VERSION = 1
_HEAD = struct.Struct("<4sB3x16s")
_CREATED = struct.Struct("<q")
_LABEL = b"strongroom tombstone 1"
_SIGNED_PURPOSE = b"strongroom tombstone 1"


class Tombstone(NamedTuple):
    """Packs of one owner that one prune marked."""

    name: str
    owner: bytes
    created_ns: int
    pack_ids: tuple[bytes, ...]


def write_tombstone(
    store: Store, key: Key, owner: bytes, pack_ids: Sequence[bytes], cipher: int
) -> str:
    """Mark packs durably; the name of the tombstone. KeyRightError for a client's key."""
    text = _CREATED.pack(clock.now_ns()) + b"".join(pack_ids)
    sealed = seal_object(key.owner(owner).index_key, _LABEL, text, cipher)
    data = _HEAD.pack(_MAGIC, _VERSION, owner) + sealed
    data += required_appliance_key(key).sign(_SIGNED_PURPOSE + data)
    name = object_name(data)
    store.put_durable("tombstones", name, data)
    return name


def read_tombstone(store: Store, key: Key, name: str) -> Tombstone:
    """One tombstone; DamageError when it is not sound, KeyRightError for another client's."""
    data = store.get("tombstones", name)
    if data[:4] != _MAGIC:
        raise DamageError(f"tombstone {name} does not begin as tombstones do; run repair")
    if len(data) > len(_MAGIC) and data[4] != _VERSION:
        raise UnknownFormatError(f"tombstone {name} has version {data[4]}; update strongroom")
    if len(data) < _HEAD.size:
        raise DamageError(f"tombstone {name} is cut off; run repair")
    _, _, owner = _HEAD.unpack_from(data)
    signed, signature = data[:-SIGNATURE_SIZE], data[-SIGNATURE_SIZE:]
    if not is_signed(key.verify_key, signature, _SIGNED_PURPOSE + signed):
        raise DamageError(f"tombstone {name} is not signed by the appliance; run repair")
    text = open_object(key.owner(owner).index_key, _LABEL, signed[_HEAD.size :])
    ids = text[_CREATED.size :]
    if len(text) < _CREATED.size or len(ids) % OBJECT_NAME_SIZE:
        raise DamageError(f"tombstone {name} is cut off; run repair")
    (created_ns,) = _CREATED.unpack_from(text)
    starts = range(0, len(ids), OBJECT_NAME_SIZE)
    pack_ids = tuple(ids[at : at + OBJECT_NAME_SIZE] for at in starts)
    return Tombstone(name, owner, created_ns, pack_ids)


def read_tombstones(store: Store, key: Key, names: Sequence[str] | None = None) -> list[Tombstone]:
    """All tombstones that the key opens. names: as they were listed before."""
    tombstones = []
    if names is None:
        names = [info.name for info in store.list("tombstones")]
    for _, found in read_each(store, names, lambda name: read_tombstone(store, key, name)):
        try:
            if isinstance(found, Exception):
                raise found
            tombstones.append(found)
        except (ObjectMissingError, KeyRightError):
            # Swept by a prune since it was listed; or of another client's packs.
            continue
    return tombstones
