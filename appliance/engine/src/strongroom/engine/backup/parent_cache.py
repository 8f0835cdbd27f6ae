"""Listings of the last snapshots, kept on the machine that made them, for keys that cannot read.

A put key can add to a repository but not read it, so it cannot get the parent's listing back.
Instead the pages are kept in a cache folder, sealed under a random key of the folder:

    key                                32 bytes, mode 0600
    parents/DIGEST-LEVEL-SNAPSHOT      DIGEST means repository, host, job and paths;
                                       LEVEL is "full", or "part" for the other levels

A file holds: magic "SRPC" | version u8, the pages (zstd, each sealed with its block id as label),
the sealed table (msgpack of page references and the place of each page), its size u32, the magic.

It is only a cache: if it is lost, damaged or of another snapshot, the next backup is a full read;
if a listing cannot be written, that is a warning. Where it finds no room, older ones of the job are
removed, so that the next one has theirs. Files are written under a temporary name and renamed after
the commit, so concurrent jobs are safe.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Callable
from typing import Final, Self

import msgspec
from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decodable
from strongroom.base.errors import DamageError, UnknownFormatError
from strongroom.engine.content.ciphers import open_object, preferred_cipher, seal_object
from strongroom.engine.content.codecs import Compressor, decompress, parse_compression
from strongroom.engine.repository.cache_folder import keep_to_limit, local_key
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import (
    PageReference,
    Snapshot,
)

# Size limit of one listing; a million files need about 20 MB.
LISTING_BYTES_LIMIT: Final = 1 << 30
_MAGIC: Final = b"SRPC\1"
_TABLE_SIZE: Final = struct.Struct("<I")
_PAGE_HEAD: Final = struct.Struct("<BI")
_PAGE_BYTES_LIMIT: Final = 256 << 20
_TABLE_LABEL: Final = b"strongroom parent table 1"
_PAGE_LABEL: Final = b"strongroom parent page 1 "
_OPEN_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW
_TEMPORARY: Final = b"new-"
_ABANDONED_SECONDS: Final = 7 * 86400
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class _Table(msgspec.Struct, frozen=True, array_like=True):
    snapshot: str
    pages: tuple[PageReference, ...]
    places: dict[bytes, tuple[int, int]]  # block id -> offset, size


class CachedListing:
    """One open listing of the cache; `Listing` reads its pages on demand."""

    def __init__(self, descriptor: int, key: bytes, table: _Table) -> None:
        self._descriptor = descriptor
        self._key = key
        self._places = table.places
        self.pages = table.pages

    def chunk(self, block_id: bytes, slot: int) -> bytes:
        """The page stored as `block_id`. Raises DamageError."""
        packed = _open(self._key, _PAGE_LABEL + block_id, self.sealed(block_id))
        codec, raw_size = _PAGE_HEAD.unpack_from(packed)
        if raw_size > _PAGE_BYTES_LIMIT:
            raise DamageError(f"a page in the cache claims {raw_size} bytes")
        return decompress(codec, memoryview(packed)[_PAGE_HEAD.size :], raw_size)

    def sealed(self, block_id: bytes) -> bytes:
        """The page stored as `block_id`, as it is in the file. Raises DamageError."""
        place = self._places.get(block_id)
        if place is None:
            raise DamageError("a page is missing in the cache")
        return _read_at(self._descriptor, *place)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class ListingKeeper:
    """Writes the listing of a snapshot in progress; `publish` or `abort` ends it.

    Errors are passed to `warn`; then nothing is kept. That its file cannot be created for want of
    room (no inode is free) is such an error, too.
    """

    def __init__(
        self,
        folder: bytes,
        key: bytes,
        warn: Callable[[str], None],
        before: CachedListing | None,
    ) -> None:
        """before: the parent's listing, if it is from the same folder. Raises OSError."""
        self._warn = warn
        self._before = before
        self._places: dict[bytes, tuple[int, int]] = {}
        self._is_open = True
        # Whether it failed because the file system is full.
        self.lacks_room = False
        self._folder = folder
        self._key = key
        self._path = folder + b"/" + _TEMPORARY + clock.random_bytes(12).hex().encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._is_open = False
            self._tell_failure(error)
            return
        self._file = open(descriptor, "wb")  # noqa: SIM115 - see `abort`
        self._file.write(_MAGIC)
        self._compressor = Compressor(parse_compression("zstd1"))
        self._cipher = preferred_cipher()

    def add(self, block_id: bytes, page: bytes) -> None:
        """Write a page."""
        if block_id in self._places or not self._is_open:
            return
        codec, packed = self._compressor.compress(page)
        head = _PAGE_HEAD.pack(codec, len(page))
        self._write(
            block_id, seal_object(self._key, _PAGE_LABEL + block_id, head + packed, self._cipher)
        )

    def add_again(self, block_id: bytes) -> bool:
        """Copy a page of the parent's listing; whether it could be read and is sound."""
        if self._before is None:
            return False
        if block_id in self._places or not self._is_open:
            return True
        try:
            sealed = self._before.sealed(block_id)
            _open(self._key, _PAGE_LABEL + block_id, sealed)
        except DamageError:
            return False
        self._write(block_id, sealed)
        return True

    def _write(self, block_id: bytes, sealed: bytes) -> None:
        place = (self._file.tell(), len(sealed))
        try:
            self._file.write(sealed)
            if sum(place) > LISTING_BYTES_LIMIT:
                raise OSError(errno.EFBIG, "the listing is too large")
        except OSError as error:
            self._fail(error)
        self._places[block_id] = place

    def publish(self, name: bytes, snapshot: Snapshot) -> bool:
        """Publish the listing as `name`; returns whether that succeeded."""
        if not self._is_open:
            return False
        table = msgspec.msgpack.encode(_Table(snapshot.id, snapshot.pages, self._places))
        sealed = seal_object(self._key, _TABLE_LABEL, table, self._cipher)
        try:
            self._file.write(sealed + _TABLE_SIZE.pack(len(sealed)) + _MAGIC)
            self._file.close()
            os.rename(self._path, self._folder + b"/" + name)
        except OSError as error:
            self._fail(error)
            return False
        self._is_open = False
        return True

    def abort(self) -> None:
        """Drop it; harmless after `publish`."""
        if not self._is_open:
            return
        self._is_open = False
        # Buffered data may not fit on the disk; it is discarded anyway.
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _fail(self, error: OSError) -> None:
        self.abort()
        self._tell_failure(error)

    def _tell_failure(self, error: OSError) -> None:
        self.lacks_room = error.errno in _NO_ROOM
        self._warn(
            f"the listing is not kept in {os.fsdecode(self._folder)}, so the next backup with "
            f"this key reads everything: {error.strerror}"
        )


class ParentCache:
    """The cached listings of one repository, host, job and set of paths."""

    def __init__(self, folder: bytes, key: bytes, digest: str) -> None:
        self._folder = folder
        self._key = key
        self._digest = digest

    @classmethod
    def open(
        cls, folder: bytes, repository: Repository, host: str, job: str, paths: tuple[bytes, ...]
    ) -> Self:
        """The cache in `folder`, which is created if missing. Raises OSError."""
        parents = parents_folder(folder)
        os.makedirs(parents, 0o700, exist_ok=True)
        key = local_key(folder)
        what = msgspec.msgpack.encode((repository.config.id, host, job, sorted(paths)))
        return cls(parents, key, blake3(what, key=key).hexdigest()[:32])

    def find(self, snapshot_id: str) -> CachedListing | None:
        """The listing of a snapshot; None when it is not kept. Raises DamageError, OSError."""
        ending = f"-{snapshot_id}".encode()
        for name in os.listdir(self._folder):
            if name.endswith(ending) and not name.startswith(_TEMPORARY):
                return self._opened(self._folder + b"/" + name, snapshot_id)
        return None

    def keeper(
        self, warn: Callable[[str], None], before: CachedListing | None = None
    ) -> ListingKeeper:
        """Start writing the listing of a new snapshot. Raises OSError.

        before: what `find` gave for its parent.
        """
        return ListingKeeper(self._folder, self._key, warn, before)

    def keep(self, keeper: ListingKeeper, snapshot: Snapshot, *, had_parent: bool) -> None:
        """Publish what `keeper` wrote as the listing of `snapshot`, replacing earlier ones.

        The listing of the last full snapshot is kept as well, while there is room. had_parent:
        whether the backup had a listing to compare with.
        """
        level = "full" if snapshot.level == "full" else "part"
        name = f"{self._digest}-{level}-{snapshot.id}".encode()
        if not keeper.publish(name, snapshot):
            if keeper.lacks_room:
                self._make_room(snapshot.level, had_parent=had_parent)
            return
        outdated = (self._digest if level == "full" else f"{self._digest}-part").encode()
        with contextlib.suppress(OSError):
            for other in os.listdir(self._folder):
                if other.startswith(outdated) and other != name:
                    self._remove(other)
            self._remove_abandoned()
            keep_to_limit(os.path.dirname(self._folder))

    def _make_room(self, level: str, *, had_parent: bool) -> None:
        """Remove what no backup will need after one of this level whose listing is not kept.

        The next incremental one compares with that. So listings of earlier ones are of no use, and
        if there are none and it had to read everything, that of the full one is in the way.
        """
        mine = self._digest.encode()
        with contextlib.suppress(OSError):
            listings = [name for name in os.listdir(self._folder) if name.startswith(mine)]
            parts = [name for name in listings if name.startswith(mine + b"-part")]
            is_stuck = level == "incremental" and not parts and not had_parent
            for name in listings if level == "full" or is_stuck else parts:
                self._remove(name)

    def _opened(self, path: bytes, snapshot_id: str) -> CachedListing:
        descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
        try:
            table = _read_table(descriptor, self._key)
            if table.snapshot != snapshot_id:
                raise DamageError("it is of another snapshot")
        except BaseException:
            os.close(descriptor)
            raise
        return CachedListing(descriptor, self._key, table)

    def _remove_abandoned(self) -> None:
        """Remove left-overs of processes that died."""
        oldest_kept = clock.now_ns() / SECOND_NS - _ABANDONED_SECONDS
        for name in os.listdir(self._folder):
            if name.startswith(_TEMPORARY):
                with contextlib.suppress(FileNotFoundError):
                    if os.lstat(self._folder + b"/" + name).st_mtime < oldest_kept:
                        self._remove(name)

    def _remove(self, name: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._folder + b"/" + name)


def parents_folder(folder: bytes) -> bytes:
    """Where in a cache folder the listings are."""
    return folder + b"/parents"


def _read_table(descriptor: int, key: bytes) -> _Table:
    size = os.fstat(descriptor).st_size
    tail = _TABLE_SIZE.size + len(_MAGIC)
    if size < len(_MAGIC) + tail:
        raise DamageError("it is cut off")
    ending = _read_at(descriptor, size - tail, tail)
    (table_size,) = _TABLE_SIZE.unpack_from(ending)
    start = size - tail - table_size
    if ending[_TABLE_SIZE.size :] != _MAGIC or start < len(_MAGIC):
        raise DamageError("it is cut off or of another version")
    table = _open(key, _TABLE_LABEL, _read_at(descriptor, start, table_size))
    try:
        return msgspec.msgpack.decode(table, type=decodable(_Table))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamageError(f"its table holds something else ({error})") from error


def _open(key: bytes, label: bytes, sealed: bytes) -> bytes:
    try:
        return open_object(key, label, sealed)
    except UnknownFormatError as error:
        raise DamageError(str(error)) from error


def _read_at(descriptor: int, offset: int, size: int) -> bytes:
    try:
        data = os.pread(descriptor, size, offset)
    except OSError as error:
        raise DamageError(f"a listing in the cache cannot be read: {error.strerror}") from error
    if len(data) != size:
        raise DamageError("a listing in the cache is cut off")
    return data
