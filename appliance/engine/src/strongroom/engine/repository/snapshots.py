"""Snapshots: a backup exists only once its snapshot object is stored.

    magic "SRSN" | version u8 | 0 u8 x 3 | client id (16) | envelope size u32
    envelope: sealed under the client's snapshot key (zstd of msgpack): all but the pages
    ephemeral X25519 public key (32)
    pages: sealed under the key agreed with the restore key (zstd of msgpack)

A client's put key can read its envelopes (schedules and retention need no more), but not the pages:
they name files. The name of the client in the envelope is the one of its id: anyone who has the
appliance key compares them, so that no client can store a snapshot in another's name. Pages can be
sealed by anybody, since the restore key's public half is not a secret; so the envelope, which takes
a key to write, holds their digest and how much they list. Anyone who reads a snapshot compares the
digest, with any key. A snapshot's id is the name of its object.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from blake3 import blake3

from strongroom.base import clock
from strongroom.base.decoding import array_size, decode, decode_object, reading
from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    MemoryLimitError,
    ObjectMissingError,
    SnapshotNotFoundError,
    UnknownFormatError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.engine.content.ciphers import (
    KEY_SIZE,
    SEALED_OVERHEAD_SIZE,
    open_object,
    seal_object,
)
from strongroom.engine.content.digests import BLOCK_ID_SIZE, is_object_name, object_name
from strongroom.engine.repository.keys.owners import (
    CLIENT_ID_SIZE,
    agree,
    derive_key,
    public_of,
)
from strongroom.engine.repository.keys.roles import Key, PutKey, RestoreKey, required_restore_key
from strongroom.engine.repository.left_out import LeftOut, decode_left_out, encode_left_out
from strongroom.engine.repository.set_aside import SetAside, is_of_one_object
from strongroom.engine.rows.left_out import unread_folders
from strongroom.engine.rows.rows import bytes_together
from strongroom.engine.stores.at_once import read_each
from strongroom.engine.stores.store import ObjectInfo, Store

if TYPE_CHECKING:
    from strongroom.engine.repository.kept_notes import KeptNotes
    from strongroom.engine.repository.read_caches import RecentlyUsed

_MAGIC = b"SRSN"
_VERSION = 1
_HEAD = struct.Struct("<4sB3x16sI")
_RAW_SIZE = struct.Struct("<I")
# Far more than any backup names, and what a forged envelope may cost anyone who lists snapshots.
ENVELOPE_SIZE_LIMIT = 1 << 20
_PAGES_SIZE_LIMIT = 512 << 20
# Block ids do not compress, so this many bytes stored are the least for a page; names may repeat.
_PAGES_SPARE = 16
# A path of 4096 letters for each page; longer ones, and what was left out, are in the spare bytes.
_PAGES_MOST_RATIO = 256
_PAGES_SPARE_BYTES = 16 << 20
_ENVELOPE_LABEL = b"strongroom snapshot 1"
_PAGES_LABEL = b"strongroom pages 1"
_PAGES_PURPOSE = b"strongroom pages 1"
_MARK_LABEL = b"strongroom unread folder 1"
_MARK_BYTES = 8
_MOST_MARKS = 256
_MOST_NAMED_HOSTS = 20
# What the director's tags begin with: the run and the pool of a snapshot; and that of a catalog.
RUN_TAG = "run="
POOL_TAG = "pool="
CATALOG_TAG = "strongroom-catalog"


# By names of objects as bytes.
_NewNotes = dict[bytes, bytes]
# What databases, clocks and arrays take; whether it can be true is another matter.
Number = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Generation = Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 1)]


class PageReference(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A listing page: its first row, the block that holds it, and what is in it."""

    first_directory: bytes
    first_name: bytes
    block_id: Annotated[bytes, msgspec.Meta(min_length=BLOCK_ID_SIZE, max_length=BLOCK_ID_SIZE)]
    row_count: Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 1)]
    content_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0


class _ListedPage(PageReference, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A page as a snapshot lists it; left_out: with the first one, of the whole snapshot."""

    left_out: bytes = b""


class Totals(msgspec.Struct, frozen=True):
    """What a snapshot holds, and the cost of making it.

    hole_bytes: what of the content is in holes; 0 in snapshots of before it was counted.
    """

    files: Number = 0
    directories: Number = 0
    others: Number = 0
    content_bytes: Number = 0
    files_new: Number = 0
    files_changed: Number = 0
    files_unchanged: Number = 0
    read_bytes: Number = 0
    new_bytes: Number = 0
    stored_bytes: Number = 0
    hole_bytes: Number = 0

    @property
    def data_bytes(self) -> int:
        """The content without holes: what a progress counts."""
        return max(0, self.content_bytes - self.hole_bytes)


class ListingSeal(msgspec.Struct, frozen=True):
    """What an envelope says of its pages: BLAKE3-256 of them as sealed, their rows and bytes."""

    digest: bytes = b""
    row_count: Number = 0
    content_bytes: Number = 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot; `pages` is empty in one read with a put key, `listing` in one not stored yet.

    left_out: what its backup left out; None where that is not known, or no pages were read.
    host, generation: the client whose it is; owner: its id.
    missing_paths: how many of the paths that were named were not there.
    Times are unix nanoseconds: start and end by the client's clock, server by the store's
    (0 where it has none of its own).
    witness: see `witness_of`; b"" where it was made with a put key, and in older snapshots.
    unread_marks: of folders that its backup could not list, equal in snapshots of a client for the
    same folder; they do not tell its name.
    """

    host: str
    generation: Generation = 0
    job: str = ""
    fileset: str = ""
    level: str = "full"
    parent: str = ""
    tags: tuple[str, ...] = ()
    paths: tuple[bytes, ...] = ()
    start_ns: Number = 0
    end_ns: Number = 0
    server_ns: Number = 0
    totals: Totals = Totals()
    error_count: Number = 0
    missing_paths: Number = 0
    engine_version: str = ""
    options: dict[str, str] = {}
    original: str = ""
    protected: bool = False
    listing: ListingSeal = ListingSeal()
    witness: bytes = b""
    unread_marks: tuple[bytes, ...] = ()
    id: str = ""
    owner: bytes = b""
    pages: tuple[PageReference, ...] = ()
    left_out: LeftOut | None = None

    @property
    def short_id(self) -> str:
        """Enough of the id to show."""
        return self.id[:8]

    @property
    def unread(self) -> tuple[bytes, ...]:
        """Folders that its backup could not list, of a snapshot read with its pages."""
        return () if self.left_out is None else tuple(unread_folders(self.left_out.places))


def witness_of(key: Key, owner: bytes, pages: Sequence[PageReference]) -> bytes:
    """What shows that a snapshot of these pages was made with the restore key; b"" by another key.

    A put key makes snapshots of its client with any content: nothing else in one tells who made it.
    """
    if not isinstance(key, RestoreKey):
        return b""
    return blake3(owner + msgspec.msgpack.encode(pages), key=key.witness_key).digest()


def is_made_with_restore_key(key: Key, snapshot: Snapshot) -> bool:
    """Whether a snapshot, read with its pages, was made with the repository's restore key."""
    expected = witness_of(key, snapshot.owner, snapshot.pages)
    return bool(expected) and hmac.compare_digest(expected, snapshot.witness)


def encode_snapshot(key: PutKey, snapshot: Snapshot, cipher: int) -> bytes:
    """The object of a snapshot of the key's client, whatever `host` says.

    Its `id` is not part of it, its `listing` is made from its pages. Raises UsageError where paths,
    tags and options are more than an envelope may hold.
    """
    ephemeral = clock.random_bytes(KEY_SIZE)
    public = public_of(ephemeral)
    shared = agree(ephemeral, key.restore_public)
    pages_key = _pages_key(shared, public, key.restore_public, key.client_id)
    listed = msgspec.msgpack.encode(_listed(snapshot.pages, encode_left_out(snapshot.left_out)))
    pages = seal_object(pages_key, _PAGES_LABEL, _pack(listed), cipher)
    listing = ListingSeal(blake3(public).update(pages).digest(), *totals_of(snapshot.pages))
    text = msgspec.msgpack.encode(
        msgspec.structs.replace(
            snapshot,
            host=key.name,
            generation=key.generation,
            listing=listing,
            unread_marks=_unread_marks(key, snapshot),
            id="",
            owner=b"",
            pages=(),
            left_out=None,
        )
    )
    if len(text) > ENVELOPE_SIZE_LIMIT:
        raise UsageError(
            f"the paths, tags and options of this snapshot take {len(text)} bytes, and "
            f"{ENVELOPE_SIZE_LIMIT} may be kept; name folders instead of single files"
        )
    envelope = seal_object(key.client.snapshot_key, _ENVELOPE_LABEL, _pack(text), cipher)
    head = _HEAD.pack(_MAGIC, _VERSION, key.client_id, len(envelope))
    return b"".join((head, envelope, public, pages))


def _unread_marks(key: PutKey, snapshot: Snapshot) -> tuple[bytes, ...]:
    if snapshot.left_out is None:
        return snapshot.unread_marks
    marks = [
        blake3(_MARK_LABEL + path, key=key.client.snapshot_key).digest(_MARK_BYTES)
        for path in snapshot.unread
    ]
    return tuple(sorted(marks)[:_MOST_MARKS])


def decode_snapshot(key: Key, name: str, data: bytes, *, pages: bool = False) -> Snapshot:
    """A snapshot from its object; KeyRightError for another client's, or `pages` with a put key."""
    owner, text, sealed_pages = _open_envelope(key, name, data)
    snapshot = _without_pages(key, name, owner, text)
    what = f"snapshot {name}"
    if blake3(sealed_pages).digest() != snapshot.listing.digest:
        raise DamageError(f"{what} has another listing than it says; run check")
    if not pages:
        return snapshot
    page_list, left_out = _decode_pages(_open_pages(key, owner, sealed_pages), what)
    if totals_of(page_list) != (snapshot.listing.row_count, snapshot.listing.content_bytes):
        raise DamageError(f"{what} lists more or less than it says; run check")
    return msgspec.structs.replace(snapshot, pages=page_list, left_out=left_out)


def _open_envelope(key: Key, name: str, data: bytes) -> tuple[bytes, bytes, memoryview]:
    """The owner, the envelope as it was written, and the sealed pages."""
    if object_name(data) != name:
        raise DamageError(f"snapshot {name} does not match its name; run check")
    if data[:4] != _MAGIC:
        raise DamageError(f"snapshot {name} does not begin as snapshots do; run check")
    if len(data) > len(_MAGIC) and data[4] != _VERSION:
        raise UnknownFormatError(f"snapshot {name} has version {data[4]}; update strongroom")
    if len(data) < _HEAD.size:
        raise DamageError(f"snapshot {name} is cut off; run check")
    _, _, owner, envelope_size = _HEAD.unpack_from(data)
    view = memoryview(data)[_HEAD.size :]
    if envelope_size + KEY_SIZE > len(view):
        raise DamageError(f"snapshot {name} is cut off; run check")
    if envelope_size > ENVELOPE_SIZE_LIMIT + SEALED_OVERHEAD_SIZE:
        raise DamageError(f"snapshot {name} claims an envelope of {envelope_size} bytes; run check")
    what = f"snapshot {name}"
    snapshot_key = key.owner(owner).snapshot_key
    try:
        envelope = open_object(snapshot_key, _ENVELOPE_LABEL, view[:envelope_size])
    except DamageError as error:
        raise DamageError(f"{what}: {error}") from error
    return owner, _unpack(envelope, what, ENVELOPE_SIZE_LIMIT), view[envelope_size:]


def _without_pages(key: Key, name: str, owner: bytes, text: bytes) -> Snapshot:
    """A snapshot from its envelope."""
    what = f"snapshot {name}"
    snapshot = decode_object(text, Snapshot, what, ENVELOPE_SIZE_LIMIT)
    with reading(what):
        if not key.has_name(owner, snapshot.host, snapshot.generation):
            raise DamageError(
                f"{what} says that it is of {printable(snapshot.host)}, which it is not"
            )
    return msgspec.structs.replace(snapshot, id=name, owner=owner, pages=(), left_out=None)


def _read_noted(
    key: Key, name: str, data: bytes | None, notes: KeptNotes, new: _NewNotes
) -> Snapshot:
    """A snapshot without pages, by its note where it was not read; see `kept_notes`."""
    if data is not None:
        try:
            snapshot = decode_snapshot(key, name, data)
        except KeyRightError:
            new[bytes.fromhex(name)] = b""
            raise
        owner, text, _ = _open_envelope(key, name, data)
        new[bytes.fromhex(name)] = owner + text
        return snapshot
    note = notes.get(name)
    if not note:
        raise KeyRightError(f"snapshot {name} is of another client")
    owner, text = note[:CLIENT_ID_SIZE], note[CLIENT_ID_SIZE:]
    return _without_pages(key, name, owner, text)


def write_snapshot(store: Store, key: PutKey, snapshot: Snapshot, cipher: int) -> Snapshot:
    """Commit a snapshot durably; everything it needs must be on stable storage already."""
    data = encode_snapshot(key, snapshot, cipher)
    name = object_name(data)
    store.put_durable("snapshots", name, data)
    return msgspec.structs.replace(
        decode_snapshot(key, name, data), pages=snapshot.pages, left_out=snapshot.left_out
    )


def read_snapshot(store: Store, key: Key, name: str, *, pages: bool = False) -> Snapshot:
    """One snapshot by its whole id."""
    return decode_snapshot(key, name, store.get("snapshots", name), pages=pages)


def believed(snapshot: Snapshot, info: ObjectInfo) -> Snapshot:
    """A snapshot that did not begin after it was stored. info: the store's, of its object.

    Its client writes the beginning: one in the future would be `latest` until then.
    """
    start_ns = begun_ns(snapshot, info)
    return (
        snapshot
        if start_ns == snapshot.start_ns
        else msgspec.structs.replace(snapshot, start_ns=start_ns)
    )


def begun_ns(snapshot: Snapshot, info: ObjectInfo) -> int:
    """When it began, as far as that is believed."""
    # Of two within one second the later one is `latest`, also where the store tells only seconds.
    is_possible = snapshot.start_ns < info.stored_before_ns
    return snapshot.start_ns if is_possible else info.modified_ns


def list_snapshots(
    store: Store,
    key: Key,
    leave_out: Container[str] = (),
    set_aside: SetAside | None = None,
    notes: KeptNotes | None = None,
    kept: RecentlyUsed[str, bytes] | None = None,
    *,
    as_written: bool = False,
) -> list[Snapshot]:
    """Every snapshot without its pages, the oldest first; DamageError when one is not sound.

    With a client's put key those of that client.

    leave_out: ids of those that are not read. set_aside: takes those that cannot be read, instead
    of an error. as_written: with times that are not believed (see `believed`), for anyone who
    judges them. notes: those that were read before are not read again: damage since then is found
    by who reads their pages. kept: takes the objects that were read.

    A snapshot that is forged or of an unknown version, and not verified, is left out: it would
    prevent listing the others.
    """
    snapshots = []
    new: _NewNotes = {}
    there = set()
    infos = [info for info in store.list("snapshots") if info.name not in leave_out]
    for info, data in _read_unnoted(store, infos, notes):
        try:
            if isinstance(data, Exception):
                raise data
            if data is not None and kept is not None:
                kept.keep(info.name, data)
            if notes is not None and is_object_name(info.name):
                there.add(bytes.fromhex(info.name))
                snapshot = _read_noted(key, info.name, data, notes, new)
            else:
                assert data is not None
                snapshot = decode_snapshot(key, info.name, data)
        except (ObjectMissingError, KeyRightError):
            # Forgotten since it was listed; or of another client.
            continue
        except Exception as error:
            if set_aside is not None and is_of_one_object(error):
                set_aside.add("snapshots", info.name, error)
            elif not was_stored_unreadable(store, key, info.name):
                raise
            continue
        snapshots.append(snapshot if as_written else believed(snapshot, info))
    if notes is not None:
        notes.add(new, there)
    return sorted(snapshots, key=lambda snapshot: (snapshot.start_ns, snapshot.id))


def _read_unnoted(
    store: Store, infos: Sequence[ObjectInfo], notes: KeptNotes | None
) -> Iterator[tuple[ObjectInfo, bytes | Exception | None]]:
    """The objects that were listed, or why one cannot be read; None where there is a note of it."""
    unread = {
        info.name
        for info in infos
        if notes is None or not is_object_name(info.name) or notes.get(info.name) is None
    }
    names = [info.name for info in infos if info.name in unread]
    found = read_each(store, names, lambda name: store.get("snapshots", name))
    for info in infos:
        yield info, next(found)[1] if info.name in unread else None


def was_stored_unreadable(store: Store, key: Key, name: str) -> bool:
    """Whether an invalid snapshot was stored as such, and no one has verified it.

    The bytes whose digest matches the name must be the invalid ones: a read that went wrong once
    must not make anybody take a good snapshot for none.
    """
    if name not in store.unverified("snapshots"):
        return False
    data = store.get("snapshots", name)
    if object_name(data) != name:
        return False
    try:
        decode_snapshot(key, name, data, pages=isinstance(key, RestoreKey))
    except KeyRightError:
        return False
    except Exception as error:
        # Too little memory says nothing of what was stored.
        if isinstance(error, MemoryError | MemoryLimitError) or not is_of_one_object(error):
            raise
        return True
    return False


def select_snapshots(
    snapshots: Iterable[Snapshot],
    *,
    host: str | None = None,
    paths: tuple[tuple[bytes, ...], ...] = (),
    tags: tuple[str, ...] = (),
    job: str | None = None,
    before_ns: int | None = None,
) -> list[Snapshot]:
    """Snapshots of a host and job with all the paths and tags that began before a time.

    paths: each in all ways to write it.
    """
    return [
        snapshot
        for snapshot in snapshots
        if (host is None or snapshot.host == host)
        and (job is None or snapshot.job == job)
        and not any(set(snapshot.paths).isdisjoint(ways) for ways in paths)
        and set(tags) <= set(snapshot.tags)
        and (before_ns is None or snapshot.start_ns <= before_ns)
    ]


def find_snapshot(snapshots: Iterable[Snapshot], wanted: str) -> Snapshot:
    """Resolve "latest" or the beginning of an id; SnapshotNotFoundError unless one matches.

    UsageError for the latest of several clients: each of them could store one that is newer, with
    any job, paths and tags.
    """
    candidates = list(snapshots)
    if wanted == "latest":
        if not candidates:
            raise SnapshotNotFoundError("no snapshot fits; list them with strongroom snapshots")
        hosts = sorted({printable(snapshot.host) for snapshot in candidates})
        if len(hosts) > 1:
            shown = ", ".join(hosts[:_MOST_NAMED_HOSTS])
            more = len(hosts) - _MOST_NAMED_HOSTS
            rest = f" and {more} more" if more > 0 else ""
            raise UsageError(
                f"`latest` matches {len(hosts)} clients: {shown}{rest}. Choose with --host "
                "NAME, or name the snapshot by its id"
            )
        # One that was rewritten has the time of its original.
        return max(candidates, key=lambda one: (one.start_ns, one.server_ns, one.id))
    fitting = [item for item in candidates if wanted and item.id.startswith(wanted.lower())]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        shown = ", ".join(item.id[: len(wanted) + 4] for item in fitting[:5])
        raise SnapshotNotFoundError(
            f"{wanted} matches several snapshots ({shown}): type more of the id"
        )
    raise SnapshotNotFoundError(f"no snapshot fits {wanted!r}; list them with strongroom snapshots")


def totals_of(pages: Iterable[PageReference]) -> tuple[int, int]:
    """Rows and bytes of pages, as `ListingSeal` has them."""
    listed = list(pages)
    return sum(page.row_count for page in listed), bytes_together(
        page.content_bytes for page in listed
    )


def _listed(pages: tuple[PageReference, ...], left_out: bytes) -> tuple[PageReference, ...]:
    """The pages as a snapshot lists them."""
    if not left_out or not pages:
        return pages
    first = msgspec.structs.asdict(pages[0])
    return (_ListedPage(**first, left_out=left_out), *pages[1:])


def _decode_pages(packed: bytes, what: str) -> tuple[tuple[PageReference, ...], LeftOut | None]:
    """The pages, and what was left out."""
    limit_bytes = min(_PAGES_SIZE_LIMIT, _PAGES_SPARE_BYTES + len(packed) * _PAGES_MOST_RATIO)
    text = _unpack(packed, what, limit_bytes)
    # A reference in memory takes a hundred times what it takes compressed, if ids could repeat.
    count = array_size(text)
    if count * BLOCK_ID_SIZE > len(packed) + _PAGES_SPARE * BLOCK_ID_SIZE:
        raise DamageError(f"{what} claims {count} pages in {len(packed)} bytes; run check")
    listed = decode(text, tuple[_ListedPage, ...], what)
    pages = tuple(
        PageReference(
            page.first_directory,
            page.first_name,
            page.block_id,
            page.row_count,
            page.content_bytes,
        )
        for page in listed
    )
    return pages, decode_left_out(listed[0].left_out, what) if listed else None


def _open_pages(key: Key, owner: bytes, rest: memoryview) -> bytes:
    restore_key = required_restore_key(key)
    public = bytes(rest[:KEY_SIZE])
    shared = agree(restore_key.private, public)
    pages_key = _pages_key(shared, public, key.restore_public, owner)
    return open_object(pages_key, _PAGES_LABEL, rest[KEY_SIZE:])


def _pages_key(
    shared: bytes, ephemeral_public: bytes, restore_public: bytes, owner: bytes
) -> bytes:
    return derive_key(shared, ephemeral_public + restore_public, _PAGES_PURPOSE + owner)


def _pack(text: bytes) -> bytes:
    import zstandard

    return _RAW_SIZE.pack(len(text)) + zstandard.compress(text, 3)


def _unpack(packed: bytes, what: str, limit_bytes: int) -> bytes:
    from strongroom.engine.content.codecs import ZSTD, decompress

    if len(packed) < _RAW_SIZE.size:
        raise DamageError(f"{what} is cut off; run check")
    (raw_size,) = _RAW_SIZE.unpack_from(packed)
    if raw_size > limit_bytes:
        raise DamageError(f"{what} claims {raw_size} bytes; run check")
    try:
        return decompress(ZSTD, memoryview(packed)[_RAW_SIZE.size :], raw_size)
    except DamageError as error:
        raise DamageError(f"{what}: {error}") from error
