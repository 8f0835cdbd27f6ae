"""A restore ticket as one of a snapshot of millions of packs, without the packs."""

from __future__ import annotations

import random

import msgspec

from strongroom.engine.repository import restore_ticket
from strongroom.engine.repository.keys.roles import PACK_ENTRY_SIZE, PutKey


def with_more_packs(ticket: bytes, put_key: PutKey, count: int, seed: int = 0) -> bytes:
    """The same ticket with keys of `count` further packs, in no order.

    Only the engine seals tickets, so it does it here; making one of millions of packs takes too
    long for a test.
    """
    decoded = restore_ticket._decode(put_key, ticket)  # noqa: SLF001
    packs = decoded.packs + random.Random(seed).randbytes(count * PACK_ENTRY_SIZE)
    return restore_ticket._encode(put_key, msgspec.structs.replace(decoded, packs=packs))  # noqa: SLF001
