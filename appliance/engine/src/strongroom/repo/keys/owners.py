"""The keys of what belongs to one client, or to all of them.

Packs, index objects, snapshots, leases and tombstones name their owner: the 16-byte id of a client,
or zeros (SHARED) for what all clients may refer to. A client's chunks and blocks have ids under its
own keys, so that nobody else can confirm a guess about them; those that it offers to share have ids
under keys that are common to all clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from strongroom.errors import KeyRightError
from strongroom.repo.keys.derivation import derive_key

CLIENT_ID_SIZE = 16
# The owner of packs that every client may refer to, and of their index.
SHARED = bytes(CLIENT_ID_SIZE)


class ContentKeys(NamedTuple):
    """What identifies and cuts content: keys of chunk and block ids, secret of cut points."""

    chunk_key: bytes
    block_key: bytes
    chunker_seed: bytes


@dataclass(frozen=True)
class OwnerKeys:
    """The keys of one owner's objects.

    own: of content that is not offered, for SHARED the common ones. secret: the client's, or the
    common one; b"" where a ticket has the content keys only.
    """

    owner: bytes
    own: ContentKeys
    common: ContentKeys
    secret: bytes
    salt: bytes

    def content(self, *, offered: bool) -> ContentKeys:
        """Of content that is offered to share, or of other content."""
        return self.common if offered else self.own

    @cached_property
    def index_key(self) -> bytes:
        """Key of pack footers, index objects and tombstones."""
        return self._derive(b"strongroom index 1")

    @cached_property
    def snapshot_key(self) -> bytes:
        """Key of snapshot envelopes."""
        return self._derive(b"strongroom snapshots 1")

    @cached_property
    def lease_key(self) -> bytes:
        """Key of leases."""
        return self._derive(b"strongroom leases 1")

    @cached_property
    def ticket_key(self) -> bytes:
        """Key of the restore tickets that this client receives."""
        return self._derive(b"strongroom tickets 1")

    def _derive(self, purpose: bytes) -> bytes:
        if not self.secret:
            raise KeyRightError("a restore ticket opens content only, no objects of another client")
        return derive_key(self.secret, self.salt, purpose)


def content_keys(secret: bytes, salt: bytes) -> ContentKeys:
    """The content keys of a client's secret, or of the common one. salt: the repository's id."""
    purposes = (b"strongroom chunk ids 1", b"strongroom block ids 1", b"strongroom chunker 1")
    return ContentKeys(*(derive_key(secret, salt, purpose) for purpose in purposes))


def owner_keys(owner: bytes, secret: bytes, salt: bytes, common: ContentKeys) -> OwnerKeys:
    """All keys of an owner."""
    own = common if owner == SHARED else content_keys(secret, salt)
    return OwnerKeys(owner, own, common, secret, salt)
