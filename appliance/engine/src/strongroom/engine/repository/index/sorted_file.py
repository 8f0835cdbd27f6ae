"""A file of entries of fixed width, sorted, sealed in pages: what a client keeps of an index.

    magic "SRKI" | version u8 | cipher u8 | 0 u8 x 2 | salt (32)
    filter: words u64, as many as the table says, in the clear
    pages: 128 entries each, sealed
    fences, sealed: the key of the first entry of each page u64
    table, sealed: msgpack | size of the sealed table u32

An entry begins with its id, of 24 bytes. Entries are sorted by *key*, a mix of the words of the id
with secret factors (as in `id_table`), so no one can store ids that lie together. What is sealed
is under a key of this file alone, made of the owner's key and the salt; its number is the nonce.

The filter says what is not there without a page being opened. It is not authenticated: a bit that
changes makes a chunk seem new, or costs a look. It is read by pieces where it is used, not mapped:
a file that another machine removes on NFS, or a disk that fails, would kill the process. Pages that
were opened are kept, up to a limit.
Files never change, so they are used beside others that replace them. For one thread at a time.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from strongroom.base import clock
from strongroom.base.decoding import decodable
from strongroom.base.errors import DamageError, UnknownFormatError
from strongroom.engine.content.ciphers import KEY_SIZE, TAG_SIZE, PartCipher, preferred_cipher
from strongroom.engine.repository.index.sorted_run import KeyFilter

ID_WORDS: Final = 3
PAGE_ENTRIES: Final = 128
# Opened pages of one file that are kept.
POOL_BYTES_LIMIT: Final = 64 << 20
Entries = NDArray[np.void]
Keys = NDArray[np.uint64]
_Whole = TypeVar("_Whole", bound=np.integer[Any])

_MAGIC: Final = b"SRKI\1"
_HEAD: Final = struct.Struct("<5sBxx32s")
_TABLE_SIZE: Final = struct.Struct("<I")
_FENCES: Final = 1 << 64
_TABLE: Final = 2 << 64
_HALF: Final = np.uint64(32)
_LARGEST: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
# Pages that are read at once where all of a file is read.
_WINDOW_PAGES: Final = 64
_FIRST_POOL_PAGES: Final = 16
# Words of the filter that are read at once: 4 KiB.
_FILTER_PIECE_WORDS: Final = 512


class FileDamageError(DamageError):
    """A file of the cache that is not what was written; it is made again."""

    def __init__(self, file: SortedFile, message: str) -> None:
        super().__init__(message)
        self.file = file


class _Table(msgspec.Struct, frozen=True, array_like=True):
    entry_count: int
    filter_words: int
    about: bytes


class KeyMix:
    """Keys of ids, and the sealing keys of files, both from one secret key."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        numbers = blake3(b"strongroom kept index factors 1", key=secret).digest(2 * 8 * ID_WORDS)
        factors = np.frombuffer(numbers, np.uint64) | np.uint64(1)
        self._factors, self._mixed_factors = factors[:ID_WORDS], factors[ID_WORDS:]

    def keys(self, words: NDArray[np.uint64]) -> Keys:
        """The keys of ids given as rows of their words; numbers wrap."""
        mixed = words * self._factors
        # A product carries differences of the upper bits no further down.
        mixed ^= mixed >> _HALF
        keys: Keys = mixed @ self._mixed_factors
        return keys

    def cipher(self, cipher: int, salt: bytes) -> PartCipher:
        """That of the file with this salt."""
        return PartCipher(cipher, blake3(salt, key=self._secret).digest())


def words_of(ids: bytes) -> NDArray[np.uint64]:
    """Ids of 24 bytes as rows of their words."""
    return np.frombuffer(ids, np.uint64).reshape(-1, ID_WORDS)


def write_sorted_file(
    descriptor: int,
    mix: KeyMix,
    parts: Iterable[tuple[Keys, Entries]],
    most: int,
    about: bytes,
    *,
    filtered: bool,
) -> None:
    """Write a file into an empty one; OSError.

    parts: keys and entries in order of keys, `most` of them or fewer. about: what
    `SortedFile.about` gives, which also says what the entries are: so the salt is of this content
    alone, where a machine that was set back has the same random bytes twice.
    """
    salt = blake3(about + clock.random_bytes(KEY_SIZE)).digest()
    kind = preferred_cipher()
    cipher = mix.cipher(kind, salt)
    filter_words = 1 << max(6, most.bit_length() - 2) if filtered else 0
    position = _HEAD.size + 8 * filter_words
    fences: list[Keys] = []
    count = number = 0
    rest_keys, rest = np.zeros(0, np.uint64), None
    last = False
    stream = iter(parts)
    while not last:
        found = next(stream, None)
        last = found is None
        if found is not None:
            keys, entries = found
            if filter_words and len(keys):
                _write_filter(descriptor, keys, filter_words)
            if rest is not None and len(rest):
                keys, entries = np.concatenate((rest_keys, keys)), np.concatenate((rest, entries))
        elif rest is None:
            break
        else:
            keys, entries = rest_keys, rest
        whole = len(keys) if last else len(keys) // PAGE_ENTRIES * PAGE_ENTRIES
        fences.append(keys[:whole:PAGE_ENTRIES].copy())
        sealed = []
        for start in range(0, whole, PAGE_ENTRIES):
            page = entries[start : min(start + PAGE_ENTRIES, whole)]
            sealed.append(cipher.seal(number, page.tobytes()))
            number += 1
        position += _write_all(descriptor, b"".join(sealed), position)
        count += whole
        rest_keys, rest = keys[whole:], entries[whole:]
    table = msgspec.msgpack.encode(_Table(count, filter_words, about))
    sealed_table = cipher.seal(_TABLE, table)
    joined = np.concatenate([np.zeros(0, np.uint64), *fences])
    tail = cipher.seal(_FENCES, joined.tobytes()) + sealed_table
    _write_all(descriptor, tail + _TABLE_SIZE.pack(len(sealed_table)), position)
    # Last: a file that was not finished has no magic.
    _write_all(descriptor, _HEAD.pack(_MAGIC, kind, salt), 0)


class SortedFile:
    """An open file; `about` is what its writer stated of it. Raises FileDamageError, OSError."""

    def __init__(self, descriptor: int, mix: KeyMix, entry: np.dtype[Any], path: bytes) -> None:
        """Owns the descriptor. path: for anyone who removes it, b"" of a file without a name."""
        self.path = path
        self._descriptor = descriptor
        self._mix = mix
        self._entry = entry
        self._page_size = PAGE_ENTRIES * entry.itemsize + TAG_SIZE
        try:
            self._open()
        except (UnknownFormatError, DamageError, msgspec.MsgspecError, struct.error) as error:
            raise FileDamageError(self, f"a file of the cache cannot be used: {error}") from error
        self._slots = np.full(len(self._fences), -1, np.int32)
        self._pool_pages = 0
        self._pool: Entries = np.zeros(0, entry)
        self._pool_keys = np.zeros((0, PAGE_ENTRIES), np.uint64)
        # The filter, as far as it was read: by piece whether it was.
        self._filter_read = np.zeros(-(-self._filter_words // _FILTER_PIECE_WORDS), np.bool_)
        self._filter_copy = np.zeros(0, np.uint64)

    def __len__(self) -> int:
        return self._count

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return self._size

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; its entries cannot be looked up any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def may_have(self, keys: Keys) -> NDArray[np.intp]:
        """The numbers of those keys that may be here."""
        if not self._filter_words:
            return np.arange(len(keys))
        if not len(self._filter_copy):
            # Memory is taken where pieces are read.
            self._filter_copy = np.zeros(self._filter_words, np.uint64)
        filter_ = KeyFilter.of(self._filter_copy)
        marks = filter_.marks_of(keys)
        pieces = marks[0] // _FILTER_PIECE_WORDS
        for piece in distinct(pieces[~self._filter_read[pieces]]).tolist():
            start = piece * _FILTER_PIECE_WORDS
            words = self._filter_copy[start : start + _FILTER_PIECE_WORDS]
            words[:] = np.frombuffer(self._sound_read(_HEAD.size + 8 * start, words.nbytes), "<u8")
            self._filter_read[piece] = True
        return filter_.may_have(marks)

    def find(
        self, words: NDArray[np.uint64], keys: Keys
    ) -> Iterator[tuple[NDArray[np.intp], Entries]]:
        """The entries of ids (rows of words, and their keys), as numbers of ids and entries.

        An id with several entries is given several times.
        """
        if not self._count:
            return
        step = POOL_BYTES_LIMIT // self._page_size // 2
        for start in range(0, len(keys), step):
            rows = np.arange(start, min(start + step, len(keys)))
            pages = self._fences.searchsorted(keys[rows], "left") - 1
            np.maximum(pages, 0, out=pages)
            slots = self._slots_of(pages)
            at = pages * PAGE_ENTRIES + self._lower_bounds(slots, keys[rows])
            while True:
                inside = at < self._count
                rows, at = rows[inside], at[inside]
                if not len(rows):
                    break
                slots = self._slots_of(at // PAGE_ENTRIES).astype(np.int64)
                within = at % PAGE_ENTRIES
                same = self._pool_keys[slots, within] == keys[rows]
                rows, at, places = rows[same], at[same], (slots * PAGE_ENTRIES + within)[same]
                if not len(rows):
                    break
                entries = self._pool[places]
                equal = (entries["id"] == words[rows]).all(axis=1)
                if equal.any():
                    yield rows[equal], entries[equal]
                at = at + 1

    def find_one(self, an_id: bytes, key: int) -> list[Any]:
        """The entries of one id; much faster than `find`."""
        found: list[Any] = []
        if not self._count:
            return found
        wanted = np.uint64(key)
        page = max(int(self._fences.searchsorted(wanted, "left")) - 1, 0)
        at = -1
        while page < len(self._fences):
            slot = int(self._slots[page])
            if slot < 0:
                slot = int(self._slots_of(np.array([page]))[0])
            keys = self._pool_keys[slot]
            at = int(keys.searchsorted(wanted, "left")) if at < 0 else 0
            entries = self._entries_in(page)
            while at < entries and keys[at] == wanted:
                entry = self._pool[slot * PAGE_ENTRIES + at]
                if entry["id"].tobytes() == an_id:
                    found.append(entry.copy())
                at += 1
            if at < entries:
                break
            page += 1
        return found

    def windows(self) -> Iterator[tuple[Keys, Entries]]:
        """All keys and entries, in order of keys."""
        for first in range(0, len(self._fences), _WINDOW_PAGES):
            last = min(first + _WINDOW_PAGES, len(self._fences))
            raw = b"".join([self._page(number) for number in range(first, last)])
            entries = np.frombuffer(raw, self._entry)
            yield self._mix.keys(entries["id"]), entries

    def _open(self) -> None:
        self._size = os.fstat(self._descriptor).st_size
        end = self._size - _TABLE_SIZE.size
        magic, cipher, salt = _HEAD.unpack(self._read(0, _HEAD.size))
        if magic != _MAGIC:
            raise DamageError("it does not begin as such files do")
        self._cipher = self._mix.cipher(cipher, salt)
        (table_size,) = _TABLE_SIZE.unpack(self._read(end, _TABLE_SIZE.size))
        table_at = end - table_size
        text = self._cipher.open(_TABLE, self._read(table_at, table_size))
        table = msgspec.msgpack.decode(text, type=decodable(_Table))
        self.about = table.about
        self._count = table.entry_count
        self._filter_words = table.filter_words
        self._pages_at = _HEAD.size + 8 * table.filter_words
        page_count = -(-table.entry_count // PAGE_ENTRIES)
        fences_size = 8 * page_count + TAG_SIZE
        fences_at = table_at - fences_size
        stored = table.entry_count * self._entry.itemsize + page_count * TAG_SIZE
        if fences_at != self._pages_at + stored:
            raise DamageError("it has another length than its table says")
        fences = self._cipher.open(_FENCES, self._read(fences_at, fences_size))
        self._fences = np.frombuffer(fences, np.uint64)

    def _read(self, offset: int, size: int) -> bytes:
        if offset < 0:
            raise DamageError("it is cut off")
        try:
            data = os.pread(self._descriptor, size, offset)
        except OSError as error:
            raise DamageError(f"it cannot be read: {error.strerror}") from error
        if len(data) != size:
            raise DamageError("it is cut off")
        return data

    def _entries_in(self, page: int) -> int:
        return min(PAGE_ENTRIES, self._count - page * PAGE_ENTRIES)

    def _page(self, number: int) -> bytes:
        size = self._entries_in(number) * self._entry.itemsize + TAG_SIZE
        sealed = self._sound_read(self._pages_at + number * self._page_size, size)
        try:
            return self._cipher.open(number, sealed)
        except DamageError as error:
            raise FileDamageError(self, f"a file of the cache cannot be used: {error}") from error

    def _sound_read(self, offset: int, size: int) -> bytes:
        try:
            return self._read(offset, size)
        except DamageError as error:
            raise FileDamageError(self, f"a file of the cache cannot be used: {error}") from error

    def _slots_of(self, pages: NDArray[np.intp]) -> NDArray[np.int32]:
        """Where in the pool pages are, which are opened now where they are not."""
        slots: NDArray[np.int32] = self._slots[pages]
        if slots.min() >= 0:
            return slots
        missing = distinct(pages[slots < 0])
        if self._pool_pages + len(missing) > POOL_BYTES_LIMIT // self._page_size:
            # It begins again: what was used last is not known.
            self._slots.fill(-1)
            self._pool_pages = 0
            missing = distinct(pages)
        raw = b"".join([self._page(number) for number in missing.tolist()])
        entries = np.frombuffer(raw, self._entry)
        first = self._pool_pages
        last = first + len(missing)
        self._make_room(last)
        # Only the last page of a file is short, and it is the last of these.
        start = first * PAGE_ENTRIES
        self._pool[start : start + len(entries)] = entries
        keys = self._pool_keys.reshape(-1)
        keys[start : start + len(entries)] = self._mix.keys(entries["id"])
        keys[start + len(entries) : last * PAGE_ENTRIES] = _LARGEST
        self._slots[missing] = np.arange(first, last)
        self._pool_pages = last
        found: NDArray[np.int32] = self._slots[pages]
        return found

    def _make_room(self, pages: int) -> None:
        have = len(self._pool_keys)
        if pages <= have:
            return
        room = max(_FIRST_POOL_PAGES, pages, have * 3 // 2)
        pool = np.empty(room * PAGE_ENTRIES, self._entry)
        pool[: len(self._pool)] = self._pool
        keys = np.empty((room, PAGE_ENTRIES), np.uint64)
        keys[:have] = self._pool_keys
        self._pool, self._pool_keys = pool, keys

    def _lower_bounds(self, slots: NDArray[np.int32], keys: Keys) -> NDArray[np.int64]:
        """How many keys of each page are less than the one sought there."""
        at = np.zeros(len(keys), np.int64)
        step = PAGE_ENTRIES // 2
        while step:
            at += step * (self._pool_keys[slots, at + (step - 1)] < keys)
            step //= 2
        return at + (self._pool_keys[slots, at] < keys)


def _write_filter(descriptor: int, keys: Keys, word_count: int) -> None:
    """Mark keys, which are in order, so that the words they are in are a short piece."""
    shift = np.uint64(65 - word_count.bit_length())
    first, last = int(keys[0] >> shift), int(keys[-1] >> shift) + 1
    offset = _HEAD.size + 8 * first
    before = os.pread(descriptor, 8 * (last - first), offset)
    piece = np.zeros(last - first, np.uint64)
    piece[: len(before) // 8] = np.frombuffer(before[: len(before) // 8 * 8], np.uint64)
    places, pattern = KeyFilter.of(np.zeros(word_count, np.uint64)).marks_of(keys)
    np.bitwise_or.at(piece, places - first, pattern)
    _write_all(descriptor, piece.tobytes(), offset)


def _write_all(descriptor: int, data: bytes, offset: int) -> int:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        offset += written
        view = view[written:]
    return len(data)


def distinct(numbers: NDArray[_Whole]) -> NDArray[_Whole]:
    """`numbers` sorted, each once. np.unique would import numpy.ma first: 25 ms of a command."""
    numbers = np.sort(numbers)
    return numbers[np.diff(numbers, prepend=numbers[:1] - 1) > 0]
