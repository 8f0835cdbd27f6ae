"""The whole index in memory: in which pack, and where in it, a block is.

For jobs over all of it: prune, check, repair, share, stats. Who looks something up uses the kept
index (`kept_index`).

A block belongs to the owner of its pack: a client, or all of them (SHARED). A client's snapshots
refer to its own blocks and to shared ones, so blocks are looked up for a client (`ClientBlocks`);
another client's block of the same id does not count.

About 80 bytes a block, 260 while it is loaded; the columns of chunks, a thousand times as many
where files are small, are loaded only on request. Concurrent reads are safe while nothing is added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from strongroom.base.errors import (
    DamageError,
    KeyRightError,
    ObjectMissingError,
    UnknownFormatError,
)
from strongroom.engine.content.digests import BLOCK_ID_SIZE, is_object_name
from strongroom.engine.repository.block_columns import BlockColumns
from strongroom.engine.repository.index.block_rows import BlockLocation, BlockRows, IndexedPack
from strongroom.engine.repository.index.client_blocks import ClientBlocks
from strongroom.engine.repository.index.id_table import OwnedIds
from strongroom.engine.repository.index.objects import read_index_heads, read_index_object
from strongroom.engine.repository.index.selection import (
    BlockSelection,
    IdRange,
    IdsAmong,
    OfferedBlocks,
    only_blocks,
)
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.keys.roles import Key
from strongroom.engine.repository.packs import PackFooter, read_owner
from strongroom.engine.repository.tombstones import read_tombstones
from strongroom.engine.stores.store import Store

# Whose a pack is that index objects of several clients describe.
#
# A client seals its own index, so it could describe another's pack as its own: hide what is in it,
# or have it removed under a tombstone that bars only its own leases. The header of the pack
# decides.


def contested_owners(store: Store, claims: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The owner of each pack that several claim; claims: ids of packs and their owners.

    A pack that is gone or does not say whose it is has none of them: b"".
    """
    first: dict[bytes, bytes] = {}
    contested = {
        pack_id: b"" for pack_id, owner in claims if first.setdefault(pack_id, owner) != owner
    }
    for pack_id in contested:
        with suppress(ObjectMissingError, DamageError, UnknownFormatError):
            contested[pack_id] = read_owner(store, pack_id)
    return contested


def unverified_packs(store: Store) -> frozenset[bytes]:
    """Packs whose content may not match their claims."""
    return frozenset(map(bytes.fromhex, filter(is_object_name, store.unverified("packs"))))


_ATTEMPTS: Final = 5
_Found = TypeVar("_Found")


def again_if_replaced(ask: Callable[[], _Found]) -> _Found:
    """What `ask` gives, again where a prune replaced an index object since `ask` listed it.

    What replaces it is there by then. ObjectMissingError where that does not end.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(ObjectMissingError):
            return ask()
    return ask()


class IndexState(NamedTuple):
    """What an index is made of at one moment.

    marked: packs under tombstones. sizes: of the index objects, by name. unverified: those of them
    that no one has verified. there: names of the packs that were there, None to list them when the
    index is read.
    """

    marked: frozenset[bytes]
    sizes: dict[str, int]
    unverified: frozenset[str]
    there: frozenset[str] | None = None

    @classmethod
    def read(cls, store: Store, key: Key, *, marks: bool = True) -> IndexState:
        """That of now. Without `marks` no tombstone is read, and no pack counts as marked."""
        # Marks are read first: a pack marked later than this is kept until our lease ends.
        tombstones = read_tombstones(store, key) if marks else []
        marked = {pack_id for tombstone in tombstones for pack_id in tombstone.pack_ids}
        sizes = {info.name: info.size_bytes for info in store.list("index")}
        return cls(frozenset(marked), sizes, frozenset(store.unverified("index")))


class Index(BlockRows):
    """Blocks by id, and packs."""

    def __init__(self) -> None:
        super().__init__()
        self._table = OwnedIds()
        self._chunk_columns: list[tuple[int, BlockColumns]] = []
        self.object_names: tuple[str, ...] = ()
        self.superseded_names: tuple[str, ...] = ()
        # Objects that no one had verified when it was loaded.
        self.unverified_names: frozenset[str] = frozenset()
        # The blocks that it has, None for all.
        self.selection: BlockSelection | None = None

    @classmethod
    def load(
        cls,
        store: Store,
        key: Key,
        owner: bytes | None = None,
        *,
        chunks: bool = False,
        only_verified: bool = False,
        marks: bool = True,
    ) -> Index:
        """The index of everything stored; with `chunks` ready for `columns_by_pack`.

        owner: only of what that client may refer to. What the key does not open is left out.
        only_verified: nor is what an object says that no one has verified. Without `marks` no
        tombstone is read, and no pack counts as marked.
        DamageError when an index object is not sound: repair rebuilds the index from packs.
        """
        return again_if_replaced(
            lambda: cls.of_state(
                store,
                key,
                IndexState.read(store, key, marks=marks),
                owner,
                chunks=chunks,
                only_verified=only_verified,
            )
        )

    @classmethod
    def of_state(
        cls,
        store: Store,
        key: Key,
        state: IndexState,
        owner: bytes | None = None,
        *,
        chunks: bool = False,
        only_verified: bool = False,
        selection: BlockSelection | None = None,
    ) -> Index:
        """`load` of what was listed before; of all packs the blocks that are selected.

        ObjectMissingError where an object was replaced since: list again.
        """
        # A unverified object replaces no other, and does not describe packs that others describe,
        # nor any that are not there: the first description counts. If it is invalid, that is not
        # damage either.
        unverified = state.unverified
        names = sorted(state.sizes)
        if only_verified:
            names = [name for name in names if name not in unverified]
        objects = []
        names.sort(key=lambda name: name in unverified)
        for name, head in read_index_heads(store, {name: state.sizes[name] for name in names}):
            try:
                if isinstance(head, Exception):
                    raise head
                if owner is None or head.owner in (owner, SHARED):
                    if owner is None and name in unverified and not chunks:
                        # Jobs over all clients read the second part later, and must not stop there.
                        read_index_object(store, key, name, chunks=True, head=head)
                    objects.append(
                        read_index_object(
                            store, key, name, chunks=chunks, head=head, selection=selection
                        )
                    )
            except ObjectMissingError:
                raise
            except KeyRightError:
                continue
            except (DamageError, UnknownFormatError):
                if name not in unverified:
                    raise
        superseded = {
            (an_object.owner, name)
            for an_object in objects
            if an_object.name not in unverified
            for name in an_object.superseded
        }
        current = [item for item in objects if (item.owner, item.name) not in superseded]
        unsure = any(item.name in unverified for item in current)
        there: Collection[str] = state.there or ()
        if unsure and state.there is None:
            there = {info.name for info in store.list("packs")}
        footers = [
            footer
            for item in current
            for footer in item.footers
            if item.name not in unverified or footer.pack_id.hex() in there
        ]
        claims = ((footer.pack_id, footer.owner) for footer in footers)
        if contested := contested_owners(store, claims):
            footers = [one for one in footers if contested.get(one.pack_id, one.owner) == one.owner]
        index = cls.of(footers, state.marked, unverified_packs(store), chunks=chunks)
        index.selection = selection
        # Only what an object of the same owner replaces: the next prune deletes these.
        index.superseded_names = tuple(
            sorted(item.name for item in objects if (item.owner, item.name) in superseded)
        )
        index.object_names = tuple(item.name for item in current)
        index.unverified_names = unverified
        return index

    @classmethod
    def of(
        cls,
        footers: Iterable[PackFooter],
        marked: Collection[bytes],
        unverified: Collection[bytes] = (),
        *,
        chunks: bool = False,
    ) -> Index:
        """The index of some packs.

        Those in `marked` are about to be removed; those in `unverified` may not match their claims.
        """
        index = cls()
        for footer in footers:
            index._add_loaded(footer, marked=footer.pack_id in marked, chunks=chunks)
        order = index._preferred(unverified)
        ids = np.frombuffer(index._block_ids, np.uint8).reshape(-1, BLOCK_ID_SIZE)[order]
        index._table.add(ids.tobytes(), index.owners_of_rows[order], order)
        return index

    def location_of(self, row: int) -> BlockLocation:
        """Where the block of a row is; not of some blocks of a pack, whose places are not known."""
        if isinstance(self.selection, IdRange | IdsAmong | OfferedBlocks):
            raise TypeError("this index has only some blocks of each pack")
        return super().location_of(row)

    def add(self, footer: PackFooter) -> None:
        """Add a pack that was written or read just now; no effect if it is known already."""
        first_row = len(self._codecs)
        if self.add_pack(footer, marked=False):
            rows = range(first_row, len(self._codecs))
            self._table.add_recent(footer.columns.block_ids, self.number_of(footer.owner), rows)

    def of_client(self, owner: bytes) -> ClientBlocks:
        """The blocks that snapshots of a client may refer to."""
        return ClientBlocks(self, self._table, self.number_of(owner))

    def rows_of_footer(self, footer: PackFooter) -> BlockColumns:
        """Of a pack's footer the blocks that this index has, if it has only some."""
        if not isinstance(self.selection, IdRange | IdsAmong):
            return footer.columns
        return only_blocks(footer.columns, self.selection.has(footer.columns.block_ids))

    def columns_by_pack(self) -> Iterator[tuple[IndexedPack, BlockColumns]]:
        """Every pack with its columns, of an index loaded with chunks."""
        for number, columns in self._chunk_columns:
            yield self._packs[number], columns

    def release_chunks(self) -> None:
        """Release the memory of the chunk columns."""
        self._chunk_columns = []

    def _preferred(self, unverified: Collection[bytes]) -> NDArray[np.int64]:
        """Rows, of an owner's copies of a block the best first.

        One that is not unverified, then the one with the most bytes: a whole copy before a thinned
        one, even if it is marked, since a snapshot that began before the marking may need chunks
        that the other lacks.
        """
        marked = np.array([pack.marked for pack in self._packs], np.bool_)
        raw_lengths = self.raw_lengths.astype(np.int64)
        unsure = np.array([pack.pack_id in unverified for pack in self._packs], np.bool_)
        pack_numbers = self.pack_numbers
        return np.lexsort((marked[pack_numbers], -raw_lengths, unsure[pack_numbers]))

    def _add_loaded(self, footer: PackFooter, *, marked: bool, chunks: bool) -> None:
        number = len(self._packs)
        if self.add_pack(footer, marked=marked) and chunks:
            self._chunk_columns.append((number, footer.columns))
