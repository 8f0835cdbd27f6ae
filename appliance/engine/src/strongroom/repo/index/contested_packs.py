"""Whose a pack is that index objects of several clients describe.

A client seals its own index, so it could describe another's pack as its own: hide what is in it, or
have it removed under a tombstone that bars only its own leases. The header of the pack decides.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from strongroom.errors import DamageError, ObjectMissingError, UnknownFormatError
from strongroom.repo.packs import read_owner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strongroom.stores.store import Store


def contested_owners(store: Store, claims: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The owner of each pack that several claim; claims: ids of packs and their owners.

    A pack that is gone or does not say whose it is has none of them: b"".
    """
    first: dict[bytes, bytes] = {}
    contested = {
        pack_id: b"" for pack_id, owner in claims if first.setdefault(pack_id, owner) != owner
    }
    for pack_id in contested:
        with suppress(ObjectMissingError, DamageError, UnknownFormatError):
            contested[pack_id] = read_owner(store, pack_id)
    return contested
