"""Browses and searches the files of snapshots.

Reading needs the restore key and blocks; call everything here in a thread. Listings are cached for
a while, since a user who opens one folder usually opens the next.
"""

from __future__ import annotations

import logging
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from strongroom.base.errors import (
    DamageError,
    PathNotFoundError,
    SnapshotNotFoundError,
    StoreError,
    StrongroomError,
    UsageError,
)
from strongroom.base.printable import printable
from strongroom.base.quantities import counted
from strongroom.director.repositories.access import Repositories, own_snapshot
from strongroom.director.results.snapshots import (
    ANY_FILE,
    File,
    FileChange,
    FilePage,
    FileTraits,
    FoundFiles,
    Snapshot,
)
from strongroom.engine.inspect.find import Criteria, Finder
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.listing.links import followed
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.rows.rows import STATE_NAMES, kind_name, type_bits
from strongroom.engine.rows.views import RowView, views
from strongroom.engine.scan.attributes import attribute_names

_KEPT_LISTINGS: Final = 4
_MOST_WARNINGS: Final = 20
_CACHE_BYTES: Final = 8 << 20
_log = logging.getLogger(__name__)


class _Open(NamedTuple):
    repository: Repository
    listing: Listing


class SnapshotBrowser:
    """Reads snapshots; safe for threads."""

    def __init__(self, repositories: Repositories) -> None:
        self._repositories = repositories
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Open] = OrderedDict()

    def list_files(self, record: Snapshot, path: bytes, after: bytes, limit: int) -> FilePage:
        """The entries directly in the directory `path`, names above `after`.

        PathNotFoundError where there is no such path.
        """
        try:
            return self._list(self._listing(record), record, path, after, limit)
        except StoreError:
            # A cached connection may have ended meanwhile.
            self._drop(record.id)
            return self._list(self._listing(record), record, path, after, limit)

    def _list(
        self, listing: Listing, record: Snapshot, path: bytes, after: bytes, limit: int
    ) -> FilePage:
        path = path.strip(b"/")
        if path:
            path = followed(listing, path) or path
            row = listing.lookup(path)
            if row is None:
                shown = printable(path)
                raise PathNotFoundError(f"the snapshot has no /{shown}")
            if not stat.S_ISDIR(row.mode):
                return FilePage((entry_of(record.id, row),))
        entries: list[File] = []
        for rows in listing.directory_from(path, after):
            for row in views(rows):
                # The root's own row has no name.
                if not row.name or row.name == after:
                    continue
                if len(entries) == limit:
                    last = entries[-1].path.rpartition(b"/")[2]
                    return FilePage(tuple(entries), last)
                entries.append(entry_of(record.id, row))
        return FilePage(tuple(entries))

    def list_below(self, record: Snapshot, path: bytes, limit: int) -> tuple[File, ...]:
        """The entry `path` itself, and those below it at any depth; PathNotFoundError."""
        path = path.strip(b"/")
        found: list[File] = []
        if path:
            listing = self._listing(record)
            path = followed(listing, path) or path
            row = listing.lookup(path)
            if row is None:
                raise PathNotFoundError(f"the snapshot has no /{printable(path)}")
            found.append(entry_of(record.id, row))
            if not stat.S_ISDIR(row.mode):
                return tuple(found)
        repository = self._repositories.open(record.storage)
        try:
            readers = ClientReaders(repository, repository.kept_index(), _CACHE_BYTES)
            finder = Finder(Criteria(below=path), readers)
            # The root's own row has no name.
            below = (
                entry_of(record.id, one.row)
                for one in finder.search(own_snapshot(repository, record))
                if one.row.name
            )
            found += islice(below, limit - len(found))
            return tuple(found)
        finally:
            repository.close()

    def followed(self, record: Snapshot, paths: Sequence[bytes]) -> tuple[bytes, ...]:
        """Absolute paths with links on the way resolved as the snapshot has them, if it does."""
        listing = self._listing(record)
        found = ((path, followed(listing, path.strip(b"/"))) for path in paths)
        return tuple(path if one is None else b"/" + one for path, one in found)

    def compare(
        self, before: Snapshot, after: Snapshot, below: bytes, limit: int, skip: int = 0
    ) -> tuple[FileChange, ...]:
        """Differences below a directory, `limit` of them after the first `skip`.

        UsageError for snapshots of two storages.
        """
        from strongroom.engine.inspect.diff import SnapshotComparison

        for record in (before, after):
            if record.removed_ns:
                raise SnapshotNotFoundError(f"snapshot {record.id[:8]} was removed")
        if before.storage != after.storage:
            raise UsageError(
                f"snapshots {before.id[:8]} and {after.id[:8]} are in different storages; compare "
                "two of one storage"
            )
        repository = self._repositories.open(before.storage)
        try:
            readers = ClientReaders(repository, repository.kept_index(), _CACHE_BYTES)
            comparison = SnapshotComparison(
                readers, own_snapshot(repository, before), own_snapshot(repository, after)
            )
            folder = below.strip(b"/")
            if folder:
                folder = followed(self._listing(after), folder) or folder
            return tuple(
                FileChange(
                    kind=one.kind,
                    path=b"/" + one.path.lstrip(b"/"),
                    what=one.what,
                    before=None if one.before is None else entry_of(before.id, one.before),
                    after=None if one.after is None else entry_of(after.id, one.after),
                )
                for one in islice(comparison.differences(folder), skip, skip + limit)
            )
        finally:
            repository.close()

    def find_files(
        self,
        records: Iterable[Snapshot],
        pattern: bytes,
        below: bytes,
        limit: int,
        *,
        ignoring_case: bool,
        traits: FileTraits = ANY_FILE,
    ) -> FoundFiles:
        """Entries of snapshots whose name or path matches a glob; UsageError for an invalid one.

        What cannot be searched is left out with a warning, unless every storage fails.
        """
        criteria = Criteria(
            globs=() if ignoring_case else (pattern,),
            globs_ignoring_case=(pattern,) if ignoring_case else (),
            below=below.strip(b"/"),
            formats=frozenset(map(type_bits, filter(None, traits.kinds.split(",")))),
            smallest_bytes=traits.smallest_bytes,
            largest_bytes=traits.largest_bytes,
            earliest_ns=traits.earliest_ns,
            latest_ns=traits.latest_ns,
        )
        search = _Search(criteria, limit)
        by_storage: dict[str, list[Snapshot]] = {}
        for record in records:
            by_storage.setdefault(record.storage, []).append(record)
        failures: list[StrongroomError] = []
        for storage, members in by_storage.items():
            try:
                repository = self._repositories.open(storage)
            except StrongroomError as error:
                failures.append(error)
                search.leave_out(f"{counted(len(members), 'snapshot')} in storage {storage}", error)
                continue
            try:
                search.look_into(repository, members)
            except UsageError:
                raise
            except StrongroomError as error:
                failures.append(error)
                search.leave_out(f"storage {storage}, or part of it,", error)
            finally:
                repository.close()
            if len(search.found) == limit:
                break
        if failures and len(failures) == len(by_storage) and not search.found:
            raise failures[0]
        return search.result()

    def close(self) -> None:
        """Release everything that is kept open."""
        with self._lock:
            kept, self._kept = self._kept, OrderedDict()
        for one in kept.values():
            one.repository.close()

    def _drop(self, snapshot_id: str) -> None:
        with self._lock:
            kept = self._kept.pop(snapshot_id, None)
        if kept is not None:
            kept.repository.close()

    def _listing(self, record: Snapshot) -> Listing:
        if record.removed_ns:
            raise SnapshotNotFoundError(f"snapshot {record.id[:8]} was removed")
        with self._lock:
            kept = self._kept.get(record.id)
            if kept is not None:
                self._kept.move_to_end(record.id)
                return kept.listing
        repository = self._repositories.open(record.storage)
        try:
            snapshot = own_snapshot(repository, record)
            reader = repository.reader_of(snapshot, repository.kept_index(), _CACHE_BYTES)
            listing = Listing.of(snapshot, reader)
        except BaseException:
            repository.close()
            raise
        with self._lock:
            # Closing a repository during a read makes the read fail, not return wrong data.
            self._kept[record.id] = _Open(repository, listing)
            oldest = None
            if len(self._kept) > _KEPT_LISTINGS:
                _, oldest = self._kept.popitem(last=False)
        if oldest is not None:
            oldest.repository.close()
        return listing


class _Search:
    """One search: what was found, and what was left out."""

    def __init__(self, criteria: Criteria, limit: int) -> None:
        self._criteria = criteria
        self._limit = limit
        self._warnings: list[str] = []
        self.found: list[File] = []

    def look_into(self, repository: Repository, records: Iterable[Snapshot]) -> None:
        """Search snapshots of one repository. Raises what keeps it from all of them."""
        index = repository.kept_index()
        finder = Finder(self._criteria, ClientReaders(repository, index, _CACHE_BYTES))
        for record in records:
            try:
                for match in finder.search(own_snapshot(repository, record)):
                    if len(self.found) == self._limit:
                        return
                    self.found.append(entry_of(record.id, match.row))
            except DamageError as error:
                self.leave_out(f"snapshot {record.id[:8]} of {record.client}", error)

    def leave_out(self, what: str, error: StrongroomError) -> None:
        """Continue without it."""
        self._warnings.append(f"{what} was left out: {error}")
        _log.warning("search: %s", self._warnings[-1])

    def result(self) -> FoundFiles:
        """The warnings, limited in number."""
        first_warnings = self._warnings[:_MOST_WARNINGS]
        if more := len(self._warnings) - len(first_warnings):
            first_warnings.append(f"and {more} more; the director's log has them all")
        return FoundFiles(tuple(self.found), tuple(first_warnings))


def entry_of(snapshot_id: str, row: RowView) -> File:
    """A row as the API shows it."""
    return File(
        snapshot=snapshot_id,
        path=b"/" + row.path,
        kind=kind_name(row.mode),
        mode=stat.S_IMODE(row.mode),
        uid=row.uid,
        gid=row.gid,
        size_bytes=row.size,
        modified_ns=row.mtime_ns,
        target=row.target if stat.S_ISLNK(row.mode) else b"",
        state=STATE_NAMES.get(row.state, ""),
        changed_ns=row.ctime_ns,
        inode=row.inode,
        links=row.link_count,
        rdev=row.rdev,
        xattrs=attribute_names(row.xattrs),
        flags=row.flags,
        signature=row.signature.hex() if row.signature.strip(b"\0") else "",
    )
