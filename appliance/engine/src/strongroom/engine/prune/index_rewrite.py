"""Rewrites index objects: without packs to be removed, and fewer of them.

The readable index never shrinks: an object is deleted only after all that replaces it is durable,
and the last new object of each owner names all of that owner that are replaced. Concurrent
rewrites would restore each other's removed packs, so the caller holds the sweep lease.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from strongroom.base.errors import DamageError, ObjectMissingError, UnknownFormatError
from strongroom.engine.content.digests import is_object_name
from strongroom.engine.repository.index.objects import (
    read_index_head,
    read_index_heads,
    read_index_object,
    write_index_object,
)
from strongroom.engine.repository.packs import PackFooter, read_footer
from strongroom.engine.stores.at_once import delete_each

if TYPE_CHECKING:
    from strongroom.engine.repository.index.index import Index
    from strongroom.engine.repository.repository import Repository

# Chunks that wait to be written, of all owners together: 28 bytes each.
_OBJECT_CHUNKS: Final = 2_000_000
_SMALL_OBJECT_BYTES: Final = 4 << 20
_MOST_SMALL_OBJECTS: Final = 16


def rewrite_index(repository: Repository, index: Index, without: Collection[bytes]) -> None:
    """Drop the packs `without` from the index, and join small objects when there are many.

    `index` must have been loaded while the sweep lease was held.
    """
    store, unverified = repository.store, repository.store.unverified("index")
    sizes = {info.name: info.size_bytes for info in store.list("index")}
    known = set(index.object_names)
    # Unverified objects are not merged into trusted ones. They may still name removed packs.
    judged = {
        name
        for name in known - unverified
        if without or sizes.get(name, _SMALL_OBJECT_BYTES) < _SMALL_OBJECT_BYTES
    }
    # Also superseded objects not deleted yet: their content must never be used again.
    leftovers = sizes.keys() & set(index.superseded_names)
    owners: dict[str, bytes] = {}
    affected: set[str] = set()
    wanted = {name: sizes.get(name, 0) for name in sorted(judged | leftovers)}
    for name, head in read_index_heads(store, wanted):
        if not isinstance(head, Exception):
            owners[name] = head.owner
        elif isinstance(head, DamageError | UnknownFormatError):
            owners[name] = b""
        elif not isinstance(head, ObjectMissingError):
            raise head
        if without and name in judged:
            if isinstance(head, Exception):
                raise head
            found = read_index_object(store, repository.key, name, chunks=False, head=head)
            if any(footer.pack_id in without for footer in found.footers):
                affected.add(name)
    affected |= _small_objects(owners, {name for name in judged if name in sizes}, sizes)
    replaced = {name: owners[name] for name in affected | leftovers if name in owners}
    if affected:
        footers = (
            footer
            for name in sorted(affected)
            for footer in read_index_object(
                repository.store, repository.key, name, chunks=True
            ).footers
        )
        _write(repository, footers, without, replaced)
    _delete(repository, replaced)


def rebuild_index(
    repository: Repository,
    without: Collection[bytes],
    damaged: Collection[str],
    keep_alive: Callable[[], None],
) -> None:
    """Rebuild the whole index from the footers of the packs in the store.

    Packs whose footers can't be read are left out; so are those `without`. Replaces all existing
    index objects, `damaged` ones too. Calls `keep_alive` once a pack.
    """
    store = repository.store
    replaced = _owners(repository, {info.name for info in store.list("index")} | set(damaged))

    unverified = store.unverified("packs")

    def footers() -> Iterator[PackFooter]:
        for info in store.list("packs"):
            keep_alive()
            if not is_object_name(info.name) or bytes.fromhex(info.name) in without:
                continue
            try:
                yield read_footer(store, repository.key, bytes.fromhex(info.name))
            except DamageError:
                continue
            except UnknownFormatError:
                # The index may hold what only a later version can read again from the pack.
                if info.name not in unverified:
                    raise

    _write(repository, footers(), without, replaced)
    _delete(repository, replaced)


def _delete(repository: Repository, replaced: Collection[str]) -> None:
    for _, error in delete_each(repository.store, "index", sorted(replaced)):
        if error is not None:
            raise error


def _write(
    repository: Repository,
    footers: Iterable[PackFooter],
    without: Collection[bytes],
    replaced: Mapping[str, bytes],
) -> None:
    """Write index objects for packs; the last one of each owner names all that are replaced.

    replaced: owners by name, b"" for an object that does not say it.
    """
    kept: dict[bytes, list[PackFooter]] = {}
    # By owner too: a false claim of one client takes no pack from another's index.
    written: set[tuple[bytes, bytes]] = set()
    chunks: dict[bytes, int] = {}
    for footer in footers:
        owner, pack_id = footer.owner, footer.pack_id
        if pack_id in without or (owner, pack_id) in written:
            continue
        written.add((owner, pack_id))
        kept.setdefault(owner, []).append(footer)
        chunks[owner] = chunks.get(owner, 0) + footer.columns.chunk_count
        if sum(chunks.values()) >= _OBJECT_CHUNKS:
            most = max(chunks, key=lambda one: chunks[one])
            _write_object(repository, most, kept.pop(most), ())
            del chunks[most]
    for owner in sorted(kept.keys() | set(replaced.values()) - {b""}):
        names = sorted(name for name, whose in replaced.items() if whose == owner)
        _write_object(repository, owner, kept.get(owner, []), names)
    repository.store.sync()


def _write_object(
    repository: Repository, owner: bytes, footers: Sequence[PackFooter], replaced: Sequence[str]
) -> None:
    write_index_object(
        repository.store, repository.key, owner, footers, replaced, repository.cipher
    )


def _owners(repository: Repository, names: Iterable[str]) -> dict[str, bytes]:
    """The owner of each index object, b"" where it does not say it."""
    owners = {}
    for name in names:
        try:
            owners[name] = read_index_head(repository.store, name).owner
        except ObjectMissingError:
            continue
        except (DamageError, UnknownFormatError):
            owners[name] = b""
    return owners


def _small_objects(
    owners: Mapping[str, bytes], names: Iterable[str], sizes: Mapping[str, int]
) -> set[str]:
    """Objects that are joined: those of owners who have many small ones."""
    by_owner: dict[bytes, list[str]] = {}
    for name in names:
        if name in owners and sizes[name] < _SMALL_OBJECT_BYTES:
            by_owner.setdefault(owners[name], []).append(name)
    many = [mine for mine in by_owner.values() if len(mine) > _MOST_SMALL_OBJECTS]
    return {name for mine in many for name in mine}
