"""The sound part of the index, with what check and repair compare against.

`Index.load` stops at the first damage; here a damaged object is recorded and the others are used.
All of it takes about 300 bytes a block; `check` may load it without blocks, or with some of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from strongroom.base.errors import DamageError, ObjectMissingError, UnknownFormatError
from strongroom.engine.content.digests import BLOCK_ID_SIZE, CHUNK_ID_SIZE, object_name
from strongroom.engine.repository.block_columns import BlockColumns, dead_flags
from strongroom.engine.repository.index.index import (
    Index,
    again_if_replaced,
    contested_owners,
)
from strongroom.engine.repository.index.objects import (
    index_head,
    join_columns,
    read_index_columns,
    read_index_object,
)
from strongroom.engine.repository.index.selection import BlockSelection, PacksAmong
from strongroom.engine.repository.index.shared_chunks import SharedChunks
from strongroom.engine.repository.keys.owners import SHARED
from strongroom.engine.repository.packs import KIND_DATA, PackFooter
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.tombstones import read_tombstone
from strongroom.engine.stores.store import Kind

_NO_BLOCKS: Final = join_columns([])


class Damaged(NamedTuple):
    """An object that differs from what was written."""

    kind: Kind
    name: str
    problem: str


class VerifiedObjects(NamedTuple):
    """What an earlier check verified, and is as it was: index objects by name, and packs by id."""

    index_names: Collection[str]
    pack_ids: AbstractSet[bytes]


NOTHING_VERIFIED: Final = VerifiedObjects((), frozenset())


class DescribedPack(NamedTuple):
    """A pack by its index object. summary: see `footer_summary`; b"" where it is not needed."""

    pack_id: bytes
    kind: int
    size_bytes: int
    block_count: int
    summary: bytes


class SoundObjects(NamedTuple):
    """What an index is made of at one moment.

    marked: packs under tombstones. current: owners and names of the index objects that count.
    contested: whose packs are that several owners claim. verified: the packs of objects that an
    earlier check verified with all of these.
    """

    marked: set[bytes]
    current: list[tuple[bytes, str]]
    contested: dict[bytes, bytes]
    damaged: list[Damaged]
    verified: dict[str, list[DescribedPack]]


class SoundIndex(msgspec.Struct):
    """The content of sound index objects.

    chunk_starts, chunk_lengths: by row of the index and chunk; a chunk whose bytes were dropped has
    the length -1. summaries: of each pack's footer, if all its blocks were read. block_count: of
    all packs, also where the index has only some blocks. Chunks that clients leave to shared packs
    are there if those are: left_at are their places in chunk_lengths, left_to those of the shared
    blocks in shared_blocks, joined ids.
    """

    index: Index
    chunk_starts: NDArray[np.int64]
    chunk_lengths: NDArray[np.int64]
    summaries: dict[bytes, bytes]
    object_names: list[str]
    block_count: int
    objects: SoundObjects
    damaged: list[Damaged] = []
    left_at: array[int] = msgspec.field(default_factory=lambda: array("q"))
    left_to: array[int] = msgspec.field(default_factory=lambda: array("q"))
    shared_blocks: bytes = b""

    def lose(self, lost: Collection[tuple[bytes, bytes]]) -> None:
        """Take blocks (owner and id) for lost: clients have left chunks to shared ones of them."""
        size = BLOCK_ID_SIZE
        starts = range(0, len(self.shared_blocks), size)
        gone = [(SHARED, self.shared_blocks[at : at + size]) in lost for at in starts]
        if any(gone):
            at = np.array(self.left_at)[np.array(gone)[np.array(self.left_to)]]
            self.chunk_lengths[at] = -1


def load_sound_index(repository: Repository) -> SoundIndex:
    """Read every index object and every tombstone; damage is reported, not raised."""
    return again_if_replaced(lambda: _load(repository, _list_sound(repository)))


def load_sound_packs(
    repository: Repository, before: VerifiedObjects = NOTHING_VERIFIED
) -> SoundIndex:
    """The same, of all packs without their blocks.

    before: of objects that were verified with all of their packs only the content is compared with
    the name, and the packs listed.
    """
    return again_if_replaced(lambda: _load_packs(repository, _list_sound(repository, before)))


def load_sound_part(
    repository: Repository, known: SoundIndex, selection: BlockSelection
) -> SoundIndex:
    """With the blocks that are selected, by the same index objects as another one.

    Where packs are shared a client's chunks may be in blocks that are not selected: load all.
    """
    with suppress(ObjectMissingError):
        return _load(repository, known.objects, selection)
    # A prune replaced one; what replaces it is listed now.
    return again_if_replaced(lambda: _load(repository, _list_sound(repository), selection))


def _load(
    repository: Repository,
    objects: SoundObjects,
    selection: BlockSelection | None = None,
) -> SoundIndex:
    damaged = list(objects.damaged)
    lengths = array("q")
    starts = array("q", [0])
    summaries: dict[bytes, bytes] = {}
    names: list[str] = []
    block_count = 0

    left_at, left_to = array("q"), array("q")
    columns_of_shared: list[BlockColumns] = []
    shared: list[SharedChunks] = []

    def footers() -> Iterator[PackFooter]:
        nonlocal block_count
        for footer in _sound_footers(repository, objects, names, damaged, selection):
            if footer.pack_id in summaries:
                continue
            # That of some of its blocks would not match that of the pack.
            summaries[footer.pack_id] = footer_summary(footer) if selection is None else b""
            count = footer.columns.block_count
            block_count += count
            if not count:
                yield footer
                continue
            mine = np.frombuffer(footer.columns.chunk_lengths, "<u4").astype(np.int64)
            dead = dead_flags(footer.columns)
            if footer.owner == SHARED:
                if footer.kind == KIND_DATA:
                    columns_of_shared.append(footer.columns)
            else:
                # Objects of shared packs come first.
                if not shared:
                    shared.append(SharedChunks(columns_of_shared))
                left = np.flatnonzero(dead & shared[0].covers(footer.columns))
                ids = np.frombuffer(footer.columns.chunk_ids, np.uint8).reshape(-1, CHUNK_ID_SIZE)
                left_at.frombytes((left + len(lengths)).tobytes())
                left_to.frombytes(shared[0].rows_of(ids[left].tobytes()).tobytes())
                dead[left] = False
            mine[dead] = -1
            lengths.frombytes(mine.tobytes())
            counts = np.frombuffer(footer.columns.chunk_counts, "<u2").astype(np.int64)
            starts.frombytes((np.cumsum(counts) + starts[-1]).tobytes())
            yield footer

    index = Index.of(footers(), objects.marked)
    index.object_names = tuple(names)
    index.selection = selection
    return SoundIndex(
        index,
        np.frombuffer(starts, np.int64),
        np.frombuffer(lengths, np.int64),
        summaries,
        sorted(names),
        block_count,
        objects,
        damaged,
        left_at,
        left_to,
        shared[0].block_ids if shared else b"",
    )


def _load_packs(repository: Repository, objects: SoundObjects) -> SoundIndex:
    damaged = list(objects.damaged)
    packs: list[PackFooter] = []
    summaries: dict[bytes, bytes] = {}
    names: list[str] = []
    block_count = 0
    for owner, name in objects.current:
        try:
            described = objects.verified.get(name) or _described(repository, name)
        except ObjectMissingError:
            raise
        except DamageError as error:
            damaged.append(Damaged("index", name, str(error)))
            continue
        names.append(name)
        for one in described:
            is_mine = objects.contested.get(one.pack_id, owner) == owner
            if is_mine and one.pack_id not in summaries:
                summaries[one.pack_id] = one.summary
                block_count += one.block_count
                packs.append(PackFooter(owner, one.pack_id, one.kind, one.size_bytes, _NO_BLOCKS))
    index = Index.of(packs, objects.marked)
    index.object_names = tuple(names)
    index.selection = PacksAmong()
    none = np.zeros(0, np.int64)
    return SoundIndex(
        index, np.zeros(1, np.int64), none, summaries, sorted(names), block_count, objects, damaged
    )


def _described(repository: Repository, name: str) -> list[DescribedPack]:
    found = read_index_object(repository.store, repository.key, name, chunks=True)
    return [
        DescribedPack(
            footer.pack_id,
            footer.kind,
            footer.size_bytes,
            footer.columns.block_count,
            footer_summary(footer),
        )
        for footer in found.footers
    ]


def footer_summary(footer: PackFooter) -> bytes:
    """A digest of all fields of a footer."""
    hasher = blake3(footer.owner + bytes([footer.kind]) + footer.size_bytes.to_bytes(8, "little"))
    for name in BlockColumns.__struct_fields__:
        column = getattr(footer.columns, name)
        hasher.update(len(column).to_bytes(8, "little"))
        hasher.update(column)
    return hasher.digest()


def _list_sound(repository: Repository, before: VerifiedObjects = NOTHING_VERIFIED) -> SoundObjects:
    """What is there now: each object is read, and its name compared with its content."""
    store, key = repository.store, repository.key
    damaged: list[Damaged] = []
    marked: set[bytes] = set()
    for info in store.list("tombstones"):
        try:
            if object_name(store.get("tombstones", info.name)) != info.name:
                raise DamageError("its content does not match its name")
            marked.update(read_tombstone(store, key, info.name).pack_ids)
        except ObjectMissingError:
            # Swept by a prune since it was listed.
            continue
        except DamageError as error:
            damaged.append(Damaged("tombstones", info.name, str(error)))
    superseded: set[tuple[bytes, str]] = set()
    sound: list[tuple[bytes, str]] = []
    claims: list[tuple[bytes, bytes]] = []
    verified: dict[str, list[DescribedPack]] = {}
    unverified = store.unverified("index")
    for info in store.list("index"):
        try:
            data = store.get("index", info.name)
            if object_name(data) != info.name:
                raise DamageError("its content does not match its name")
            head = index_head(info.name, data)
            owner, packs = read_index_columns(store, key, info.name, chunks=False, head=head)[1:3]
            del data, head
            if info.name not in unverified:
                superseded.update((owner, name) for name in packs.superseded)
            sound.append((owner, info.name))
            claims += [(pack_id, owner) for pack_id in packs.pack_ids]
            if info.name in before.index_names and before.pack_ids >= set(packs.pack_ids):
                rows = zip(
                    packs.pack_ids, packs.kinds, packs.sizes, packs.block_counts, strict=True
                )
                verified[info.name] = [DescribedPack(*row, summary=b"") for row in rows]
        except ObjectMissingError:
            raise
        except (DamageError, UnknownFormatError) as error:
            # A version that is not known may be a later one, unless no one has verified the object.
            if isinstance(error, UnknownFormatError) and info.name not in unverified:
                raise
            damaged.append(Damaged("index", info.name, str(error)))
    # Those of shared packs first: the owner SHARED is all zeros.
    current = sorted(one for one in sound if one not in superseded)
    return SoundObjects(marked, current, contested_owners(store, claims), damaged, verified)


def _sound_footers(
    repository: Repository,
    objects: SoundObjects,
    names: list[str],
    damaged: list[Damaged],
    selection: BlockSelection | None,
) -> Iterator[PackFooter]:
    """The footers of index objects that count; fills in their names."""
    for owner, name in objects.current:
        try:
            footers = read_index_object(
                repository.store, repository.key, name, chunks=True, selection=selection
            ).footers
        except ObjectMissingError:
            raise
        except DamageError as error:
            damaged.append(Damaged("index", name, str(error)))
        else:
            names.append(name)
            for footer in footers:
                if objects.contested.get(footer.pack_id, owner) == owner:
                    yield footer
