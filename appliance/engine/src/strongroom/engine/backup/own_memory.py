"""What a machine remembers of its backups from one to the next, in its cache folder.

The newest snapshot known, so that a store that was set back to an earlier day is noticed; and for a
key that cannot read, the listings that the next backup compares with. Without either a backup is
the same: what cannot be read or written of them is only a warning.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from strongroom.base.errors import ObjectMissingError
from strongroom.base.printable import printable
from strongroom.engine.backup.options import BackupOptions
from strongroom.engine.backup.parent import ParentListing
from strongroom.engine.backup.parent_cache import ListingKeeper, ParentCache
from strongroom.engine.repository.newest_known import NewestKnown
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot


class OwnMemory:
    """Of one backup."""

    def __init__(
        self, repository: Repository, options: BackupOptions, warn: Callable[[str], None]
    ) -> None:
        self._repository = repository
        self._options = options
        self._warn = warn
        self._newest: NewestKnown | None = None
        self.cache: ParentCache | None = None
        if options.cache_folder is not None:
            try:
                self._newest = NewestKnown(options.cache_folder, repository.config.id)
            except OSError as error:
                self._warn_of_newest(error)

    def is_newest_gone(self) -> bool:
        """Whether the store does not have the newest snapshot known; spares listing all."""
        mine = self._repository.writer.client_id
        known = "" if self._newest is None else self._newest.known(mine)
        if not known:
            return False
        try:
            self._repository.store.info("snapshots", known)
        except ObjectMissingError:
            return True
        return False

    def warn_if_behind(self, snapshots: Sequence[Snapshot], unread: set[str]) -> None:
        """Warn where the store shows less of this client than is known.

        snapshots: all that it shows. unread: ids of those that cannot be read, of which it was
        reported already.
        """
        if self._newest is None:
            return
        mine = self._repository.writer.client_id
        for one in self._newest.behind(snapshots):
            if one.owner == mine and one.snapshot_id not in unread:
                self._warn(one.text())

    def open_cache(self, paths: tuple[bytes, ...]) -> None:
        """Open the cache of listings of backups of `paths`, where the key cannot read them."""
        options = self._options
        if options.cache_folder is None or self._repository.key.can_read:
            return
        try:
            self.cache = ParentCache.open(
                options.cache_folder, self._repository, options.host, options.job, paths
            )
        except OSError as error:
            self._warn_of_cache(error)

    @contextlib.contextmanager
    def keeper(self, parent: ParentListing | None) -> Iterator[ListingKeeper | None]:
        """Keeps the new listing for the next backup, where there is a cache."""
        keeper = None
        if self.cache is not None and not self._options.dry_run:
            try:
                before = None if parent is None else parent.cached
                keeper = self.cache.keeper(self._warn, before)
            except OSError as error:
                self._warn_of_cache(error)
        try:
            yield keeper
        finally:
            if keeper is not None:
                keeper.abort()

    def note(
        self, snapshot: Snapshot, keeper: ListingKeeper | None, parent: ParentListing | None
    ) -> None:
        """The snapshot is stored: remember it, and publish its listing."""
        if keeper is not None and self.cache is not None:
            self.cache.keep(keeper, snapshot, had_parent=parent is not None)
        if self._newest is not None:
            try:
                self._newest.note([snapshot])
            except OSError as error:
                self._warn_of_newest(error)

    def _warn_of_newest(self, error: OSError) -> None:
        self._warn(
            f"the newest snapshot is not remembered, so a store that is set back is not noticed: "
            f"{_reason(error)}"
        )

    def _warn_of_cache(self, error: OSError) -> None:
        self._warn(f"there is no cache, so every backup reads everything: {_reason(error)}")


def _reason(error: OSError) -> str:
    where = f"{printable(error.filename)}: " if error.filename else ""
    return where + (error.strerror or str(error))
