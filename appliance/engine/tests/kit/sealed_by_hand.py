"""Objects that no writer of ours makes, sealed with a client's real keys, as their owner can."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

import msgspec
import zstandard
from blake3 import blake3

from strongroom.engine.content.ciphers import NONE, open_object, seal_object
from strongroom.engine.content.digests import object_name
from strongroom.engine.repository.keys.owners import agree, derive_key, public_of
from strongroom.engine.repository.keys.roles import PutKey, RestoreKey, footer_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import ListingSeal

HEAD_SIZE = 56
INDEX_HEAD = struct.Struct("<4sB3x16sI")
_FIRST_LABEL, _SECOND_LABEL = b"strongroom index 1", b"strongroom index chunks 1"
_FOOTER_LABEL = b"strongroom footer 1"
Change = "Callable[[bytes], bytes]"


def packed(text: bytes) -> bytes:
    """Text as a snapshot has it."""
    return struct.pack("<I", len(text)) + zstandard.compress(text, 1)


def snapshot_object(
    key: PutKey,
    fields: dict[str, object] | bytes,
    pages: object = (),
    *,
    raw_pages: bytes | None = None,
) -> bytes:
    """A snapshot of a client, with whatever fields and pages; the digest of these is right.

    fields: of the envelope, beside the name of the client; or all its text. raw_pages: the text of
    the list of pages, instead of `pages`.
    """
    listed = msgspec.msgpack.encode(pages) if raw_pages is None else raw_pages
    ephemeral = os.urandom(32)
    public = public_of(ephemeral)
    pages_key = derive_key(
        agree(ephemeral, key.restore_public),
        public + key.restore_public,
        b"strongroom pages 1" + key.client_id,
    )
    sealed = public + seal_object(pages_key, b"strongroom pages 1", packed(listed), NONE)
    if not isinstance(fields, bytes):
        rows = sum(page[3] for page in pages)  # type: ignore[attr-defined]
        size = sum(page[4] for page in pages)  # type: ignore[attr-defined]
        listing = ListingSeal(blake3(sealed).digest(), rows, size)
        whole = {"host": key.name, "generation": key.generation, "listing": listing, **fields}
        fields = msgspec.msgpack.encode(whole)
    envelope = seal_object(key.client.snapshot_key, b"strongroom snapshot 1", packed(fields), NONE)
    head = struct.pack("<4sB3x16sI", b"SRSN", 1, key.client_id, len(envelope))
    return head + envelope + sealed


def lease_object(key: PutKey, text: bytes) -> bytes:
    """A lease of a client that holds any text."""
    head = struct.pack("<4sB3x16s", b"SRLS", 1, key.client_id)
    return head + seal_object(key.client.lease_key, b"strongroom lease 1", text, NONE)


def changed_pack(key: PutKey, data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """A pack of the client with the text of its footer changed."""
    (size,) = struct.unpack_from("<I", data, len(data) - 8)
    head, at = data[:HEAD_SIZE], len(data) - 8 - size
    one_key = footer_key(key.client, head)
    text = change(open_object(one_key, _FOOTER_LABEL, data[at:-8]))
    footer = seal_object(one_key, _FOOTER_LABEL, text, NONE)
    return data[:at] + footer + struct.pack("<I4s", len(footer), b"SRPF")


def changed_index(
    key: PutKey,
    data: bytes,
    change: Callable[[bytes], bytes],
    change_second: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """An index object of the client with the texts of its parts changed; the digest is right."""
    size = INDEX_HEAD.unpack_from(data)[3]
    index_key = key.client.index_key
    first = open_object(index_key, _FIRST_LABEL, data[INDEX_HEAD.size : INDEX_HEAD.size + size])
    second = open_object(index_key, _SECOND_LABEL, data[INDEX_HEAD.size + size :])
    tail = seal_object(index_key, _SECOND_LABEL, change_second(second), NONE)
    text = blake3(tail).digest() + change(first[32:])
    sealed = seal_object(index_key, _FIRST_LABEL, text, NONE)
    return INDEX_HEAD.pack(b"SRIX", 1, key.client_id, len(sealed)) + sealed + tail


def changed_snapshot(
    whole: RestoreKey,
    key: PutKey,
    data: bytes,
    change: Callable[[bytes], bytes],
    change_pages: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """A snapshot of the client with its texts changed, and its seal of the pages put right."""
    (size,) = struct.unpack_from("<I", data, 24)
    sealed = data[28 + size :]
    envelope = unpacked(
        open_object(key.client.snapshot_key, b"strongroom snapshot 1", data[28 : 28 + size])
    )
    public = sealed[:32]
    pages_key = derive_key(
        agree(whole.private, public),
        public + key.restore_public,
        b"strongroom pages 1" + key.client_id,
    )
    pages = change_pages(unpacked(open_object(pages_key, b"strongroom pages 1", sealed[32:])))
    made = snapshot_object(key, b"", raw_pages=pages)
    (empty,) = struct.unpack_from("<I", made, 24)
    tail = made[28 + empty :]
    # The digest has as many bytes as before, so whatever the text is it can be replaced.
    before = blake3(sealed).digest()
    text = change(envelope.replace(before, blake3(tail).digest()))
    again = seal_object(key.client.snapshot_key, b"strongroom snapshot 1", packed(text), NONE)
    return struct.pack("<4sB3x16sI", b"SRSN", 1, key.client_id, len(again)) + again + tail


def unpacked(text: bytes) -> bytes:
    """The inverse of `packed`."""
    return zstandard.decompress(text[4:])


def store(repository: Repository, kind: str, data: bytes) -> str:
    """Store an object as its client does, under the name that it must have."""
    name = os.urandom(16).hex() if kind == "leases" else object_name(data)
    repository.store.put(kind, name, data)  # type: ignore[arg-type]
    return name
