"""What a machine remembers of objects by their names: they never change, so neither do its notes.

    notes/DIGEST/KIND-RANDOM  "SRNT" | version u8 | sealed (zstd of msgpack): notes, replaced files

A note of a snapshot is its envelope as it was verified, or nothing where it is another client's; of
a pack nothing: it is another client's. A note of a job (`prune.kept_outcome`) is what it found,
with the names of all objects. A folder is for a repository and a key; the key of its files follows
from a secret that only holders of that key have, and from the key of the cache folder. So no one
else can make a note that is believed, and what does not open is removed and read again. What is
there, and when it was stored, is asked of the repository each time.

New notes go to a new file; files are merged by halves, without notes of what is not there any more.
Processes share a folder without a lock, as in `index.kept_runs`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Mapping
from typing import Final, Literal, NamedTuple

import msgspec
from blake3 import blake3

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decodable
from strongroom.base.errors import DamageError
from strongroom.engine.content.ciphers import AES_256_GCM, open_object, seal_object
from strongroom.engine.content.codecs import ZSTD, decompress
from strongroom.engine.content.digests import OBJECT_NAME_SIZE
from strongroom.engine.repository.cache_folder import keep_to_limit, local_key, require_room
from strongroom.engine.repository.keys.roles import ApplianceKey, Key, PutKey

NoteKind = Literal["snapshots", "packs", "prune", "share", "check"]

_MAGIC: Final = b"SRNT\x01"
_SIZE_BYTES: Final = 8
_LABEL: Final = b"strongroom notes 1 "
_TEMPORARY: Final = b"new-"
_ABANDONED_SECONDS: Final = 7 * 86400
_MERGE_FACTOR: Final = 2
# Of all files of a kind, unpacked: 10,000 snapshots take 10 MB, a million foreign packs 40.
_MOST_BYTES: Final = 512 << 20


class _Notes(msgspec.Struct, frozen=True, array_like=True):
    notes: dict[bytes, bytes]
    replaces: tuple[bytes, ...] = ()


class _File(NamedTuple):
    path: bytes
    notes: dict[bytes, bytes]


class KeptNotes:
    """The notes of one kind; for one thread. Without a folder, or by a ticket, nothing is kept."""

    def __init__(self, cache_folder: bytes | None, key: Key, kind: NoteKind) -> None:
        """Raises nothing: what cannot be read is not there."""
        self._cache_folder = cache_folder
        self._kind = kind
        self._files: list[_File] = []
        self._folder: bytes | None = None
        secret = _secret_of(key)
        if cache_folder is None or not secret:
            return
        with contextlib.suppress(OSError):
            text = _LABEL + kind.encode() + local_key(cache_folder) + key.repository_id
            self._key = blake3(text, key=secret).digest()
            digest = blake3(_LABEL + key.repository_id, key=secret).hexdigest()
            self._folder = cache_folder + b"/notes/" + digest[:OBJECT_NAME_SIZE].encode()
            self._open_all()

    def get(self, name: str) -> bytes | None:
        """The note of an object; None where there is none."""
        key = bytes.fromhex(name)
        return next((one.notes[key] for one in self._files if key in one.notes), None)

    def __contains__(self, name: bytes) -> bool:
        return any(name in one.notes for one in self._files)

    def add(self, new: Mapping[bytes, bytes], there: Container[bytes]) -> None:
        """Keep more notes, by the objects' names. there: names of what is there now."""
        if self._folder is None or self._cache_folder is None or not new:
            return
        notes, merged = dict(new), []
        for one in sorted(self._files, key=lambda one: len(one.notes)):
            if len(one.notes) >= _MERGE_FACTOR * len(notes):
                break
            # What is new stays: a job notes an outcome again that it had noted before.
            notes = {name: note for name, note in one.notes.items() if name in there} | notes
            merged.append(one)
        # Where there is no room or no right, they are read again by the next process.
        with contextlib.suppress(OSError):
            # Before a folder is made: it takes an inode that a listing may need.
            require_room(self._cache_folder, 0)
            path = self._write(notes, tuple(os.path.basename(one.path) for one in merged))
            for one in merged:
                self._drop(one)
            self._files.append(_File(path, notes))
            keep_to_limit(self._cache_folder)

    def remove(self, name: bytes) -> None:
        """Forget a note, with what else is in its file: that takes no room."""
        for one in [one for one in self._files if name in one.notes]:
            self._drop(one)

    def _open_all(self) -> None:
        assert self._folder is not None
        replaced: set[bytes] = set()
        oldest_kept = clock.now_ns() / SECOND_NS - _ABANDONED_SECONDS
        left_bytes = _MOST_BYTES
        for name in os.listdir(self._folder):
            path = self._folder + b"/" + name
            if name.startswith(_TEMPORARY) and os.lstat(path).st_mtime < oldest_kept:
                os.unlink(path)
            if not name.startswith(self._kind.encode() + b"-"):
                continue
            # One that is gone was merged by another process.
            with contextlib.suppress(FileNotFoundError):
                try:
                    found, size = self._read(path, left_bytes)
                except (DamageError, msgspec.MsgspecError):
                    os.unlink(path)
                    continue
                left_bytes -= size
                replaced.update(found.replaces)
                self._files.append(_File(path, found.notes))
        for one in list(self._files):
            if os.path.basename(one.path) in replaced:
                self._drop(one)

    def _read(self, path: bytes, limit_bytes: int) -> tuple[_Notes, int]:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with open(descriptor, "rb") as file:
            data = file.read()
            with contextlib.suppress(OSError):
                os.utime(descriptor)
        if not data.startswith(_MAGIC):
            raise DamageError("a file of the cache does not begin as one does")
        packed = open_object(self._key, _LABEL, memoryview(data)[len(_MAGIC) :])
        size = int.from_bytes(packed[:_SIZE_BYTES], "little")
        if size > limit_bytes:
            raise DamageError("a file of the cache is too large")
        text = decompress(ZSTD, memoryview(packed)[_SIZE_BYTES:], size)
        return msgspec.msgpack.decode(text, type=decodable(_Notes)), size

    def _write(self, notes: dict[bytes, bytes], replaces: tuple[bytes, ...]) -> bytes:
        import zstandard

        assert self._folder is not None
        text = msgspec.msgpack.encode(_Notes(notes, replaces))
        packed = len(text).to_bytes(_SIZE_BYTES, "little") + zstandard.compress(text, 1)
        data = _MAGIC + seal_object(self._key, _LABEL, packed, AES_256_GCM)
        os.makedirs(self._folder, 0o700, exist_ok=True)
        require_room(self._folder, len(data))
        ending = clock.random_bytes(12).hex().encode()
        temporary = self._folder + b"/" + _TEMPORARY + ending
        path = self._folder + b"/" + self._kind.encode() + b"-" + ending
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(data)
            os.rename(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return path

    def _drop(self, file: _File) -> None:
        self._files.remove(file)
        with contextlib.suppress(OSError):
            os.unlink(file.path)


def _secret_of(key: Key) -> bytes:
    """A secret that only who holds this key has, or a mightier one; b"" for a ticket."""
    if isinstance(key, PutKey):
        return key.client.snapshot_key
    return key.lease_key if isinstance(key, ApplianceKey) else b""
