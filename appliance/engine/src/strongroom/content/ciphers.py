"""Authenticated encryption of blocks and of small objects.

A block cipher's key is used for one pack only; a block's nonce is its number in the pack, so no
nonce is used twice under a key. A sealed object brings a random salt of 32 bytes from which its own
key is derived; its nonce is zero.

    sealed object: cipher u8 | salt (32 bytes) | ciphertext | tag (16 bytes)

Cipher NONE leaves the text readable and appends a 16-byte keyed BLAKE3 of nonce, associated data
and text: integrity without secrecy.
"""

from __future__ import annotations

import hmac
import struct
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from strongroom import clock
from strongroom.errors import DamageError, UnknownFormatError, UsageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

NONE = 0
AES_256_GCM = 1
CHACHA20_POLY1305 = 2

CIPHER_NAMES = {NONE: "none", AES_256_GCM: "aes-256-gcm", CHACHA20_POLY1305: "chacha20-poly1305"}

KEY_SIZE = 32
TAG_SIZE = 16
SALT_SIZE = 32
SEALED_OVERHEAD_SIZE = 1 + SALT_SIZE + TAG_SIZE


class BlockCipher:
    """Seals and opens numbered blocks under one key; safe from any thread."""

    def __init__(self, cipher: int, key: bytes) -> None:
        """`key`: 32 bytes; UnknownFormatError for a cipher this version does not have."""
        self._aead = _aead(cipher, key)

    def seal(self, number: int, plaintext: Buffer, aad: bytes) -> bytes:
        """Ciphertext and tag; `number` must not have been used before under this key."""
        sealed: bytes = self._aead.encrypt(number.to_bytes(12, "little"), plaintext, aad)
        return sealed

    def seal_into(self, number: int, plaintext: Buffer, aad: bytes, sealed: Buffer) -> None:
        """`seal` into a buffer of exactly the plaintext's length and 16 bytes."""
        self._aead.encrypt_into(number.to_bytes(12, "little"), plaintext, aad, sealed)

    def open(self, number: int, sealed: Buffer, aad: bytes) -> bytes:
        """The plaintext; DamageError when key, number, associated data or any bit differs."""
        from cryptography.exceptions import InvalidTag

        try:
            plaintext: bytes = self._aead.decrypt(number.to_bytes(12, "little"), sealed, aad)
        except (InvalidTag, ValueError) as error:
            raise DamageError(
                f"block {number} is not what was written: its authentication fails; run check"
            ) from error
        return plaintext


def seal_object(key: bytes, label: bytes, data: Buffer, cipher: int) -> bytes:
    """A sealed object that opens only with the same key and label."""
    salt = clock.random_bytes(SALT_SIZE)
    prefix = bytes([cipher]) + salt
    aead = _aead(cipher, _object_key(key, prefix, label))
    return b"".join((prefix, aead.encrypt(bytes(12), data, label)))


def open_object(key: bytes, label: bytes, sealed: Buffer) -> bytes:
    """The plaintext; DamageError when key, label or any byte differs."""
    from cryptography.exceptions import InvalidTag

    view = memoryview(sealed).cast("B")
    shown = label.decode("ascii", "replace")
    if len(view) < SEALED_OVERHEAD_SIZE:
        raise DamageError(f"{shown}: cut off at {len(view)} bytes; run check")
    prefix = bytes(view[: 1 + SALT_SIZE])
    aead = _aead(prefix[0], _object_key(key, prefix, label))
    try:
        text: bytes = aead.decrypt(bytes(12), view[1 + SALT_SIZE :], label)
    except (InvalidTag, ValueError) as error:
        raise DamageError(
            f"{shown}: not what was written: its authentication fails; run check"
        ) from error
    return text


def preferred_cipher() -> int:
    """AES-256-GCM where the processor has instructions for it, else ChaCha20-Poly1305."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return AES_256_GCM if "aes" in value.split() else CHACHA20_POLY1305
    except OSError:
        return CHACHA20_POLY1305
    return CHACHA20_POLY1305


def parse_encryption(text: str) -> int:
    """The cipher by name; "auto" is `preferred_cipher`. UsageError for an unknown name."""
    if text == "auto":
        return preferred_cipher()
    for cipher, name in CIPHER_NAMES.items():
        if text == name:
            return cipher
    raise UsageError(f"unknown encryption {text!r}; use auto, {', '.join(CIPHER_NAMES.values())}")


def _object_key(key: bytes, prefix: bytes, label: bytes) -> bytes:
    return blake3(prefix + label, key=key).digest()


def _aead(cipher: int, key: bytes) -> Any:
    if cipher == NONE:
        return _KeyedDigest(key)
    from cryptography.hazmat.primitives.ciphers import aead

    if cipher == AES_256_GCM:
        return aead.AESGCM(key)
    if cipher == CHACHA20_POLY1305:
        return aead.ChaCha20Poly1305(key)
    raise UnknownFormatError(f"cipher {cipher} is unknown to this version; update strongroom")


class _KeyedDigest:
    """Integrity without secrecy, in the shape of an AEAD."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def encrypt(self, nonce: bytes, data: Buffer, associated_data: bytes) -> bytes:
        return bytes(data) + self._tag(nonce, data, associated_data)

    def encrypt_into(self, nonce: bytes, data: Buffer, associated_data: bytes, buf: Buffer) -> int:
        view = memoryview(buf).cast("B")
        view[:-TAG_SIZE] = memoryview(data).cast("B")
        view[-TAG_SIZE:] = self._tag(nonce, data, associated_data)
        return len(view)

    def decrypt(self, nonce: bytes, data: Buffer, associated_data: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        view = memoryview(data).cast("B")
        if len(view) < TAG_SIZE:
            raise InvalidTag
        text = view[:-TAG_SIZE]
        if not hmac.compare_digest(self._tag(nonce, text, associated_data), view[-TAG_SIZE:]):
            raise InvalidTag
        return bytes(text)

    def _tag(self, nonce: bytes, data: Buffer, associated_data: bytes) -> bytes:
        hasher = blake3(key=self._key)
        hasher.update(nonce + struct.pack("<Q", len(associated_data)) + associated_data)
        hasher.update(data)
        return hasher.digest(TAG_SIZE)
