"""The runs of what one client may refer to, and which of their packs count (see `kept_index`).

Only index objects are read that are in no run. What counts is asked of the repository each time: an
entry counts if the object that it was read from is listed and not superseded, and is the one that
describes its pack; for new references the pack must be neither marked nor missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from strongroom.base import clock
from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    ObjectMissingError,
    UnknownFormatError,
)
from strongroom.engine.content.ciphers import KEY_SIZE
from strongroom.engine.content.digests import OBJECT_NAME_SIZE, is_object_name
from strongroom.engine.repository.block_columns import chunk_starts, dead_flags
from strongroom.engine.repository.cache_folder import keep_to_limit, local_key
from strongroom.engine.repository.index.index import contested_owners
from strongroom.engine.repository.index.kept_runs import (
    BLOCK_ENTRY,
    CHUNK_ENTRY,
    PACK,
    IndexedObject,
    NewRun,
    Run,
    RunFolder,
)
from strongroom.engine.repository.index.objects import (
    IndexColumns,
    read_index_columns,
    read_index_heads,
)
from strongroom.engine.repository.index.pack_ids import PackIds
from strongroom.engine.repository.index.sorted_file import (
    KeyMix,
    SortedFile,
    distinct,
    words_of,
)
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.keys.roles import Key
from strongroom.engine.repository.packs import HEADER_SIZE, KIND_DATA
from strongroom.engine.repository.tombstones import read_tombstones
from strongroom.engine.stores.opened_store import OpenedStore
from strongroom.engine.stores.store import Store

# Entries that are collected before they become a run: 15 MB.
_RUN_ENTRIES: Final = 1 << 18
_NO_OBJECT: Final = -1
# Instead of the size of a pack that a store named alone.
SIZE_UNASKED: Final = -2


class WeighedPacks:
    """Which packs of a run of blocks count, by number; for `owner`."""

    def __init__(self, owner: bytes, run: Run) -> None:
        self.owner = owner
        self.run = run
        count = len(run.packs)
        # live: the object that names it is listed. unsure: no one has verified that object.
        self.live = np.zeros(count, np.bool_)
        self.unsure = np.zeros(count, np.bool_)
        # closed: no new references. unasked: there, its size is asked before the first of these.
        self.closed = np.zeros(count, np.bool_)
        self.unasked = np.zeros(count, np.bool_)

    @property
    def ids(self) -> NDArray[np.void]:
        """The ids of the packs."""
        ids: NDArray[np.void] = self.run.packs["id"]
        return ids


class UsableChunks:
    """A run of chunks, and which of its packs may be referred to; unasked as of `WeighedPacks`."""

    def __init__(
        self, run: Run, mix: KeyMix, usable: NDArray[np.bool_], unasked: NDArray[np.bool_]
    ) -> None:
        self.run = run
        self.mix = mix
        self.usable = usable
        self.unasked = unasked


class KeptRuns:
    """`packs`, of runs of blocks, and `chunks`, of runs of chunks; for one thread at a time.

    mixes: by owner.
    """

    def __init__(self, store: Store, key: Key, owner: bytes, cache_folder: bytes | None) -> None:
        """Reads nothing yet. cache_folder: where runs are kept, None for nowhere."""
        self.owner = owner
        self._opened = OpenedStore(store)
        self._key = key
        self._owners = [SHARED, owner] if owner != SHARED else [SHARED]
        self._cache_folder = cache_folder
        local_key = _local_key(cache_folder)
        secrets = {one: _secret(key, one, local_key) for one in self._owners}
        # A ticket of another client's snapshot has no index key of that client.
        self._kept = {one for one in self._owners if local_key and secrets[one]}
        self.mixes = {
            one: KeyMix(secret or clock.random_bytes(KEY_SIZE)) for one, secret in secrets.items()
        }
        self.packs: list[WeighedPacks] = []
        self.chunks: list[UsableChunks] = []
        self.block_folders: dict[bytes, RunFolder] = {}
        self.chunk_folders: dict[bytes, RunFolder] = {}
        # Packs that are there, with their sizes.
        self._present: PackIds | None = None
        # Each pack that counts, as its number among all of `packs`; made when it is needed.
        self._numbers: PackIds | None = None

    def close(self) -> None:
        """Close the files."""
        for folder in self._folders():
            folder.close()

    def damaged(self, file: SortedFile) -> None:
        """Remove the run of a file; then everything must be loaded again."""
        for folder in self._folders():
            folder.damaged(file)

    def forget_foreign(self) -> bool:
        """Remove runs that name objects without packs, which may be of others; whether any did.

        A head that was once read wrong would hide what is the client's own.
        """
        has_removed = False
        for folder in self.block_folders.values():
            for run in list(folder.runs):
                if len(distinct(run.packs["object"])) < len(run.objects):
                    folder.remove(run)
                    has_removed = True
        return has_removed

    def has_packs(self, pack_ids: bytes) -> NDArray[np.bool_]:
        """Which of n * 32 bytes of ids an index object names."""
        return self._numbered().places(pack_ids) >= 0

    def require_present(self, present: PackIds) -> NDArray[np.bool_]:
        """Bar packs that are not among these, with their size; SIZE_UNASKED is asked when needed.

        Returns which of these an index object names.
        """
        self._present = present
        return self._bar_missing(present)

    def may_refer(self, packs: WeighedPacks, rows: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Whether there may be new references to each of these packs of a run. StoreError."""
        other = self._of_other_size(packs.run, packs.unasked, rows[packs.live[rows]])
        packs.closed[other] = True
        return packs.live[rows] & ~packs.closed[rows]

    def may_claim(self, chunks: UsableChunks, rows: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """As `may_refer`, of packs of a run of chunks."""
        chunks.usable[self._of_other_size(chunks.run, chunks.unasked, rows)] = False
        return chunks.usable[rows]

    def load(self) -> None:
        """Read what is in no run, and weigh all. Raises as `Index.load`, FileDamageError."""
        # Marks are read first: a pack marked later than this is kept until our lease ends.
        tombstones = read_tombstones(self._opened.store, self._key)
        marked = b"".join(pack_id for tombstone in tombstones for pack_id in tombstone.pack_ids)
        sizes = {info.name: info.size_bytes for info in self._opened.store.list("index")}
        unverified = self._opened.store.unverified("index")
        for owner in self._owners:
            if owner not in self.block_folders:
                place = self._folder_of(owner)
                self.block_folders[owner] = RunFolder(place, "blocks", self.mixes[owner])
        known = {name for folder in self.block_folders.values() for name in folder.object_names()}
        unknown = sorted(name for name in sizes if not _is_known(name, known))
        self._read_blocks({name: sizes[name] for name in unknown}, unverified)
        there = set(map(bytes.fromhex, filter(is_object_name, sizes)))
        for folder in self.block_folders.values():
            folder.merge(there)
        self._keep_to_limit()
        self._weigh(there, set(map(bytes.fromhex, filter(is_object_name, unverified))), marked)

    def load_chunks(self) -> None:
        """Fill `chunks`, after `load`: read the second parts that are in no run. Raises as `load`.

        Entries count by the object that they were read from, as blocks do: another object may say
        something else of the same pack, such as one before a repair, or one that no one verified.
        """
        self.chunks = []
        for owner in self._owners:
            folder = self.chunk_folders.get(owner)
            if folder is None:
                folder = RunFolder(self._folder_of(owner), "chunks", self.mixes[owner])
                self.chunk_folders[owner] = folder
            known = folder.object_names()
            wanted: set[bytes] = set()
            named: set[bytes] = set()
            for packs in self.packs:
                if packs.owner == owner:
                    is_data = packs.run.packs["kind"] == KIND_DATA
                    for number in distinct(packs.run.packs["object"][packs.live]).tolist():
                        named.add(packs.run.objects[number].name)
                    good = packs.live & ~packs.closed & is_data
                    for number in distinct(packs.run.packs["object"][good]).tolist():
                        wanted.add(packs.run.objects[number].name)
            self._read_chunks(folder, sorted(one.hex() for one in wanted - known))
            folder.merge(named)
            for run in folder.runs:
                usable, unasked = self._usable(owner, run)
                self.chunks.append(UsableChunks(run, self.mixes[owner], usable, unasked))
        self._keep_to_limit()

    def _read_blocks(self, sizes: Mapping[str, int], unverified: frozenset[str]) -> None:
        new = {owner: NewRun(BLOCK_ENTRY) for owner in self._owners}
        for name, head in read_index_heads(self._opened.store, sizes):
            try:
                if isinstance(head, Exception):
                    raise head
                if head.owner not in new:
                    if self.owner != SHARED:
                        # Without packs: so that no one reads its head again. (Among the runs of
                        # all clients it would hide the object from its own client.)
                        new[self.owner].add(
                            IndexedObject(bytes.fromhex(name)),
                            np.zeros(0, PACK),
                            np.zeros(0, BLOCK_ENTRY),
                        )
                    continue
                found = read_index_columns(
                    self._opened.store, self._key, name, chunks=False, head=head
                )
            except ObjectMissingError:
                raise
            except KeyRightError:
                continue
            except (DamageError, UnknownFormatError):
                if name not in unverified:
                    raise
                continue
            run = new[head.owner]
            run.add(_object_of(found), *_block_entries(found))
            if run.entry_count >= _RUN_ENTRIES:
                self.block_folders[head.owner].write(run)
                new[head.owner] = NewRun(BLOCK_ENTRY)
        for owner, run in new.items():
            if run.objects:
                self.block_folders[owner].write(run)

    def _read_chunks(self, folder: RunFolder, names: Sequence[str]) -> None:
        new = NewRun(CHUNK_ENTRY)
        unverified = self._opened.store.unverified("index")
        for name in names:
            try:
                found = read_index_columns(self._opened.store, self._key, name, chunks=True)
            except ObjectMissingError:
                raise
            except (DamageError, UnknownFormatError):
                if name not in unverified:
                    raise
                continue
            new.add(_object_of(found), *_chunk_entries(found))
            if new.entry_count >= _RUN_ENTRIES:
                folder.write(new)
                new = NewRun(CHUNK_ENTRY)
        if new.objects:
            folder.write(new)

    def _weigh(self, there: set[bytes], unverified: set[bytes], marked: bytes) -> None:
        """Decide what counts."""
        self.packs = []
        for owner, folder in self.block_folders.items():
            replaced = {
                name
                for run in folder.runs
                for one in run.objects
                if one.name in there and one.name not in unverified
                for name in one.superseded
            }
            for run in folder.runs:
                packs = WeighedPacks(owner, run)
                states = np.array(
                    [one.name in there and one.name not in replaced for one in run.objects],
                    np.bool_,
                )
                unsure = np.array([one.name in unverified for one in run.objects], np.bool_)
                numbers = run.packs["object"]
                if len(numbers):
                    packs.live, packs.unsure = states[numbers], unsure[numbers]
                self.packs.append(packs)
        self._drop_unsure()
        self._drop_contested()
        self._numbers = None
        closed = PackIds(marked)
        for packs in self.packs:
            packs.closed = closed.places(packs.ids) >= 0
        if self._present is not None:
            self._bar_missing(self._present)

    def _numbered(self) -> PackIds:
        if self._numbers is None:
            self._numbers = PackIds(
                np.concatenate(
                    [np.zeros(0, PACK)["id"], *(packs.ids[packs.live] for packs in self.packs)]
                ),
                np.flatnonzero(
                    np.concatenate([np.zeros(0, np.bool_), *(packs.live for packs in self.packs)])
                ),
            )
        return self._numbers

    def _drop_unsure(self) -> None:
        """An object no one verified describes no pack that others do, nor one that is not there."""
        if not any((packs.unsure & packs.live).any() for packs in self.packs):
            return
        listed = [info.name for info in self._opened.store.list("packs")]
        there = PackIds(b"".join(map(bytes.fromhex, filter(is_object_name, listed))))
        sure = PackIds(
            np.concatenate([packs.ids[packs.live & ~packs.unsure] for packs in self.packs])
        )
        for packs in self.packs:
            rows = np.flatnonzero(packs.live & packs.unsure)
            ids = packs.ids[rows]
            packs.live[rows] = (there.places(ids) >= 0) & (sure.places(ids) < 0)

    def _drop_contested(self) -> None:
        """A pack that both the client and all clients name is whose its header says."""
        named = [packs.ids[packs.live] for packs in self.packs if packs.owner == SHARED]
        shared = PackIds(np.concatenate([np.zeros(0, PACK)["id"], *named]))
        if not len(shared) or self.owner == SHARED:
            return
        contested = {
            pack_id
            for packs in self.packs
            if packs.owner != SHARED
            for pack_id in packs.ids[packs.live & (shared.places(packs.ids) >= 0)].tolist()
        }
        claims = [(pack_id, owner) for pack_id in contested for owner in (SHARED, self.owner)]
        for pack_id, owner in contested_owners(self._opened.store, claims).items():
            for packs, row in self._rows_of_pack(pack_id):
                packs.live[row] &= packs.owner == owner

    def _bar_missing(self, present: PackIds) -> NDArray[np.bool_]:
        is_named = np.zeros(len(present), np.bool_)
        for packs in self.packs:
            places = present.places(packs.ids)
            is_there = places >= 0
            is_named[places[is_there & packs.live]] = True
            sizes = np.full(len(places), -1, np.int64)
            sizes[is_there] = present.numbers[places[is_there]]
            packs.unasked = sizes == SIZE_UNASKED
            packs.closed |= (sizes != packs.run.packs["size"].astype(np.int64)) & ~packs.unasked
        return is_named

    def _of_other_size(
        self, run: Run, unasked: NDArray[np.bool_], rows: NDArray[np.uint32]
    ) -> list[int]:
        """Which of these packs are not there with their size, of those not asked for before."""
        asked = distinct(rows[unasked[rows]])
        other = [row for row in asked.tolist() if not self._has_its_size(run.packs[row])]
        # Only now: after an error they are asked again.
        unasked[asked] = False
        return other

    def _has_its_size(self, pack: Any) -> bool:
        try:
            found = self._opened.store.info("packs", pack["id"].tobytes().hex())
        except ObjectMissingError:
            return False
        return found.size_bytes == int(pack["size"])

    def _rows_of_pack(self, pack_id: bytes) -> Iterator[tuple[WeighedPacks, int]]:
        for packs in self.packs:
            ids = np.ascontiguousarray(packs.run.packs["id"]).view("S32")
            for row in np.flatnonzero(ids == np.bytes_(pack_id)).tolist():
                yield packs, row

    def _usable(self, owner: bytes, run: Run) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which packs of a run of chunks may be referred to; which if they have their size."""
        places = {one.name: place for place, one in enumerate(run.objects)}
        # By number of `_numbers`: the object in this run that describes the pack, if it counts.
        parts = [np.zeros(0, np.int64)]
        are_unasked = np.concatenate([np.zeros(0, np.bool_), *(one.unasked for one in self.packs)])
        for packs in self.packs:
            mine = [places.get(one.name, _NO_OBJECT) for one in packs.run.objects]
            objects = np.array(mine, np.int64)[packs.run.packs["object"]]
            counts = packs.live & ~packs.closed & (packs.owner == owner)
            parts.append(np.where(counts, objects, _NO_OBJECT))
        describing = np.concatenate(parts)
        numbers = self._numbered().find(run.packs["id"])
        usable, unasked = np.zeros(len(numbers), np.bool_), np.zeros(len(numbers), np.bool_)
        known = np.flatnonzero(numbers >= 0)
        usable[known] = describing[numbers[known]] == run.packs["object"][known]
        unasked[known] = are_unasked[numbers[known]]
        return usable, unasked & usable

    def _folder_of(self, owner: bytes) -> bytes | None:
        if self._cache_folder is None or owner not in self._kept:
            return None
        digest = blake3(self._key.repository_id + owner).hexdigest()[:OBJECT_NAME_SIZE]
        return self._cache_folder + b"/runs/" + digest.encode()

    def _folders(self) -> Iterable[RunFolder]:
        return (*self.block_folders.values(), *self.chunk_folders.values())

    def _keep_to_limit(self) -> None:
        has_written = [folder.take_has_written() for folder in self._folders()]
        if self._cache_folder is not None and any(has_written):
            keep_to_limit(self._cache_folder)


def _local_key(cache_folder: bytes | None) -> bytes:
    """The key of the folder; b"" where there is none, or it can have none."""
    if cache_folder is None:
        return b""
    try:
        return local_key(cache_folder)
    except OSError:
        return b""


def _secret(key: Key, owner: bytes, local: bytes) -> bytes:
    keys = key.owner(owner)
    if not keys.secret:
        return b""
    text = b"strongroom kept index 1" + local + key.repository_id + owner
    return blake3(text, key=keys.index_key).digest()


def _is_known(name: str, known: set[bytes]) -> bool:
    return not is_object_name(name) or bytes.fromhex(name) in known


def _object_of(found: IndexColumns) -> IndexedObject:
    superseded = tuple(map(bytes.fromhex, found.packs.superseded))
    return IndexedObject(bytes.fromhex(found.name), superseded)


def _pack_rows(found: IndexColumns) -> NDArray[np.void]:
    packs = np.zeros(len(found.packs.pack_ids), PACK)
    if len(packs):
        ids = b"".join(found.packs.pack_ids)
        packs["id"] = np.frombuffer(ids, np.dtype((np.void, OBJECT_NAME_SIZE)))
    packs["size"] = found.packs.sizes
    packs["kind"] = np.frombuffer(found.packs.kinds, np.uint8)
    return packs


def _block_entries(found: IndexColumns) -> tuple[NDArray[np.void], NDArray[np.void]]:
    columns = found.columns
    counts = np.array(found.packs.block_counts, np.int64)
    entries = np.zeros(columns.block_count, BLOCK_ENTRY)
    stored = np.frombuffer(columns.stored_lengths, "<u4")
    firsts = np.cumsum(counts) - counts
    numbers = np.repeat(np.arange(len(counts)), counts)
    ends = np.concatenate((np.zeros(1, np.uint64), np.cumsum(stored, dtype=np.uint64)))
    entries["id"] = words_of(columns.block_ids)
    entries["offset"] = ends[:-1] - ends[firsts[numbers]] + np.uint64(HEADER_SIZE)
    entries["stored"] = stored
    entries["raw"] = np.frombuffer(columns.raw_lengths, "<u4")
    entries["pack"] = numbers
    entries["number"] = np.arange(len(entries)) - firsts[numbers]
    entries["chunks"] = np.frombuffer(columns.chunk_counts, "<u2")
    entries["codec"] = np.frombuffer(columns.codecs, np.uint8)
    entries["flags"] = np.frombuffer(columns.flags, np.uint8)
    return _pack_rows(found), entries


def _chunk_entries(found: IndexColumns) -> tuple[NDArray[np.void], NDArray[np.void]]:
    columns = found.columns
    packs = _pack_rows(found)
    counts = np.frombuffer(columns.chunk_counts, "<u2").astype(np.int64)
    pack_of = np.repeat(np.arange(len(packs)), np.array(found.packs.block_counts, np.int64))
    block_of = np.repeat(np.arange(len(counts)), counts)
    slots = np.arange(columns.chunk_count) - chunk_starts(columns.chunk_counts)[block_of]
    kept = (packs["kind"] == KIND_DATA)[pack_of[block_of]] & ~dead_flags(columns)
    block_of = block_of[kept]
    entries = np.zeros(len(block_of), CHUNK_ENTRY)
    entries["id"] = words_of(columns.chunk_ids)[kept]
    entries["block"] = words_of(columns.block_ids)[block_of]
    entries["pack"] = pack_of[block_of]
    entries["slot"] = slots[kept]
    return packs, entries
