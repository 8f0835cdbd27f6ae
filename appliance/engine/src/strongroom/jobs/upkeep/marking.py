"""Marks what snapshots use: their listing pages, and the content that those refer to.

Most pages are shared by many snapshots; each is read once, however often snapshots are marked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strongroom.errors import DamageError, ObjectMissingError
from strongroom.repo.index.live_blocks import LiveBlocks
from strongroom.repo.listing.parts import PageParts, decode_parts
from strongroom.repo.snapshots import was_stored_unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strongroom.progress import Progress
    from strongroom.repo.index.index import Index
    from strongroom.repo.repository import Repository

_CACHE_BYTES = 8 << 20


class Marker:
    """Collects what snapshots use in `live`; `mark` again adds snapshots made meanwhile."""

    def __init__(self, repository: Repository, progress: Progress) -> None:
        """KeyRightError with a put key."""
        self._repository = repository
        self._progress = progress
        self._pages: set[bytes] = set()
        self._snapshots: set[str] = set()
        self.live = LiveBlocks()

    def mark(self, names: Iterable[str], index: Index) -> None:
        """Mark the snapshots of these ids; `index` must have been loaded after they were listed.

        DamageError when one of them can't be read or refers to what is not there: nothing may be
        removed then.
        """
        reader = self._repository.block_reader(index, _CACHE_BYTES)
        for name in names:
            if name in self._snapshots:
                continue
            try:
                snapshot = self._repository.snapshot(name)
            except ObjectMissingError:
                # Forgotten since it was listed.
                continue
            except DamageError:
                if was_stored_unreadable(self._repository.store, self._repository.key, name):
                    # Its writer made it so, and alone would have needed what it refers to.
                    continue
                raise
            fresh = [page for page in snapshot.pages if page.block_id not in self._pages]
            ids = list(dict.fromkeys(page.block_id for page in fresh))
            zeros = np.zeros(len(ids), np.int64)
            try:
                pages = PageParts(b"".join(ids), np.arange(len(ids), dtype=np.int64), zeros)
                self.live.mark(pages, index)
                for _, raw in reader.blocks(ids):
                    self.live.mark(decode_parts(raw), index)
            except DamageError as error:
                raise DamageError(f"snapshot {snapshot.short_id}: {error}") from error
            self._progress.add(files=sum(page.row_count for page in fresh))
            self._pages.update(ids)
            self._snapshots.add(name)

    def __len__(self) -> int:
        """Snapshots marked."""
        return len(self._snapshots)
