"""Read-only operations on snapshots and their files. See `director` for the errors raised."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from strongroom.base.errors import StrongroomError
from strongroom.director.catalog.clients import RecordedKind, names_of_snapshots
from strongroom.director.catalog.copies import other_copies, restorable
from strongroom.director.catalog.snapshots import (
    find_snapshots,
    load_snapshot,
    missed_snapshots,
)
from strongroom.director.context import DirectorContext
from strongroom.director.repositories.browsing import SnapshotBrowser
from strongroom.director.results.runs import RunFilter
from strongroom.director.results.snapshots import (
    ANY_FILE,
    File,
    FileChange,
    FilePage,
    FileTraits,
    FoundFiles,
    Snapshot,
    SnapshotFilter,
)
from strongroom.director.runs.retention import with_time_kept

MOST_LISTED: Final = 10_000
_Filter = TypeVar("_Filter", RunFilter, SnapshotFilter)


def bounded_number(limit: int) -> int:
    """A limit of as many as are listed at once."""
    return max(1, min(limit, MOST_LISTED))


def bounded(wanted: _Filter) -> _Filter:
    """The same, of as many as are listed at once."""
    return replace(wanted, limit=bounded_number(wanted.limit), offset=max(0, wanted.offset))


class SnapshotQueries:
    """Answers about snapshots, and what is in them."""

    def __init__(self, context: DirectorContext, browser: SnapshotBrowser) -> None:
        self._context = context
        self._browser = browser

    async def find(self, wanted: SnapshotFilter) -> list[Snapshot]:
        """Snapshots, the newest first."""
        records = await self._context.ask(find_snapshots, bounded(wanted))
        return [with_time_kept(self._context.configuration, record) for record in records]

    async def missed(self) -> list[Snapshot]:
        """The newest of each client and job in a storage, where it is gone and none is newer."""
        records = await self._context.ask(missed_snapshots)
        return [with_time_kept(self._context.configuration, record) for record in records]

    async def get(self, snapshot_id: str) -> Snapshot:
        """One snapshot, by its id or an unambiguous beginning of it; SnapshotNotFoundError."""
        return with_time_kept(self._context.configuration, await self._record(snapshot_id))

    async def restorable(self, snapshot_id: str, storage: str = "") -> Snapshot:
        """The same, or its copy: in a storage, or where the snapshot is gone from its own.

        ConflictError where that storage has neither.
        """
        record = await self._context.ask(restorable, snapshot_id, storage)
        return with_time_kept(self._context.configuration, record)

    async def names(self, kind: RecordedKind) -> list[str]:
        """The clients, or the jobs, that the catalog has snapshots of."""
        return await self._context.ask(names_of_snapshots, kind)

    async def copies(self, record: Snapshot) -> list[Snapshot]:
        """What is the same backup and is there, elsewhere, the newest copy first."""
        return await self._context.ask(other_copies, record)

    async def list_files(
        self, snapshot_id: str, path: bytes = b"", after: bytes = b"", limit: int = 1000
    ) -> FilePage:
        """The entries directly in a directory of a snapshot, from the name after `after`.

        SourceError when the snapshot has no such path.
        """
        record = await self._record(snapshot_id)
        limit = bounded_number(limit)
        return await self._context.with_repository(
            self._browser.list_files, record, path, after, limit
        )

    async def list_below(
        self, snapshot_id: str, path: bytes = b"", limit: int = 1000
    ) -> tuple[File, ...]:
        """The first entries at and below a path of a snapshot, at any depth, in its order.

        SourceError when the snapshot has no such path.
        """
        record = await self._record(snapshot_id)
        limit = bounded_number(limit)
        return await self._context.with_repository(self._browser.list_below, record, path, limit)

    async def followed(self, snapshot_id: str, paths: Sequence[bytes]) -> tuple[bytes, ...]:
        """Absolute paths with links on the way resolved as the snapshot has them.

        Those that it does not have, and all where neither it nor a copy of it can be read now, are
        as given.
        """
        record = await self._record(snapshot_id)
        for one in (record, *await self.copies(record)):
            with suppress(StrongroomError):
                return await self._context.with_repository(self._browser.followed, one, paths)
        return tuple(paths)

    async def compare(
        self, before_id: str, after_id: str, below: bytes = b"", limit: int = 1000, skip: int = 0
    ) -> tuple[FileChange, ...]:
        """Differences between two snapshots of a storage, in listing order, after the first."""
        before, after = await self._record(before_id), await self._record(after_id)
        limit = bounded_number(limit)
        return await self._context.with_repository(
            self._browser.compare, before, after, below, limit, skip
        )

    async def find_files(
        self,
        pattern: bytes,
        snapshots: SnapshotFilter,
        *,
        only: str = "",
        below: bytes = b"",
        ignoring_case: bool = False,
        traits: FileTraits = ANY_FILE,
        limit: int = 1000,
    ) -> FoundFiles:
        """Entries of these snapshots, the newest first, whose name matches a glob.

        only: the id of the one snapshot that is searched instead, "" for none.
        Fails only if no snapshot can be searched; a single failure is a warning.
        """
        if only:
            records = [await self._record(only)]
        else:
            records = await self._context.ask(find_snapshots, bounded(snapshots))
        limit = bounded_number(limit)

        def find() -> FoundFiles:
            return self._browser.find_files(
                records, pattern, below, limit, ignoring_case=ignoring_case, traits=traits
            )

        return await self._context.with_repository(find)

    async def _record(self, beginning: str) -> Snapshot:
        return await self._context.ask(load_snapshot, beginning)
