"""A writer that keeps every rule of the repository, in steps that a test can interleave.

It stores files given as a dictionary, deduplicates against what the repository holds, and batches
small chunks into blocks of CHUNKS_OF_A_BLOCK, so that a few files make packs of many blocks.
"""

from __future__ import annotations

import os
import random
from array import array
from collections.abc import Mapping
from typing import Final

from kit.kept import loaded_table
from strongroom.base.errors import DamageError
from strongroom.engine.content.codecs import AUTO, Compressor
from strongroom.engine.content.digests import block_id, chunk_id, ids_and_lengths
from strongroom.engine.prune.prune_options import PruneOptions
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.keys.roles import RestoreKey
from strongroom.engine.repository.keys.wrapping import Argon2Cost
from strongroom.engine.repository.listing.page import encode_page
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.packs import KIND_DATA, KIND_LISTING, PackFooter
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import PageReference, Snapshot, Totals
from strongroom.engine.rows.rows import UNREADABLE, new_rows
from strongroom.engine.rows.views import views
from strongroom.engine.stores.store import Store

CHUNKS_OF_A_BLOCK: Final = 4
DIRECTORY: Final = b"data"
CHEAP: Final = Argon2Cost(1024, 1, 1)
PASSPHRASE: Final = b"passphrase"
HOST: Final = "host"
# A prune that leaves nothing over, whatever is new.
THOROUGH: Final = PruneOptions(
    repack_below=1.0, max_unused=0.0, grace_seconds=0.0, spare_seconds=-1e6, threads=1
)

Files = dict[bytes, bytes]


def files(*numbers: int) -> Files:
    """Small ones, each of other content."""
    return {b"file%02d" % number: random.Random(number).randbytes(300) for number in numbers}


def new_repository(store: Store, passphrase: bytes = PASSPHRASE, host: str = HOST) -> Repository:
    """A repository whose passphrase costs next to nothing, for writing as a client."""
    return Repository.create(store, passphrase, cost=CHEAP).for_client(host)


class TinyBackup:
    """One backup: `store` any number of times, then `commit` or `abandon`."""

    def __init__(self, repository: Repository, host: str | None = None) -> None:
        """As the client of the repository, or as another."""
        if host is not None:
            repository = repository.for_client(host)
        self._repository = repository
        self._keys = repository.writer.client.own
        self._lease = repository.lease(HOST, os.getpid(), "backup")
        self._table = loaded_table(repository)
        self._compressor = Compressor(AUTO)
        self._references: dict[bytes, tuple[bytes, int, int]] = {}
        self._footers: list[PackFooter] = []
        self.new_chunks = 0

    def store(self, files: Mapping[bytes, bytes], *, offered: bool = False) -> None:
        """Store the content of files, in its own pack unless nothing is new."""
        keys = self._repository.writer.client.content(offered=offered)
        fresh: list[tuple[bytes, bytes]] = []
        places: dict[bytes, list[bytes]] = {}
        for name, data in files.items():
            an_id = chunk_id(keys.chunk_key, data)
            known = self._table.claim(an_id).get(0)
            if known is not None:
                self._references[name] = (*known, len(data))
            else:
                if an_id not in places:
                    fresh.append((an_id, data))
                places.setdefault(an_id, []).append(name)
        self.new_chunks += len(fresh)
        if not fresh:
            return
        pack = self._repository.new_pack(KIND_DATA)
        for start in range(0, len(fresh), CHUNKS_OF_A_BLOCK):
            batch = fresh[start : start + CHUNKS_OF_A_BLOCK]
            ids = b"".join(an_id for an_id, _ in batch)
            lengths = array("I", [len(data) for _, data in batch])
            block = block_id(keys.block_key, ids_and_lengths(ids, lengths))
            raw = b"".join(data for _, data in batch)
            codec, stored = self._compressor.compress(raw)
            pack.add(block, ids, lengths, codec, stored, len(raw), offered=offered)
            self._table.add(block, ids)
            for slot, (an_id, data) in enumerate(batch):
                for name in places[an_id]:
                    self._references[name] = (block, slot, len(data))
        self._footers.append(pack.finish())

    def refer(self, name: bytes, block: bytes, slot: int, size: int) -> None:
        """Add a file whose content is said to be in a block, as an attacker may say of any."""
        self._references[name] = (block, slot, size)

    def checkpoint(self) -> None:
        """Make what was stored known to others."""
        if self._footers:
            self._repository.write_index(self._footers)
            self._footers = []

    def commit(self, tags: tuple[str, ...] = (), job: str = "", *, start_ns: int = 0) -> Snapshot:
        """Write listing, index and snapshot; LeaseError when the lease has ended."""
        try:
            names = sorted(self._references)
            stats = array("q")
            for name in names:
                size = self._references[name][2]
                stats.extend((0o100644, 0, 0, size, 10**18, 10**18, 1, 65, 1, 0))
            rows = new_rows(DIRECTORY, names, stats)
            for number, name in enumerate(names):
                block, slot, _ = self._references[name]
                rows.part_counts[number] = 1
                rows.part_blocks += block
                rows.part_slots.append(slot)
            pages: tuple[PageReference, ...] = ()
            totals = Totals(
                files=len(names),
                content_bytes=sum(self._references[name][2] for name in names),
            )
            if names:
                pages = (self._store_page(encode_page([rows]), names[0], totals),)
            self.checkpoint()
            made = Snapshot(
                host="",
                job=job,
                paths=(DIRECTORY,),
                tags=tags,
                start_ns=start_ns,
                end_ns=start_ns,
                totals=totals,
                pages=pages,
            )
            return self._repository.commit(made, self._lease)
        finally:
            self._lease.end()

    def abandon(self) -> None:
        """Stop without committing, as a job does that fails."""
        self._lease.end()

    def _store_page(self, raw: bytes, first_name: bytes, totals: Totals) -> PageReference:
        an_id = chunk_id(self._keys.chunk_key, raw)
        length = len(raw).to_bytes(4, "little")
        block = block_id(self._keys.block_key, ids_and_lengths(an_id, length))
        pack = self._repository.new_pack(KIND_LISTING)
        codec, stored = self._compressor.compress(raw)
        pack.add(block, an_id, [len(raw)], codec, stored, len(raw))
        self._footers.append(pack.finish())
        return PageReference(DIRECTORY, first_name, block, totals.files, totals.content_bytes)


def back_up(
    repository: Repository, files: Mapping[bytes, bytes], host: str | None = None
) -> Snapshot:
    """All steps at once."""
    backup = TinyBackup(repository, host)
    backup.store(files)
    return backup.commit()


def read_back(
    repository: Repository, snapshot_id: str, indexes: dict[bytes, Index] | None = None
) -> Files:
    """The files of a snapshot; rows that are marked unreadable are left out. DamageError.

    `indexes`: those that were loaded, by owner, where nothing changes between several snapshots.
    """
    if isinstance(repository.key, RestoreKey):
        repository = repository.for_all_clients()
    snapshot = repository.snapshot(snapshot_id)
    indexes = {} if indexes is None else indexes
    if snapshot.owner not in indexes:
        indexes[snapshot.owner] = repository.load_index(owner=snapshot.owner)
    reader = repository.reader_of(snapshot, indexes[snapshot.owner])
    files: Files = {}
    for groups in Listing(snapshot.pages, reader).pages():
        for rows in groups:
            for view in views(rows):
                data = b"".join(bytes(reader.chunk(block, slot)) for block, slot in view.parts)
                if view.state == UNREADABLE:
                    continue
                if len(data) != view.size:
                    raise DamageError(f"{view.name!r} has {len(data)} bytes, not {view.size}")
                files[view.name] = data
    return files
