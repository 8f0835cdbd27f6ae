"""Backups of real trees by several clients, and under whose keys the content of each file is."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from strongroom.base.progress import NullProgress
from strongroom.engine.backup.backup import back_up
from strongroom.engine.backup.options import BackupOptions, Tuning
from strongroom.engine.backup.report import BackupReport
from strongroom.engine.content.digests import CHUNK_ID_SIZE, chunk_id, is_object_name
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.packs import KIND_LISTING, BlockEntry, read_footer
from strongroom.engine.repository.repository import Repository
from strongroom.engine.rows.views import views
from strongroom.engine.sources.registry import open_source
from strongroom.sources.source import Source, SourceRequest


class StoredFile(NamedTuple):
    """Chunks of a file by id and by length in bytes; offered: the ids are under the common keys."""

    offered: bool
    chunk_ids: tuple[bytes, ...]
    lengths: tuple[int, ...]


class OfferingSite:
    """A repository that several clients write to."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository

    def back_up(
        self,
        *paths: Path | str,
        host: str = "web1",
        below: tuple[str, ...] = (),
        source: Source | None = None,
        shards: int = 1,
        scan_threads: int = 0,
        level: str = "incremental",
    ) -> BackupReport:
        """A backup of paths, or of another source."""
        options = BackupOptions(
            host,
            share_below=below,
            level=level,  # type: ignore[arg-type]
            tuning=Tuning(shards=shards, scan_threads=scan_threads),
        )
        if source is None:
            source = open_source("files", SourceRequest(tuple(os.fsencode(one) for one in paths)))
        return back_up(self.repository, source, options, lambda: nullcontext(NullProgress()))

    def stored(self, backup: BackupReport | str) -> dict[bytes, StoredFile]:
        """What a snapshot has of each file with content, by the file's path from the root.

        backup: that made the snapshot, or the snapshot's id.
        """
        if not isinstance(backup, str):
            assert backup.snapshot is not None
            backup = backup.snapshot.id
        snapshot = self.repository.snapshot(backup)
        repository = self.repository.for_client(snapshot.host)
        keys = repository.writer.client
        entries = {entry.block_id: entry for entry in self.entries(snapshot.owner)}
        reader = repository.reader_of(snapshot, repository.load_index())
        found = {}
        for groups in Listing(snapshot.pages, reader).pages():
            for view in (view for rows in groups for view in views(rows) if view.parts):
                ids = []
                lengths = []
                kinds = set()
                for block, slot in view.parts:
                    an_id = entries[block].chunk_ids[CHUNK_ID_SIZE * slot :][:CHUNK_ID_SIZE]
                    data = bytes(reader.chunk(block, slot))
                    offered = entries[block].offered
                    # The flag says what the id is.
                    assert an_id == chunk_id(keys.content(offered=offered).chunk_key, data)
                    ids.append(an_id)
                    lengths.append(len(data))
                    kinds.add(offered)
                assert len(kinds) == 1, view.path
                found[b"/" + view.path] = StoredFile(kinds.pop(), tuple(ids), tuple(lengths))
        return found

    def offered(self, backup: BackupReport | str) -> set[bytes]:
        """The paths of files that a snapshot offers."""
        return {path for path, one in self.stored(backup).items() if one.offered}

    def entries(self, owner: bytes, *, listings: bool = False) -> list[BlockEntry]:
        """The blocks in the footers of a client's packs."""
        store, key = self.repository.store, self.repository.key
        found = []
        for info in store.list("packs"):
            if is_object_name(info.name):
                footer = read_footer(store, key, bytes.fromhex(info.name))
                if footer.owner == owner and (footer.kind == KIND_LISTING) == listings:
                    found += footer.blocks
        return found
