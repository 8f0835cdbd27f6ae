"""The keys of what belongs to one client, or to all of them.

Packs, index objects, snapshots, leases and tombstones name their owner: the 16-byte id of a client,
or zeros (SHARED) for what all clients may refer to. A client's chunks and blocks have ids under its
own keys, so that no one else can confirm a guess about them; those that it offers to share have ids
under keys that are common to all clients.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import msgspec
from typing_extensions import Buffer

from strongroom.base.errors import DamageError, KeyRightError

# How keys follow from secrets: HKDF-SHA256, X25519, Ed25519.

SECRET_SIZE = 32
REPOSITORY_ID_SIZE = 16
SIGNATURE_SIZE = 64


def derive_key(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    """32 bytes by HKDF-SHA256."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt, purpose).derive(secret)


def public_of(private: bytes) -> bytes:
    """The X25519 public key of a private one, 32 bytes each."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes) -> bytes:
    """The X25519 shared secret, 32 bytes; DamageError for a public key of small order."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey,
        X25519PublicKey,
    )

    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
    except ValueError as error:
        raise DamageError("a stored public key is forged; run check") from error


def verify_key_of(seed: bytes) -> bytes:
    """The Ed25519 public key of a seed, 32 bytes each."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def sign(seed: bytes, data: Buffer) -> bytes:
    """An Ed25519 signature, 64 bytes."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(seed).sign(bytes(data))


def is_signed(verify_key: bytes, signature: Buffer, data: Buffer) -> bool:
    """Whether a signature is that of the key's holder."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(verify_key).verify(bytes(signature), bytes(data))
    except (InvalidSignature, ValueError):
        return False
    return True


CLIENT_ID_SIZE = 16
# The owner of packs that every client may refer to, and of their index.
SHARED = bytes(CLIENT_ID_SIZE)


class ContentKeys(NamedTuple):
    """What identifies and cuts content: keys of chunk and block ids, secret of cut points."""

    chunk_key: bytes
    block_key: bytes
    chunker_seed: bytes


# dict: for what is derived once and kept.
class OwnerKeys(msgspec.Struct, frozen=True, dict=True):
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
