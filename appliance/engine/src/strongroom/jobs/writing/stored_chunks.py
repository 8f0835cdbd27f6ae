"""What a new backup may refer to: packs in the index, and packs of interrupted jobs.

Packs marked by a prune do not count, nor do indexed packs that are missing or truncated. Create it
after the job's lease: packs marked later are kept until that lease ends.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from strongroom.content.digests import is_object_name
from strongroom.errors import DamageError, UnknownFormatError
from strongroom.repo.index.chunk_table import ChunkTable
from strongroom.repo.packs import KIND_DATA, PackFooter, read_footer, read_owner
from strongroom.repo.tombstones import read_tombstones

if TYPE_CHECKING:
    from strongroom.repo.repository import Repository


class StoredChunks:
    """`index`: what the client may refer to. `orphans`: its packs that no index object names yet.

    The job that uses orphans writes them into its index.
    """

    def __init__(self, repository: Repository) -> None:
        """Raises DamageError, StoreError."""
        self._repository = repository
        self.index = repository.load_index()
        # What snapshots of the client may refer to.
        self.blocks = self.index.of_client(repository.writer.client_id)
        self.orphans = self._find_orphans()
        for footer in self.orphans:
            self.index.add(footer)

    def load_table(self) -> ChunkTable:
        """The chunks of data packs. Raises DamageError, StoreError."""
        whole = self._repository.load_index(chunks=True)
        # Objects added or marked since the first load do not count: our lease is older.
        whole.exclude([pack.pack_id for pack in whole.packs() if not self._is_usable(pack.pack_id)])
        table = ChunkTable.load(whole)
        for footer in self.orphans:
            if footer.kind == KIND_DATA:
                table.add_columns([footer.columns])
        return table

    def _find_orphans(self) -> list[PackFooter]:
        """Packs that a job stored but never indexed, because it was interrupted or still runs.

        Packs marked by a prune are not included, and damaged ones are left to `check`.
        """
        store, key = self._repository.store, self._repository.key
        doomed = {
            pack_id for tombstone in read_tombstones(store, key) for pack_id in tombstone.pack_ids
        }
        footers = []
        present = {info.name: info.size_bytes for info in store.list("packs")}
        # Foreign files are not packs.
        ids = (bytes.fromhex(name) for name in sorted(present) if is_object_name(name))
        for pack_id in ids:
            if self.index.pack(pack_id) is None and pack_id not in doomed:
                # Those of other clients are none of ours, and shared ones are indexed at once.
                with contextlib.suppress(DamageError, UnknownFormatError):
                    if read_owner(store, pack_id) == self._repository.writer.client_id:
                        footers.append(read_footer(store, key, pack_id))
        # After a power failure an index written early may name packs that were lost or truncated.
        # Their content is stored again: nothing refers to a pack that is missing or differs from
        # what was written.
        self.index.exclude(
            [
                pack.pack_id
                for pack in self.index.packs()
                if present.get(pack.pack_id.hex()) != pack.size_bytes
            ]
        )
        return footers

    def _is_usable(self, pack_id: bytes) -> bool:
        pack = self.index.pack(pack_id)
        return pack is not None and not pack.marked
