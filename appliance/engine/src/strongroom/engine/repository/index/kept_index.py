"""The index as a client looks things up in it: kept on its disk, in runs (`kept_runs`).

What counts of the runs is in `kept_loading`. What is found in a store is verified where it is read,
as ever. A file of the cache that is not what was written is removed, its objects are read again,
and the lookup is repeated. Safe from any thread: one lock guards everything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from strongroom.base.errors import ObjectMissingError
from strongroom.engine.repository.block_columns import OFFERED
from strongroom.engine.repository.index.block_rows import BlockLocation
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.index.kept_loading import KeptRuns
from strongroom.engine.repository.index.pack_ids import PackIds
from strongroom.engine.repository.index.sorted_file import FileDamageError, words_of
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.keys.roles import Key
from strongroom.engine.repository.packs import PackFooter
from strongroom.engine.stores.opened_store import OpenedStore
from strongroom.engine.stores.store import Store

Reference = tuple[bytes, int]
_Found = TypeVar("_Found")

_ATTEMPTS: Final = 5


class KeptIndex:
    """What the snapshots of one client may refer to: its own blocks, and shared ones.

    Also what of it may be referred to anew.
    """

    def __init__(
        self, store: Store, key: Key, owner: bytes, cache_folder: bytes | None = None
    ) -> None:
        """Raises as `Index.load`. cache_folder: where runs are kept, None for nowhere.

        What is kept there opens only with the key of that folder and the owner's index key.
        """
        self.owner = owner
        self._opened = OpenedStore(store)
        self._key = key
        self._cache_folder = cache_folder
        self._lock = threading.RLock()
        # Packs that no index object names yet, and those added later.
        self._added = Index()
        self._runs = KeptRuns(store, key, owner, cache_folder)
        self._has_chunks = False
        self._has_looked_again = False
        self._sound(lambda: None, is_loaded=False)

    def close(self) -> None:
        """Close the files."""
        self._runs.close()

    def of_client(self, owner: bytes) -> KeptIndex:
        """Itself: so it is an index of one client."""
        if owner != self.owner:
            raise ValueError("this is the index of another client")
        return self

    def of_all_clients(self) -> KeptIndex:
        """The index of shared packs alone."""
        return KeptIndex(self._opened.store, self._key, SHARED, self._cache_folder)

    # What is there.

    def __contains__(self, block_id: bytes) -> bool:
        return bool(self._entries(block_id)) or block_id in self._added.of_client(self.owner)

    def locate(self, block_id: bytes) -> BlockLocation:
        """Where a block is; DamageError when no pack that the client may refer to has it."""
        found = self._entries(block_id)
        if not found and block_id not in self._added.of_client(self.owner):
            found = self._look_again(block_id)
        if found:
            return found[0]
        return self._added.of_client(self.owner).locate(block_id)

    def copies(self, block_id: bytes) -> list[BlockLocation]:
        """Every location of a block, the best first."""
        return [*self._entries(block_id), *self._added.of_client(self.owner).copies(block_id)]

    def has_packs(self, pack_ids: bytes) -> NDArray[np.bool_]:
        """Which of n * 32 bytes of ids an index object names."""
        with self._lock:
            return self._runs.has_packs(pack_ids)

    # What may be referred to.

    def has_blocks(self, block_ids: bytes) -> NDArray[np.bool_]:
        """Which of n * 24 bytes of ids are in a pack that is not marked or missing."""
        return self.offered(block_ids) >= 0

    def offered(self, block_ids: bytes) -> NDArray[np.int8]:
        """Of n * 24 bytes of ids 1 for an offered block, 0 for another, -1 for none to refer to."""
        return self._sound(lambda: self._offered(block_ids))

    def add(self, footer: PackFooter) -> None:
        """Add a pack that was written or read just now."""
        with self._lock:
            self._added.add(footer)

    def require_present(self, present: PackIds) -> NDArray[np.bool_]:
        """Bar packs that are not among those that the store has, with their sizes as numbers.

        A size that is SIZE_UNASKED is asked before the first reference to the pack, by `offered`
        and `claim`, which raise StoreError then. Returns which of these an index object names.
        """
        with self._lock:
            return self._runs.require_present(present)

    # Chunks.

    def load_chunks(self) -> None:
        """Make ready for `claim`: read the second parts that are in no run. Raises as `load`."""
        with self._lock:
            self._has_chunks = True
            try:
                # Objects added or marked since blocks were loaded do not count: our lease is older.
                self._sound(self._runs.load_chunks)
            except ObjectMissingError:
                self._sound(lambda: None, is_loaded=False)

    def claim(self, ids: bytes) -> dict[int, Reference]:
        """Where those of n * 24 bytes of chunk ids are that may be referred to, by number."""
        return self._sound(lambda: self._claim(ids))

    def _claim(self, ids: bytes) -> dict[int, Reference]:
        words = words_of(ids)
        found: dict[int, Reference] = {}
        for chunks in self._runs.chunks:
            run = chunks.run
            keys = chunks.mix.keys(words)
            possible = run.file.may_have(keys)
            if not len(possible):
                continue
            for rows, entries in run.file.find(words[possible], keys[possible]):
                good = self._runs.may_claim(chunks, entries["pack"])
                blocks, slots = entries["block"][good], entries["slot"][good].tolist()
                for place, row in enumerate(possible[rows[good]].tolist()):
                    found.setdefault(row, (blocks[place].tobytes(), slots[place]))
        return found

    def _sound(self, ask: Callable[[], _Found], *, is_loaded: bool = True) -> _Found:
        """What `ask` gives; all is loaded first where it is not, or the cache was damaged."""
        with self._lock:
            for _ in range(_ATTEMPTS):
                try:
                    if not is_loaded:
                        self._load()
                    return ask()
                except FileDamageError as error:
                    self._runs.damaged(error.file)
                    is_loaded = False
            self._load()
            return ask()

    def _load(self) -> None:
        """Load all. Marks and objects are of this moment: what is marked later waits for us."""
        for attempt in range(_ATTEMPTS):
            try:
                self._runs.load()
                if self._has_chunks:
                    self._runs.load_chunks()
                return
            except ObjectMissingError:
                # A prune replaced it since it was listed; its replacement exists by now.
                if attempt == _ATTEMPTS - 1:
                    raise

    def _look_again(self, block_id: bytes) -> list[BlockLocation]:
        """What of a block is in index objects that were taken for those of others."""
        with self._lock:
            if self._has_looked_again:
                # Perhaps for another thread, since this one missed it.
                return self._entries(block_id)
            if not self._runs.forget_foreign():
                return []
            self._has_looked_again = True
            return self._sound(lambda: self._entries_once(block_id), is_loaded=False)

    # Lookups.

    def _entries(self, block_id: bytes) -> list[BlockLocation]:
        return self._sound(lambda: self._entries_once(block_id))

    def _entries_once(self, block_id: bytes) -> list[BlockLocation]:
        """Every copy in a run, the best first.

        A shared one before one of the client's own; one that is not in doubt, then the one with
        the most bytes: a whole copy before a thinned one, even if it is marked, since a snapshot
        that began before the marking may need chunks that the other lacks.
        """
        words = words_of(block_id)
        keys = {owner: int(mix.keys(words)[0]) for owner, mix in self._runs.mixes.items()}
        found: list[tuple[tuple[bool, bool, int, bool], Any, Any]] = []
        for packs in self._runs.packs:
            for entry in packs.run.file.find_one(block_id, keys[packs.owner]):
                row = int(entry["pack"])
                if packs.live[row]:
                    order = (
                        packs.owner != SHARED,
                        bool(packs.unsure[row]),
                        -int(entry["raw"]),
                        bool(packs.closed[row]),
                    )
                    found.append((order, packs.run.packs[row], entry))
        found.sort(key=lambda one: one[0])
        return list(dict.fromkeys(_location(pack, entry) for _, pack, entry in found))

    def _offered(self, block_ids: bytes) -> NDArray[np.int8]:
        words = words_of(block_ids)
        states = np.full(len(words), -1, np.int8)
        keys = {owner: mix.keys(words) for owner, mix in self._runs.mixes.items()}
        for packs in self._runs.packs:
            lacking = np.flatnonzero(states < 0)
            if not len(lacking):
                return states
            mine = keys[packs.owner][lacking]
            for rows, entries in packs.run.file.find(words[lacking], mine):
                good = self._runs.may_refer(packs, entries["pack"])
                offered = (entries["flags"][good] & OFFERED).astype(np.bool_)
                states[lacking[rows[good]]] = offered
        lacking = np.flatnonzero(states < 0)
        if len(lacking) and len(self._added):
            blocks = self._added.of_client(self.owner)
            found = blocks.usable_rows(words[lacking].tobytes())
            known = np.flatnonzero(found >= 0)
            states[lacking[known]] = self._added.are_offered(found[known])
        return states


class KeptIndexes:
    """The kept index of each client, opened when it is first asked for."""

    def __init__(self, store: Store, key: Key, cache_folder: bytes | None) -> None:
        self._opened = OpenedStore(store)
        self._key = key
        self._cache_folder = cache_folder
        self._lock = threading.Lock()
        self._indexes: dict[bytes, KeptIndex] = {}

    def of_client(self, owner: bytes) -> KeptIndex:
        """The blocks that snapshots of a client may refer to. Raises as `Index.load`."""
        with self._lock:
            index = self._indexes.get(owner)
            if index is None:
                index = KeptIndex(self._opened.store, self._key, owner, self._cache_folder)
                self._indexes[owner] = index
            return index


def _location(pack: Any, entry: Any) -> BlockLocation:
    return BlockLocation(
        pack["id"].tobytes(),
        int(entry["number"]),
        int(entry["offset"]),
        int(entry["stored"]),
        int(entry["raw"]),
        int(entry["codec"]),
        int(entry["flags"]),
        int(entry["chunks"]),
        int(pack["size"]),
    )
