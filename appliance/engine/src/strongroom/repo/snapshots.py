"""Snapshots: a backup exists only once its snapshot object is stored.

    magic "SRSN" | version u8 | 0 u8 x 3 | envelope size u32
    envelope: sealed under the snapshot key (zstd of msgpack): all but the pages
    ephemeral X25519 public key (32)
    pages: sealed under the key agreed with the restore key (zstd of msgpack), the label ending with
           the BLAKE3-256 of the envelope as stored

A put key can read the envelope (schedules and retention need no more), but not the pages: they name
files. A snapshot's id is the name of its object.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec
from blake3 import blake3

from strongroom import clock
from strongroom.content.ciphers import KEY_SIZE, open_object, seal_object
from strongroom.content.digests import object_name
from strongroom.errors import (
    DamageError,
    ObjectMissingError,
    SnapshotNotFoundError,
    UnknownFormatError,
)
from strongroom.repo.keys import Key, agree, derive_key, public_of, required_restore_key

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from strongroom.stores.store import Store

_MAGIC = b"SRSN"
_VERSION = 1
_HEAD = struct.Struct("<4sB3xI")
_RAW_SIZE = struct.Struct("<I")
_RAW_SIZE_LIMIT = 512 << 20
_ENVELOPE_LABEL = b"strongroom snapshot 1"
_PAGES_LABEL = b"strongroom pages 1"
_PAGES_PURPOSE = b"strongroom pages 1"


class PageReference(msgspec.Struct, frozen=True, array_like=True):
    """A listing page: its first row, the block that holds it, and what is in it."""

    first_directory: bytes
    first_name: bytes
    block_id: bytes
    row_count: int
    content_bytes: int = 0


class Totals(msgspec.Struct, frozen=True):
    """What a snapshot holds, and the cost of making it."""

    files: int = 0
    directories: int = 0
    others: int = 0
    content_bytes: int = 0
    files_new: int = 0
    files_changed: int = 0
    files_unchanged: int = 0
    read_bytes: int = 0
    new_bytes: int = 0
    stored_bytes: int = 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot; `pages` is empty in one read with a put key.

    Times are unix nanoseconds: start and end by the client's clock, server by the store's
    (0 where it has none of its own).
    """

    host: str
    job: str = ""
    fileset: str = ""
    level: str = "full"
    parent: str = ""
    tags: tuple[str, ...] = ()
    paths: tuple[bytes, ...] = ()
    start_ns: int = 0
    end_ns: int = 0
    server_ns: int = 0
    totals: Totals = Totals()
    error_count: int = 0
    engine_version: str = ""
    options: dict[str, str] = {}
    original: str = ""
    protected: bool = False
    id: str = ""
    pages: tuple[PageReference, ...] = ()

    @property
    def short_id(self) -> str:
        """Enough of the id to show."""
        return self.id[:8]


def encode_snapshot(key: Key, snapshot: Snapshot, cipher: int) -> bytes:
    """The object of a snapshot; its `id` is not part of it."""
    put_key = key.put_key
    envelope = seal_object(
        put_key.snapshot_key,
        _ENVELOPE_LABEL,
        _pack(msgspec.msgpack.encode(msgspec.structs.replace(snapshot, id="", pages=()))),
        cipher,
    )
    ephemeral = clock.random_bytes(KEY_SIZE)
    public = public_of(ephemeral)
    pages_key = _pages_key(agree(ephemeral, put_key.restore_public), public, put_key.restore_public)
    pages = seal_object(
        pages_key,
        _PAGES_LABEL + blake3(envelope).digest(),
        _pack(msgspec.msgpack.encode(snapshot.pages)),
        cipher,
    )
    return b"".join((_HEAD.pack(_MAGIC, _VERSION, len(envelope)), envelope, public, pages))


def decode_snapshot(key: Key, name: str, data: bytes, *, pages: bool = False) -> Snapshot:
    """A snapshot from its object; with `pages` KeyRightError for a put key."""
    if object_name(data) != name:
        raise DamageError(f"snapshot {name} is not what its name says; run check")
    if len(data) < _HEAD.size or data[:4] != _MAGIC:
        raise DamageError(f"snapshot {name} does not begin as snapshots do; run check")
    _, version, envelope_size = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise UnknownFormatError(f"snapshot {name} has version {version}; update strongroom")
    view = memoryview(data)[_HEAD.size :]
    if envelope_size + KEY_SIZE > len(view):
        raise DamageError(f"snapshot {name} is cut off; run check")
    envelope = view[:envelope_size]
    text = _unpack(open_object(key.put_key.snapshot_key, _ENVELOPE_LABEL, envelope))
    try:
        snapshot = msgspec.msgpack.decode(text, type=Snapshot)
        page_list: tuple[PageReference, ...] = ()
        if pages:
            page_list = msgspec.msgpack.decode(
                _open_pages(key, envelope, view[envelope_size:]), type=tuple[PageReference, ...]
            )
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamageError(f"snapshot {name} holds something else ({error}); run check") from error
    return msgspec.structs.replace(snapshot, id=name, pages=page_list)


def write_snapshot(store: Store, key: Key, snapshot: Snapshot, cipher: int) -> Snapshot:
    """Commit a snapshot durably; everything it needs must be on stable storage already."""
    data = encode_snapshot(key, snapshot, cipher)
    name = object_name(data)
    store.put_durable("snapshots", name, data)
    return msgspec.structs.replace(snapshot, id=name)


def read_snapshot(store: Store, key: Key, name: str, *, pages: bool = False) -> Snapshot:
    """One snapshot by its whole id."""
    return decode_snapshot(key, name, store.get("snapshots", name), pages=pages)


def list_snapshots(store: Store, key: Key, leave_out: Container[str] = ()) -> list[Snapshot]:
    """Every snapshot without its pages, the oldest first; DamageError when one is not sound.

    leave_out: ids of those that are not read.

    A forged snapshot that is not vouched for is left out: it would prevent listing the others.
    """
    snapshots = []
    for info in store.list("snapshots"):
        if info.name in leave_out:
            continue
        try:
            snapshots.append(read_snapshot(store, key, info.name))
        except ObjectMissingError:
            # Forgotten since it was listed.
            continue
        except DamageError:
            if not _is_forged(store, info.name):
                raise
    return sorted(snapshots, key=lambda snapshot: (snapshot.start_ns, snapshot.id))


def _is_forged(store: Store, name: str) -> bool:
    """Whether an invalid snapshot was stored as such: its digest matches its name."""
    if name not in store.doubted("snapshots"):
        return False
    return object_name(store.get("snapshots", name)) == name


def select_snapshots(
    snapshots: Iterable[Snapshot],
    *,
    host: str | None = None,
    paths: tuple[bytes, ...] = (),
    tags: tuple[str, ...] = (),
    job: str | None = None,
    before_ns: int | None = None,
) -> list[Snapshot]:
    """Snapshots of a host and job with all the paths and tags that began before a time."""
    return [
        snapshot
        for snapshot in snapshots
        if (host is None or snapshot.host == host)
        and (job is None or snapshot.job == job)
        and set(paths) <= set(snapshot.paths)
        and set(tags) <= set(snapshot.tags)
        and (before_ns is None or snapshot.start_ns <= before_ns)
    ]


def find_snapshot(snapshots: Iterable[Snapshot], wanted: str) -> Snapshot:
    """Resolve "latest" or the beginning of an id; SnapshotNotFoundError unless one matches."""
    candidates = list(snapshots)
    if wanted == "latest":
        if not candidates:
            raise SnapshotNotFoundError("no snapshot fits; list them with strongroom snapshots")
        return max(candidates, key=lambda snapshot: (snapshot.start_ns, snapshot.id))
    fitting = [item for item in candidates if wanted and item.id.startswith(wanted.lower())]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = ", ".join(item.id[: len(wanted) + 4] for item in fitting[:5])
        raise SnapshotNotFoundError(f"{wanted} begins several snapshots ({shown}): give more of it")
    raise SnapshotNotFoundError(f"no snapshot fits {wanted!r}; list them with strongroom snapshots")


def _open_pages(key: Key, envelope: memoryview, rest: memoryview) -> bytes:
    restore_key = required_restore_key(key)
    public = bytes(rest[:KEY_SIZE])
    shared = agree(restore_key.private, public)
    pages_key = _pages_key(shared, public, key.put_key.restore_public)
    label = _PAGES_LABEL + blake3(envelope).digest()
    return _unpack(open_object(pages_key, label, rest[KEY_SIZE:]))


def _pages_key(shared: bytes, ephemeral_public: bytes, restore_public: bytes) -> bytes:
    return derive_key(shared, ephemeral_public + restore_public, _PAGES_PURPOSE)


def _pack(text: bytes) -> bytes:
    import zstandard

    return _RAW_SIZE.pack(len(text)) + zstandard.compress(text, 3)


def _unpack(packed: bytes) -> bytes:
    from strongroom.content.codecs import ZSTD, decompress

    if len(packed) < _RAW_SIZE.size:
        raise DamageError("a snapshot is cut off; run check")
    (raw_size,) = _RAW_SIZE.unpack_from(packed)
    if raw_size > _RAW_SIZE_LIMIT:
        raise DamageError(f"a snapshot claims {raw_size} bytes; run check")
    return decompress(ZSTD, memoryview(packed)[_RAW_SIZE.size :], raw_size)
