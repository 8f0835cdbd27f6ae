"""Coverage-guided fuzzing of the snapshot decoder: envelope and list of pages.

    python fuzz/fuzz_snapshot.py --seeds DIRECTORY            write a seed corpus
    python fuzz/fuzz_snapshot.py DIRECTORY [libFuzzer options]

The two plain texts are packed and sealed, then read as the engine does. Reading gives a snapshot,
which can be written again and reads the same, or DamageError.
"""

from __future__ import annotations

import struct

import atheris
import msgspec
from sealed_objects import KEY, PRIVATE, PUT, cut, joined, run

with atheris.instrument_imports(include=["strongroom"]):
    from strongroom.base.errors import DamageError, UsageError
    from strongroom.engine.content.ciphers import NONE, seal_object
    from strongroom.engine.content.digests import object_name
    from strongroom.engine.repository.keys.owners import agree, derive_key, public_of
    from strongroom.engine.repository.snapshots import (
        ListingSeal,
        PageReference,
        Snapshot,
        Totals,
        decode_snapshot,
        encode_snapshot,
    )

import zstandard
from blake3 import blake3

EPHEMERAL = bytes(range(32, 64))
PUBLIC = public_of(EPHEMERAL)
RESTORE_PUBLIC = public_of(PRIVATE)
PAGES_KEY = derive_key(
    agree(EPHEMERAL, RESTORE_PUBLIC),
    PUBLIC + RESTORE_PUBLIC,
    b"strongroom pages 1" + PUT.client_id,
)


def packed(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + zstandard.compress(text, 1)


def check_snapshot(data: bytes) -> None:
    first, second = cut(data)
    snapshot_key = PUT.client.snapshot_key
    pages = seal_object(PAGES_KEY, b"strongroom pages 1", packed(second), NONE)
    sealed = committed(first, second, blake3(PUBLIC + pages).digest())
    envelope = seal_object(snapshot_key, b"strongroom snapshot 1", packed(sealed), NONE)
    head = struct.pack("<4sB3x16sI", b"SRSN", 1, PUT.client_id, len(envelope))
    stored = head + envelope + PUBLIC + pages
    try:
        read = decode_snapshot(KEY, object_name(stored), stored, pages=True)
    except DamageError:
        return
    try:
        again = encode_snapshot(PUT, read, NONE)
    except UsageError:
        # What it leaves out as its default makes the envelope too large when it is written.
        return
    reread = decode_snapshot(KEY, object_name(again), again, pages=True)
    assert msgspec.structs.replace(reread, id=read.id, listing=read.listing) == read


def committed(envelope: bytes, pages: bytes, digest: bytes) -> bytes:
    """The envelope's text with the client and what it says of the pages put right.

    Where both make sense.
    """
    try:
        snapshot = msgspec.msgpack.decode(envelope, type=Snapshot)
        listed = msgspec.msgpack.decode(pages, type=tuple[PageReference, ...])
        rows, size = sum(one.row_count for one in listed), sum(one.content_bytes for one in listed)
        listing = ListingSeal(digest, rows, size)
        return msgspec.msgpack.encode(
            msgspec.structs.replace(snapshot, host=PUT.name, generation=0, listing=listing)
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, OverflowError):
        return envelope


def seed_snapshots() -> list[bytes]:
    """Plain texts of an empty and of a full snapshot."""
    page = PageReference(b"home/ann", b"file\xff", bytes(24), 4096, 1 << 40)
    full = Snapshot(
        host="vault",
        job="nightly",
        level="incremental",
        parent="ab" * 32,
        tags=("a", "b"),
        paths=(b"home", b"\xff"),
        start_ns=-1,
        end_ns=1 << 62,
        totals=Totals(files=3, stored_bytes=1 << 50),
        options={"compression": "auto"},
    )
    texts = ((Snapshot(host=""), ()), (full, (page, page)))
    return [
        joined(msgspec.msgpack.encode(snapshot), msgspec.msgpack.encode(pages))
        for snapshot, pages in texts
    ]


if __name__ == "__main__":
    run(check_snapshot, seed_snapshots)
