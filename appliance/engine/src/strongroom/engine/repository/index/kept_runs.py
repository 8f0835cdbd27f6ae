"""The runs of one owner that a client keeps: sorted files in a folder, merged by halves.

A run holds the blocks of some index objects (`blocks-…`: what their first parts say), or their
chunks (`chunks-…`: the second parts). What is in it was authenticated when it was read, and never
changes; whether it counts is decided each time it is loaded (`kept_loading`).

Files are written under a temporary name and renamed; those that are merged are removed afterwards.
So processes share a folder without a lock: two may make the same run, and anyone who has files open
reads on. Without a folder, or where it cannot be written, runs are files in memory. A file that
cannot be used is removed: it is made again of the repository.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decodable
from strongroom.engine.content.digests import OBJECT_NAME_SIZE
from strongroom.engine.repository.cache_folder import require_room
from strongroom.engine.repository.index.sorted_file import (
    Entries,
    FileDamageError,
    KeyMix,
    Keys,
    SortedFile,
    write_sorted_file,
)

BLOCK_ENTRY: Final = np.dtype(
    [
        ("id", "<u8", 3),
        ("offset", "<u8"),
        ("stored", "<u4"),
        ("raw", "<u4"),
        ("pack", "<u4"),
        ("number", "<u4"),
        ("chunks", "<u2"),
        ("codec", "u1"),
        ("flags", "u1"),
        ("spare", "<u4"),
    ]
)
CHUNK_ENTRY: Final = np.dtype(
    [("id", "<u8", 3), ("block", "<u8", 3), ("pack", "<u4"), ("slot", "<u2"), ("spare", "<u2")]
)
PACK: Final = np.dtype(
    [("id", f"V{OBJECT_NAME_SIZE}"), ("size", "<u8"), ("object", "<u4"), ("kind", "<u4")]
)
Packs = NDArray[np.void]

_TEMPORARY: Final = b"new-"
_ABANDONED_SECONDS: Final = 7 * 86400
_MERGE_FACTOR: Final = 2
# Runs that are open at once: each takes a file, and a window of it while they are merged.
_MOST_RUNS: Final = 16
_PIECE: Final = 16384


class IndexedObject(msgspec.Struct, frozen=True, array_like=True):
    """An index object of which a run was made: names as bytes."""

    name: bytes
    superseded: tuple[bytes, ...] = ()


class _About(msgspec.Struct, frozen=True, array_like=True):
    objects: tuple[IndexedObject, ...]
    packs: bytes
    # Names of the files that it was merged of: a process may have died before it removed them.
    replaces: tuple[bytes, ...] = ()


class Run:
    """An open run. object of a pack: its place in `objects`."""

    def __init__(self, file: SortedFile) -> None:
        self.file = file
        try:
            about = msgspec.msgpack.decode(file.about, type=decodable(_About))
            self.packs: Packs = np.frombuffer(about.packs, PACK)
        except (msgspec.MsgspecError, ValueError) as error:
            raise FileDamageError(file, f"a file of the cache cannot be used: {error}") from error
        # There may be 48 bytes for each of a million packs, which are in `packs` now.
        file.about = b""
        self.objects = about.objects
        if len(self.packs) and int(self.packs["object"].max()) >= len(self.objects):
            raise FileDamageError(file, "a file of the cache names packs of no index object")
        self.replaces = about.replaces

    def __len__(self) -> int:
        return len(self.file)


class NewRun:
    """What becomes a run: entries in any order, of packs and objects in the order of their use."""

    def __init__(self, entry: np.dtype[Any]) -> None:
        self._entry = entry
        self._parts: list[Entries] = []
        self._packs: list[Packs] = []
        self.objects: list[IndexedObject] = []
        self.pack_count = 0
        self.entry_count = 0

    def add(self, an_object: IndexedObject, packs: Packs, entries: Entries) -> None:
        """An object, its packs and their entries, by numbers of packs that begin with 0."""
        packs["object"] = len(self.objects)
        entries["pack"] += np.uint32(self.pack_count)
        self.objects.append(an_object)
        self._parts.append(entries)
        self._packs.append(packs)
        self.pack_count += len(packs)
        self.entry_count += len(entries)

    def about(self) -> bytes:
        """Its description."""
        packs = b"".join(packs.tobytes() for packs in self._packs)
        return msgspec.msgpack.encode(_About(tuple(self.objects), packs))

    def sorted_parts(self, mix: KeyMix) -> SortedParts:
        """All keys and entries in order; nothing is left here."""
        entries = np.concatenate([np.zeros(0, self._entry), *self._parts])
        self._parts = []
        return SortedParts(mix.keys(entries["id"]), entries)


class SortedParts:
    """Keys and entries in order, a piece at a time: there may be many; from the start each time."""

    def __init__(self, keys: Keys, entries: Entries) -> None:
        self._keys = keys
        self._entries = entries
        self._order = np.argsort(keys, kind="stable")

    def __iter__(self) -> Iterator[tuple[Keys, Entries]]:
        for start in range(0, len(self._order), _PIECE):
            piece = self._order[start : start + _PIECE]
            yield self._keys[piece], self._entries[piece]


class RunFolder:
    """The runs of one kind and owner; for one thread at a time.

    runs: the longest first. They are as many as a number has digits: each is at least twice as
    long as the next.
    """

    def __init__(
        self, folder: bytes | None, kind: Literal["blocks", "chunks"], mix: KeyMix
    ) -> None:
        """folder: None where none is kept; it is made when the first run is written."""
        self._folder = folder
        self._kind = kind
        self._mix = mix
        self._entry = BLOCK_ENTRY if kind == "blocks" else CHUNK_ENTRY
        self.runs: list[Run] = []
        self._has_written = False
        self._open_all()

    def object_names(self) -> set[bytes]:
        """The names of the index objects of which there are runs."""
        return {one.name for run in self.runs for one in run.objects}

    def take_has_written(self) -> bool:
        """Whether files were written since this was asked."""
        has_written, self._has_written = self._has_written, False
        return has_written

    def write(self, new: NewRun) -> None:
        """Make a run; where there are many, merge them. OSError never: see the module."""
        about, count = new.about(), new.entry_count
        self._write(new.sorted_parts(self._mix), count, about)
        if len(self.runs) > _MOST_RUNS:
            # By halves: all of them each time would write the whole cache again and again.
            self.merge(self.object_names())

    def merge(self, staying: Collection[bytes]) -> None:
        """Merge runs that are not half as long as the next, without objects that do not stay.

        A run is written again when half or more of its packs are of such objects. staying: names.
        """
        while True:
            chosen: list[Run] = []
            for run in reversed(self.runs):
                if chosen and len(run) >= _MERGE_FACTOR * sum(map(len, chosen)):
                    break
                chosen.append(run)
            if len(chosen) < 2:
                chosen = [
                    run
                    for run in self.runs
                    if np.count_nonzero(_packs_of(run, staying)) * 2 < len(run.packs)
                ]
            if not chosen:
                return
            self._merge(chosen, staying)

    def remove(self, run: Run) -> None:
        """Use a run no more, and remove its file."""
        self.runs = [one for one in self.runs if one is not run]
        self._unlink(run.file)

    def damaged(self, file: SortedFile) -> None:
        """Remove the run of a file, if it is one of these."""
        for run in self.runs:
            if run.file is file:
                self.remove(run)

    def close(self) -> None:
        """Close all files."""
        for run in self.runs:
            run.file.close()
        self.runs = []

    def _open_all(self) -> None:
        if self._folder is None:
            return
        names: list[bytes] = []
        with contextlib.suppress(OSError):
            names = os.listdir(self._folder)
        prefix = self._kind.encode() + b"-"
        oldest_kept = clock.now_ns() / SECOND_NS - _ABANDONED_SECONDS
        for name in names:
            path = self._folder + b"/" + name
            if name.startswith(_TEMPORARY):
                with contextlib.suppress(OSError):
                    if os.lstat(path).st_mtime < oldest_kept:
                        os.unlink(path)
            elif name.startswith(prefix):
                # One that is gone was merged by another process since it was listed.
                with contextlib.suppress(OSError, FileDamageError):
                    self._open(path)
        self.runs.sort(key=len, reverse=True)
        self._drop_what_others_have()

    def _open(self, path: bytes) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        # When it was used last: what was not used for long goes first.
        with contextlib.suppress(OSError):
            os.utime(descriptor)
        self._take(descriptor, path)

    def _take(self, descriptor: int, path: bytes) -> None:
        """Use a file from now on; FileDamageError where it cannot be, which removes it."""
        try:
            self.runs.append(Run(SortedFile(descriptor, self._mix, self._entry, path)))
        except FileDamageError as error:
            self._unlink(error.file)
            raise

    def _drop_what_others_have(self) -> None:
        replaced = {name for run in self.runs for name in run.replaces}
        for run in list(self.runs):
            if os.path.basename(run.file.path) in replaced:
                self.remove(run)

    def _write(self, parts: Iterable[tuple[Keys, Entries]], most: int, about: bytes) -> None:
        if self._folder is not None:
            # Where there is no room or no right, the run is of this process only.
            with contextlib.suppress(OSError):
                self._write_named(parts, most, about)
                return
        descriptor = os.memfd_create("strongroom-index", os.MFD_CLOEXEC)
        self._fill(descriptor, parts, most, about)
        self._take(descriptor, b"")
        self.runs.sort(key=len, reverse=True)

    def _write_named(self, parts: Iterable[tuple[Keys, Entries]], most: int, about: bytes) -> None:
        assert self._folder is not None
        require_room(os.path.dirname(os.path.dirname(self._folder)), most * self._entry.itemsize)
        os.makedirs(self._folder, 0o700, exist_ok=True)
        ending = clock.random_bytes(12).hex().encode()
        temporary = self._folder + b"/" + _TEMPORARY + ending
        path = self._folder + b"/" + self._kind.encode() + b"-" + ending
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(temporary, flags, 0o600)
        try:
            self._fill(descriptor, parts, most, about)
            os.rename(temporary, path)
        except BaseException:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self._has_written = True
        self._take(descriptor, path)
        self.runs.sort(key=len, reverse=True)

    def _fill(
        self, descriptor: int, parts: Iterable[tuple[Keys, Entries]], most: int, about: bytes
    ) -> None:
        filtered = self._kind == "chunks"
        write_sorted_file(descriptor, self._mix, parts, most, about, filtered=filtered)

    def _merge(self, runs: Sequence[Run], staying: Collection[bytes]) -> None:
        objects: list[IndexedObject] = []
        packs: list[Packs] = []
        numbers: list[NDArray[np.int64]] = []
        first = 0
        # Two processes may have made the same run.
        known: set[bytes] = set()
        for run in runs:
            object_numbers = np.full(len(run.objects), -1, np.int64)
            for place, one in enumerate(run.objects):
                if one.name not in known and one.name in staying:
                    known.add(one.name)
                    object_numbers[place] = len(objects)
                    objects.append(one)
            places = object_numbers[run.packs["object"]]
            stays = places >= 0
            mine = run.packs[stays].copy()
            mine["object"] = places[stays]
            number = np.full(len(stays), -1, np.int64)
            number[stays] = np.arange(first, first + len(mine))
            first += len(mine)
            numbers.append(number)
            packs.append(mine)
        runs = list(runs)
        replaces = tuple(os.path.basename(run.file.path) for run in runs if run.file.path)
        about = msgspec.msgpack.encode(
            _About(tuple(objects), b"".join(one.tobytes() for one in packs), replaces)
        )
        self._write(_Merged(runs, numbers), sum(map(len, runs)), about)
        for run in list(runs):
            self.remove(run)

    def _unlink(self, file: SortedFile) -> None:
        file.close()
        if file.path:
            with contextlib.suppress(OSError):
                os.unlink(file.path)


def _packs_of(run: Run, names: Collection[bytes]) -> NDArray[np.bool_]:
    """Which packs of a run are of objects of these names."""
    listed = np.array([one.name in names for one in run.objects], np.bool_)
    return listed[run.packs["object"]] if len(run.packs) else np.zeros(0, np.bool_)


class _Merged:
    """The entries of several runs in order, those of packs without a new number left out."""

    def __init__(self, runs: Sequence[Run], numbers: Sequence[NDArray[np.int64]]) -> None:
        self._runs = runs
        self._numbers = numbers

    def __iter__(self) -> Iterator[tuple[Keys, Entries]]:
        streams = [
            _renumbered(run.file.windows(), number)
            for run, number in zip(self._runs, self._numbers, strict=True)
        ]
        waiting: list[tuple[Keys, Any] | None] = [next(stream, None) for stream in streams]
        while any(one is not None for one in waiting):
            end = min(one[0][-1] for one in waiting if one is not None)
            taken: list[tuple[Keys, Entries]] = []
            for number, one in enumerate(waiting):
                if one is None:
                    continue
                keys, entries = one
                count = int(keys.searchsorted(end, "right"))
                taken.append((keys[:count], entries[:count]))
                rest = (keys[count:], entries[count:])
                waiting[number] = rest if len(rest[0]) else next(streams[number], None)
            keys = np.concatenate([one[0] for one in taken])
            entries = np.concatenate([one[1] for one in taken])
            order = np.argsort(keys, kind="stable")
            yield keys[order], entries[order]


def _renumbered(
    windows: Iterator[tuple[Keys, Entries]], numbers: NDArray[np.int64]
) -> Iterator[tuple[Keys, Entries]]:
    for keys, entries in windows:
        new = numbers[entries["pack"]]
        stays = new >= 0
        if not stays.any():
            continue
        kept = entries[stays]
        kept["pack"] = new[stays]
        yield keys[stays], kept
