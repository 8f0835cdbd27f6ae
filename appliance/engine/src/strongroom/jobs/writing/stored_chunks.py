"""What a job that adds to a repository may refer to: packs in the index, and packs of jobs cut off.

Packs that a prune is about to remove do not count, nor those that are named but not there or cut
off. Make it after the job's lease: what is marked later is kept until that lease ends.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from strongroom.content.digests import is_object_name
from strongroom.errors import DamageError
from strongroom.repo.index.chunk_table import ChunkTable
from strongroom.repo.packs import KIND_DATA, PackFooter, read_footer
from strongroom.repo.tombstones import read_tombstones

if TYPE_CHECKING:
    from strongroom.repo.repository import Repository


class StoredChunks:
    """`index`: blocks that are there to stay. `orphans`: packs that no index object names yet.

    The job that uses orphans writes them into its index.
    """

    def __init__(self, repository: Repository) -> None:
        """Raises DamageError, StoreError."""
        self._repository = repository
        self.index = repository.load_index()
        self.orphans = self._find_orphans()
        for footer in self.orphans:
            self.index.add(footer)

    def load_table(self) -> ChunkTable:
        """The chunks of data packs. Raises DamageError, StoreError."""
        whole = self._repository.load_index(chunks=True)
        # What was added or marked since the first look does not count: our lease is older.
        whole.exclude([pack.pack_id for pack in whole.packs() if not self._is_usable(pack.pack_id)])
        table = ChunkTable.load(whole)
        for footer in self.orphans:
            if footer.kind == KIND_DATA:
                table.add_columns([footer.columns])
        return table

    def _find_orphans(self) -> list[PackFooter]:
        """Packs that a job stored but never indexed, because it was interrupted or still runs.

        Packs that a prune is about to remove are none, and damaged ones are left to `check`.
        """
        store, key = self._repository.store, self._repository.key
        doomed = {
            pack_id for tombstone in read_tombstones(store, key) for pack_id in tombstone.pack_ids
        }
        footers = []
        present = {info.name: info.size_bytes for info in store.list("packs")}
        # What else somebody put there is no pack.
        ids = (bytes.fromhex(name) for name in sorted(present) if is_object_name(name))
        for pack_id in ids:
            if self.index.pack(pack_id) is None and pack_id not in doomed:
                with contextlib.suppress(DamageError):
                    footers.append(read_footer(store, key, pack_id))
        # An index written early may have outlived its packs, or the ends of them, in a power
        # failure, and whoever lost a pack wants it stored again: nothing refers to a pack that is
        # not there as it was written.
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
