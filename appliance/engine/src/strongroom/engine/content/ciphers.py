"""Authenticated encryption of blocks and of small objects.

A block cipher's key is used for one pack only. The nonce of a block is a keyed digest of its
associated data and text, stored before it:

    sealed block: nonce (12 bytes) | ciphertext | tag (16 bytes)

So two texts never share a nonce, also where a machine is set back to a moment in which a pack was
open (a virtual machine's snapshot, a fork): counters or random numbers would repeat there. A sealed
object brings a salt of 32 bytes from which its own key is derived; its nonce is zero. The salt is a
keyed digest of random bytes, label and text, for the same reason.

    sealed object: cipher u8 | salt (32 bytes) | ciphertext | tag (16 bytes)

Cipher NONE leaves the text readable and appends a 16-byte keyed BLAKE3 of nonce, associated data
and text: integrity without secrecy.
"""

from __future__ import annotations

import hmac
import struct
from typing import Any

from blake3 import blake3
from typing_extensions import Buffer

from strongroom.base import clock
from strongroom.base.errors import DamageError, UnknownFormatError, UsageError

NONE = 0
AES_256_GCM = 1
CHACHA20_POLY1305 = 2

CIPHER_NAMES = {NONE: "none", AES_256_GCM: "aes-256-gcm", CHACHA20_POLY1305: "chacha20-poly1305"}

KEY_SIZE = 32
TAG_SIZE = 16
NONCE_SIZE = 12
BLOCK_OVERHEAD_SIZE = NONCE_SIZE + TAG_SIZE
SALT_SIZE = 32
PREFIX_SIZE = 1 + SALT_SIZE
SEALED_OVERHEAD_SIZE = PREFIX_SIZE + TAG_SIZE

_LENGTH = struct.Struct("<Q")
_BLOCK_KEY_PURPOSE = b"strongroom blocks 1"
_NONCE_KEY_PURPOSE = b"strongroom block nonces 1"


class BlockCipher:
    """Seals and opens blocks under one key; safe from any thread."""

    def __init__(self, cipher: int, key: bytes) -> None:
        """`key`: 32 bytes; UnknownFormatError for a cipher this version does not have."""
        self._aead = _aead(cipher, blake3(_BLOCK_KEY_PURPOSE, key=key).digest())
        self._nonce_key = blake3(_NONCE_KEY_PURPOSE, key=key).digest()

    def seal_into(
        self, plaintext: Buffer, aad: bytes, sealed: Buffer, *, aad_fixes_text: bool = False
    ) -> None:
        """Nonce, ciphertext and tag into a buffer of BLOCK_OVERHEAD_SIZE more than the plaintext.

        aad_fixes_text: the associated data belongs to this plaintext alone, so that it need not be
        digested for the nonce (raw chunks, whose ids are in there).
        """
        nonce = blake3(_LENGTH.pack(len(aad)) + aad, key=self._nonce_key)
        if not aad_fixes_text:
            nonce.update(plaintext)
        view = memoryview(sealed).cast("B")
        view[:NONCE_SIZE] = number = nonce.digest(NONCE_SIZE)
        self._aead.encrypt_into(number, plaintext, aad, view[NONCE_SIZE:])

    def open(self, sealed: Buffer, aad: bytes) -> bytes:
        """The plaintext; DamageError when key, associated data or any bit differs."""
        from cryptography.exceptions import InvalidTag

        view = memoryview(sealed).cast("B")
        try:
            plaintext: bytes = self._aead.decrypt(view[:NONCE_SIZE], view[NONCE_SIZE:], aad)
        except (InvalidTag, ValueError) as error:
            raise DamageError("a block was changed: its authentication fails; run check") from error
        return plaintext


class PartCipher:
    """Seals the numbered parts of one file; the key is of that file alone. For any thread."""

    def __init__(self, cipher: int, key: bytes) -> None:
        """`key`: 32 bytes; UnknownFormatError for a cipher this version does not have."""
        self._aead = _aead(cipher, key)

    def seal(self, number: int, plaintext: Buffer) -> bytes:
        """A part, TAG_SIZE longer; each number is used once."""
        sealed: bytes = self._aead.encrypt(number.to_bytes(NONCE_SIZE, "little"), plaintext, b"")
        return sealed

    def open(self, number: int, sealed: Buffer) -> bytes:
        """The plaintext; DamageError when key, number or any bit differs."""
        from cryptography.exceptions import InvalidTag

        try:
            text: bytes = self._aead.decrypt(number.to_bytes(NONCE_SIZE, "little"), sealed, b"")
        except (InvalidTag, ValueError) as error:
            raise DamageError("a part of a file is not what was written") from error
        return text


def seal_object(key: bytes, label: bytes, data: Buffer, cipher: int) -> bytes:
    """A sealed object that opens only with the same key and label."""
    digest = blake3(clock.random_bytes(SALT_SIZE) + label, key=key)
    salt = digest.update(data).digest(SALT_SIZE)
    prefix = bytes([cipher]) + salt
    aead = _aead(cipher, object_key(key, prefix, label))
    return b"".join((prefix, aead.encrypt(bytes(12), data, label)))


def open_object(key: bytes, label: bytes, sealed: Buffer) -> bytes:
    """The plaintext; DamageError when key, label or any byte differs."""
    return open_with_object_key(object_key(key, object_prefix(sealed), label), label, sealed)


def object_prefix(sealed: Buffer) -> bytes:
    """Cipher and salt of a sealed object, from which the key of that one object follows."""
    return bytes(memoryview(sealed).cast("B")[:PREFIX_SIZE])


def object_key(key: bytes, prefix: bytes, label: bytes) -> bytes:
    """The key of one sealed object, which opens no other."""
    return blake3(prefix + label, key=key).digest()


def open_with_object_key(one_key: bytes, label: bytes, sealed: Buffer) -> bytes:
    """`open_object` by the key of that object alone."""
    from cryptography.exceptions import InvalidTag

    view = memoryview(sealed).cast("B")
    shown = label.decode("ascii", "replace")
    if len(view) < SEALED_OVERHEAD_SIZE:
        raise DamageError(f"{shown}: cut off at {len(view)} bytes; run check")
    aead = _aead(view[0], one_key)
    try:
        text: bytes = aead.decrypt(bytes(12), view[PREFIX_SIZE:], label)
    except (InvalidTag, ValueError) as error:
        raise DamageError(
            f"{shown}: changed since it was written: its authentication fails; run check"
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
        hasher.update(bytes(nonce) + _LENGTH.pack(len(associated_data)) + associated_data)
        hasher.update(data)
        return hasher.digest(TAG_SIZE)
