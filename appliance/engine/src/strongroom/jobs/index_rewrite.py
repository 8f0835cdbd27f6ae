"""Writes index objects anew: without packs that are to go, and fewer of them.

Readers never see less than before: an object is deleted only after all that replaces it is durable,
and the last of the new ones names every object that they replace together. Prunes that rewrite at
the same time would bring back each other's packs, so the caller holds the sweep lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.repo.index_objects import read_index_object

if TYPE_CHECKING:
    from collections.abc import Collection

    from strongroom.repo.index import Index
    from strongroom.repo.packs import PackFooter
    from strongroom.repo.repository import Repository

# Chunks of one index object: 28 bytes each while it is written.
_OBJECT_CHUNKS: Final = 2_000_000
_SMALL_OBJECT_BYTES: Final = 4 << 20
_MOST_SMALL_OBJECTS: Final = 16


def rewrite_index(repository: Repository, index: Index, without: Collection[bytes]) -> None:
    """Drop the packs `without` from the index, and join small objects when there are many.

    `index` must have been loaded while the sweep lease was held.
    """
    affected = set(_small_objects(repository, index))
    for name in index.object_names:
        if name not in affected:
            known = read_index_object(repository.store, repository.key, name, chunks=False)
            if any(footer.pack_id in without for footer in known.footers):
                affected.add(name)
    leftovers = _leftovers(repository, index)
    if affected:
        kept: dict[bytes, PackFooter] = {}
        chunks = 0
        for name in sorted(affected):
            an_object = read_index_object(repository.store, repository.key, name, chunks=True)
            for footer in an_object.footers:
                if footer.pack_id in without or footer.pack_id in kept:
                    continue
                kept[footer.pack_id] = footer
                chunks += footer.columns.chunk_count
                if chunks >= _OBJECT_CHUNKS:
                    repository.write_index(list(kept.values()))
                    kept = {}
                    chunks = 0
        # Leftovers too: deleted or not, what they held must never count again.
        repository.write_index(list(kept.values()), sorted(affected | leftovers))
        repository.store.sync()
    for name in sorted(affected | leftovers):
        repository.store.delete("index", name)


def _small_objects(repository: Repository, index: Index) -> list[str]:
    small = [
        info.name
        for info in repository.store.list("index")
        if info.size_bytes < _SMALL_OBJECT_BYTES and info.name in index.object_names
    ]
    return small if len(small) > _MOST_SMALL_OBJECTS else []


def _leftovers(repository: Repository, index: Index) -> set[str]:
    """Objects that were replaced but not deleted, by a prune that was cut off."""
    superseded = set(index.superseded_names)
    return {info.name for info in repository.store.list("index") if info.name in superseded}
