"""Restore tickets as objects: the director stores one, the agent of one run fetches it.

    magic "SRTO" | version u8 | 0 u8 x 3 | sealed under its own key: a restore ticket

A ticket holds keys of packs, so the object is sealed with a fresh key that only the start message
to the agent carries (`TicketObject`), over another connection: neither the storage daemon nor
anyone who reads the disk opens it. Its name is the digest of its bytes, as of all objects. The
storage daemon shows it to the local socket and to anyone who has a grant that names it
(storage.rights).

It is of use for one run and is removed when that has ended. What was left over, because a director
died, is removed when the next ticket is stored, and by prune, once the grants that name it have
ended. No other object refers to a ticket: check, copy and the marking of prune know nothing of it.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.errors import DamageError, ObjectMissingError, QuotaError, UnknownFormatError
from strongroom.engine.content.ciphers import (
    AES_256_GCM,
    KEY_SIZE,
    SEALED_OVERHEAD_SIZE,
    open_object,
    seal_object,
)
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.restore_ticket import LARGEST_TICKET_BYTES
from strongroom.engine.stores.store import Store

# How long the grant to fetch one may be used.
GRANT_SECONDS: Final = 24 * 3600
# A ticket whose grant has ended is useless; an hour is for clocks that differ.
KEPT_SECONDS: Final = GRANT_SECONDS + 3600
_MAGIC: Final = b"SRTO"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<4sB3x")
_LABEL: Final = b"strongroom ticket object 1"
LARGEST_OBJECT_BYTES: Final = LARGEST_TICKET_BYTES + _HEAD.size + SEALED_OVERHEAD_SIZE


class TicketObject(msgspec.Struct, frozen=True, kw_only=True):
    """What a start message says of its ticket: name and size of the object, and its key."""

    name: str
    size_bytes: int
    key: bytes

    def __repr__(self) -> str:
        """Without the key, for messages and logs."""
        return f"TicketObject({self.name}, {self.size_bytes} bytes)"


def store_ticket(store: Store, ticket: bytes) -> TicketObject:
    """Seal a ticket and store it; remove those that no one can fetch any more.

    Raises QuotaError for one that is too large, StoreError.
    """
    if len(ticket) > LARGEST_TICKET_BYTES:
        raise QuotaError(
            f"this restore ticket has {len(ticket)} bytes, and an agent takes "
            f"{LARGEST_TICKET_BYTES}: restore fewer paths at once, or on a machine with the "
            "restore key"
        )
    key = clock.random_bytes(KEY_SIZE)
    data = _HEAD.pack(_MAGIC, _VERSION) + seal_object(key, _LABEL, ticket, AES_256_GCM)
    name = object_name(data)
    store.put("tickets", name, data)
    # By the store's clock, of which the time of the new one tells.
    remove_expired_tickets(store, store.info("tickets", name).modified_ns)
    return TicketObject(name=name, size_bytes=len(data), key=key)


def fetch_ticket(store: Store, wanted: TicketObject) -> bytes:
    """The ticket that a start message names.

    Raises DamageError where the object is not the one that was stored, ObjectMissingError,
    UnknownFormatError, StoreError.
    """
    # Looked at before anything is allocated.
    if not _HEAD.size < wanted.size_bytes <= LARGEST_OBJECT_BYTES:
        raise DamageError(f"a restore ticket cannot have {wanted.size_bytes} bytes")
    try:
        there = store.info("tickets", wanted.name).size_bytes
        if there != wanted.size_bytes:
            raise DamageError(
                f"the restore ticket has {there} bytes instead of {wanted.size_bytes}; "
                "start the restore again"
            )
        data = store.get("tickets", wanted.name, 0, wanted.size_bytes)
    except ObjectMissingError as error:
        raise ObjectMissingError(
            f"the restore ticket {wanted.name} is gone: it is kept until its run has ended, and "
            f"no longer than {KEPT_SECONDS // 3600} hours; start the restore again"
        ) from error
    if object_name(data) != wanted.name:
        raise DamageError(
            f"the restore ticket {wanted.name} was changed in the store; start the restore again"
        )
    if data[:4] != _MAGIC:
        raise DamageError(f"the object {wanted.name} is not a restore ticket")
    if data[4] != _VERSION:
        raise UnknownFormatError(f"a restore ticket object of version {data[4]}; update strongroom")
    return open_object(wanted.key, _LABEL, memoryview(data)[_HEAD.size :])


def remove_expired_tickets(store: Store, store_time_ns: int) -> int:
    """Remove tickets that no one can fetch any more; how many. `store_time_ns`: by its clock."""
    expired = [
        info.name
        for info in store.list("tickets")
        if store_time_ns - info.modified_ns > KEPT_SECONDS * clock.SECOND_NS
    ]
    for name in expired:
        store.delete("tickets", name)
    return len(expired)
