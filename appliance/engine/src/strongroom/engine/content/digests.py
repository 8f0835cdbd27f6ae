"""Digests: identities of chunks and blocks, names of objects, signatures of files.

A chunk id is keyed BLAKE3 of the raw bytes, 24 bytes long: equal content has equal ids within one
repository, and without the key an id says nothing about the content. A block id is keyed BLAKE3 of
the block's chunk ids and lengths, 24 bytes long. An object's name is plain BLAKE3-256 of the stored
bytes, so that any store can verify what it holds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final, Protocol

from blake3 import blake3
from typing_extensions import Buffer

from strongroom.base.errors import UsageError

CHUNK_ID_SIZE = 24
BLOCK_ID_SIZE = 24
# A block id as 64-bit words, for tables of many.
BLOCK_ID_WORDS = BLOCK_ID_SIZE // 8
OBJECT_NAME_SIZE = 32
_OBJECT_NAME: Final = re.compile("[0-9a-f]{64}")


class Signature(Protocol):
    """A digest in progress, as in hashlib."""

    def update(self, data: Buffer, /) -> object:
        """Append `data`."""

    def digest(self) -> bytes:
        """The digest of everything appended so far."""


def chunk_id(key: bytes, data: Buffer) -> bytes:
    """The 24-byte identity of a chunk's raw bytes under the 32-byte chunk key."""
    return blake3(data, key=key).digest(CHUNK_ID_SIZE)


def block_id(key: bytes, ids_and_lengths: Buffer) -> bytes:
    """The 24-byte identity of a block: of `id (24 bytes) + length (u32 LE)` for each chunk."""
    return blake3(ids_and_lengths, key=key).digest(BLOCK_ID_SIZE)


def ids_and_lengths(chunk_ids: Buffer, chunk_lengths: Buffer) -> bytes:
    """The input of `block_id`, from n * 24 bytes of ids and n * 4 bytes of lengths (u32 LE)."""
    # Some that import this module have no other need of it.
    import numpy as np

    ids = np.frombuffer(memoryview(chunk_ids), np.uint8)
    lengths = np.frombuffer(memoryview(chunk_lengths), np.uint8)
    count = len(lengths) // 4
    if len(ids) != count * CHUNK_ID_SIZE or len(lengths) != count * 4:
        raise ValueError("chunk ids and lengths differ in number")
    joined = np.empty((count, CHUNK_ID_SIZE + 4), np.uint8)
    joined[:, :CHUNK_ID_SIZE] = ids.reshape(count, CHUNK_ID_SIZE)
    joined[:, CHUNK_ID_SIZE:] = lengths.reshape(count, 4)
    return joined.tobytes()


def object_name(data: Buffer) -> str:
    """The name of an object: BLAKE3-256 of its stored bytes in hex."""
    return blake3(data).hexdigest()


def is_object_name(name: str) -> bool:
    """Whether `object_name` could have given `name`."""
    return _OBJECT_NAME.fullmatch(name) is not None


def new_signature(name: str) -> Signature:
    """A fresh digest by a name of `signature_names`; UsageError for another."""
    return _constructor(name)()


def signature_size(name: str) -> int:
    """Bytes of a signature; 0 for "none"."""
    try:
        return _SIZES[name]
    except KeyError:
        raise _unknown(name) from None


def signature_names() -> tuple[str, ...]:
    """Every name, "none" first, then by strength."""
    return tuple(_SIZES)


_SIZES = {
    "none": 0,
    "xxh128": 16,
    "md5": 16,
    "sha1": 20,
    "sha256": 32,
    "sha512": 64,
    "blake3": 32,
}


def _constructor(name: str) -> Callable[[], Signature]:
    if name == "blake3":
        return blake3
    if name == "xxh128":
        from xxhash import xxh3_128

        return xxh3_128
    if name in ("md5", "sha1"):
        return lambda: hashlib.new(name, usedforsecurity=False)
    if name in ("sha256", "sha512"):
        return lambda: hashlib.new(name)
    raise _unknown(name)


def _unknown(name: str) -> UsageError:
    return UsageError(f"unknown signature {name!r}; use one of {', '.join(_SIZES)}")
