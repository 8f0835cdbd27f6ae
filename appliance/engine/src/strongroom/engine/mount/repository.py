"""Reads a mounted repository that changes: its current snapshots, their rows and chunks.

A mount lives for days beside backups and prunes. So the list of snapshots is refreshed when names
are looked up, and a block that is not where the index says causes the index to be reloaded: a
prune may have moved it. A storage daemon ends connections that are idle for long, and is restarted
now and then: what fails for lack of a connection is tried once more with a new one.

Threads: `_lock` guards the state that is replaced (names, open snapshots, reader). One of
`_block_locks` is held while a block is decoded, so that several threads that want the same block
decode it once.
"""

from __future__ import annotations

import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from strongroom.base.clock import elapsed_seconds
from strongroom.base.errors import (
    ConnectionLostError,
    DamageError,
    ObjectMissingError,
    StrongroomError,
)
from strongroom.engine.inspect.row_lookup import RowLookup
from strongroom.engine.mount.names import NameTree
from strongroom.engine.repository.blocks import BlockReader
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside, is_of_one_object
from strongroom.engine.repository.snapshots import Snapshot, believed, read_snapshot
from strongroom.engine.stores.capabilities import found_false

REFRESH_SECONDS: Final = 5.0
OPEN_SNAPSHOTS: Final = 4
_BLOCK_LOCKS: Final = 64
_READ_AHEAD_THREADS: Final = 2
_Result = TypeVar("_Result")


class MountedRepository:
    """Names, rows and chunks of a repository, kept up to date."""

    def __init__(
        self,
        repository: Repository,
        choose: Callable[[Sequence[Snapshot]], Sequence[Snapshot]],
        cache_bytes: int,
        report: Callable[[SetAside], None] = lambda _: None,
    ) -> None:
        """`choose`: selects the snapshots to show; gets them without pages, the oldest first.

        Those that were found false are never shown. report: called with the snapshots that cannot
        be read, each time there may be more. The repository stays the caller's to close.
        """
        self._given = self._repository = repository
        self._choose = choose
        self._cache_bytes = cache_bytes
        self._report = report
        self._lock = threading.RLock()
        self._block_locks = [threading.Lock() for _ in range(_BLOCK_LOCKS)]
        self._known: dict[str, Snapshot] = {}
        self._stored: frozenset[str] = frozenset()
        self._set_aside = SetAside()
        self._names = NameTree(())
        self._refreshed = -REFRESH_SECONDS
        self._opened: OrderedDict[str, RowLookup] = OrderedDict()
        self._read_ahead: ThreadPoolExecutor | None = None
        self._load_index()

    def names(self) -> NameTree:
        """The names, at most a few seconds old."""
        with self._lock:
            if elapsed_seconds() - self._refreshed >= REFRESH_SECONDS:
                self._with_connection(self._refresh)
                self._refreshed = elapsed_seconds()
            return self._names

    def rows(self, snapshot: Snapshot) -> RowLookup:
        """The rows of a snapshot. Raises DamageError, or ObjectMissingError once it is gone."""
        with self._lock:
            opened = self._opened.get(snapshot.id)
            if opened is None:
                found = self._with_connection(lambda: self._repository.snapshot(snapshot.id))
                chunks = ClientContent(self, snapshot.owner)
                lookup = RowLookup(found.pages, chunks, unread=found.unread)
                opened = self._opened[snapshot.id] = lookup
                if len(self._opened) > OPEN_SNAPSHOTS:
                    self._opened.popitem(last=False)
            else:
                self._opened.move_to_end(snapshot.id)
            return opened

    def reader(self, owner: bytes) -> BlockReader:
        """The present reader of a client's blocks."""
        with self._lock:
            return self._readers.of(owner)

    def chunk(self, owner: bytes, block_id: bytes, slot: int) -> memoryview:
        """The raw bytes of a chunk. Raises DamageError, StoreError."""
        return self._with_connection(lambda: self._chunk(owner, block_id, slot))

    def _chunk(self, owner: bytes, block_id: bytes, slot: int) -> memoryview:
        reader = self.reader(owner)
        try:
            with self._block_locks[block_id[0] % _BLOCK_LOCKS]:
                return reader.chunk(block_id, slot)
        except DamageError:
            if not self._reload_index():
                raise
        return self.reader(owner).chunk(block_id, slot)

    def chunk_length(self, owner: bytes, block_id: bytes, slot: int) -> int:
        """The length of a chunk in bytes. Raises DamageError, StoreError."""
        return self._with_connection(lambda: self._chunk_length(owner, block_id, slot))

    def _chunk_length(self, owner: bytes, block_id: bytes, slot: int) -> int:
        reader = self.reader(owner)
        try:
            return reader.chunk_length(block_id, slot)
        except DamageError:
            if not self._reload_index():
                raise
        return self.reader(owner).chunk_length(block_id, slot)

    def prefetch(self, owner: bytes, wanted: Iterable[bytes]) -> None:
        """Load blocks into the cache in the background; returns at once."""
        reader = self.reader(owner)
        with self._lock:
            if self._read_ahead is None:
                self._read_ahead = ThreadPoolExecutor(
                    _READ_AHEAD_THREADS, "read-ahead", initializer=_leave_signals_to_others
                )
            for block_id in wanted:
                self._read_ahead.submit(self._fetch, reader, block_id)

    def stored_bytes(self) -> int:
        """Size of all packs."""
        return sum(info.size_bytes for info in self._repository.store.list("packs"))

    def close(self) -> None:
        """End the threads that read ahead."""
        with self._lock:
            if self._read_ahead is not None:
                self._read_ahead.shutdown(wait=True, cancel_futures=True)
                self._read_ahead = None
            if self._repository is not self._given:
                self._repository.close()

    def _fetch(self, reader: BlockReader, block_id: bytes) -> None:
        try:
            with self._block_locks[block_id[0] % _BLOCK_LOCKS]:
                reader.block(block_id)
        except StrongroomError:
            # The reader that needs the block gets the error.
            return

    def _refresh(self) -> None:
        stored = {info.name: info for info in self._repository.store.list("snapshots")}
        if stored.keys() == self._stored:
            return
        false = found_false(self._repository.store)
        for name in self._known.keys() - stored.keys():
            del self._known[name]
            self._opened.pop(name, None)
        for name in stored.keys() - self._known.keys():
            try:
                snapshot = read_snapshot(self._repository.store, self._repository.key, name)
            except ObjectMissingError:
                # Forgotten since it was listed.
                continue
            except Exception as error:
                if not is_of_one_object(error):
                    raise
                if name not in false:
                    self._set_aside.add("snapshots", name, error)
                continue
            self._known[name] = believed(snapshot, stored[name])
        snapshots = sorted(self._known.values(), key=lambda item: (item.start_ns, item.id))
        chosen = self._choose(snapshots)
        self._names = NameTree([one for one in chosen if one.id not in false])
        self._stored = frozenset(stored)
        self._report(self._set_aside)

    def _with_connection(self, attempt: Callable[[], _Result]) -> _Result:
        """What `attempt` gives; if its connection was lost, with a new one. Raises its errors.

        Called without a lock of a block, for it may wait for `_lock`.
        """
        used = self._repository
        try:
            return attempt()
        except ConnectionLostError:
            with self._lock:
                if self._repository is used:
                    self._repository = used.reopen()
                    # The kept index asks the store too, so it needs the new connection.
                    self._index = self._repository.kept_index()
                    self._readers = ClientReaders(self._repository, self._index, self._cache_bytes)
                    if used is not self._given:
                        used.close()
        return attempt()

    def _load_index(self) -> None:
        self._index_names = frozenset(info.name for info in self._repository.store.list("index"))
        self._index = self._repository.kept_index()
        self._readers = ClientReaders(self._repository, self._index, self._cache_bytes)

    def _reload_index(self) -> bool:
        """Reload the index if it has changed; returns whether it may know more than before."""
        with self._lock:
            listed = frozenset(info.name for info in self._repository.store.list("index"))
            if listed != self._index_names:
                self._load_index()
                return True
            return False


class ClientContent:
    """The content of one client's snapshots."""

    def __init__(self, repository: MountedRepository, owner: bytes) -> None:
        self._repository = repository
        self._owner = owner

    def chunk(self, wanted: bytes, slot: int) -> memoryview:
        """The raw bytes of a chunk. Raises DamageError, StoreError."""
        return self._repository.chunk(self._owner, wanted, slot)

    def chunk_length(self, wanted: bytes, slot: int) -> int:
        """The length of a chunk in bytes. Raises DamageError, StoreError."""
        return self._repository.chunk_length(self._owner, wanted, slot)

    def prefetch(self, wanted: Iterable[bytes]) -> None:
        """Load blocks into the cache in the background; returns at once."""
        self._repository.prefetch(self._owner, wanted)


def _leave_signals_to_others() -> None:
    # libfuse's signal handlers must run in its main thread, which waits for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
