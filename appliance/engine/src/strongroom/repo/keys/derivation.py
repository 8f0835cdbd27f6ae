"""How keys follow from secrets: HKDF-SHA256, X25519, Ed25519."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.errors import DamageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

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
