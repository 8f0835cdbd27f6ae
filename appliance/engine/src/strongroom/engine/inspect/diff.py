"""What differs between two snapshots: a merge of their listings, in listing order.

Where both listings come to the same page (the same block), it holds no difference and is skipped
without being read: comparing two snapshots of a million files costs what changed between them.
Otherwise rows are compared by path. Fields that a restore does not restore or that differ on
every machine are not compared: ctime, inode, device and number of links.
"""

from __future__ import annotations

import stat
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from strongroom.engine.inspect.file_content import FileContent, same_content
from strongroom.engine.inspect.row_lookup import is_below, page_range
from strongroom.engine.repository.client_readers import ClientReaders
from strongroom.engine.repository.listing.page import page_key
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.rows.rows import UNREADABLE
from strongroom.engine.rows.views import RowView, path_key, views
from strongroom.engine.scan.attributes import decode_xattrs

ADDED: Final = "added"
REMOVED: Final = "removed"
MODIFIED: Final = "modified"
METADATA: Final = "metadata"
TYPE: Final = "retyped"

_Key = tuple[bytes, bytes]


class Difference(NamedTuple):
    """One path that differs.

    kind: ADDED, REMOVED, TYPE (another file type), MODIFIED (content or a link's target),
    METADATA (only attributes). before, after: the rows, None where there is none. what: names of
    what differs: content, size, target, device, mode, owner, group, mtime, xattrs, flags, state,
    kind.
    """

    kind: str
    path: bytes
    before: RowView | None
    after: RowView | None
    what: tuple[str, ...] = ()


class _Cursor:
    """A position in a listing: before a page not read yet, or before a row."""

    def __init__(self, snapshot: Snapshot, readers: ClientReaders, below: bytes) -> None:
        pages = self._pages = snapshot.pages
        self._owner = snapshot.owner
        self._listing = Listing.of(snapshot, readers.of(snapshot.owner), 1)
        self._numbers = page_range(pages, below)
        self._below = below
        self._at = -1
        self._rows: Iterator[RowView] = iter(())
        self.row: RowView | None = None
        self.key: _Key | None = None
        self.next_page()

    @property
    def page(self) -> tuple[bytes, bytes, tuple[bytes, ...]] | None:
        """Client and block of the next page, and what is marked on it, if before a page."""
        if self.row is not None:
            return None
        number = self._numbers[self._at]
        return self._owner, self._pages[number].block_id, self._listing.unread_on(number)

    def next_page(self) -> None:
        """Skip the rest of this page."""
        self._at += 1
        self.row = None
        self._rows = iter(())
        if self._at >= len(self._numbers):
            self.key = None
            return
        reference = self._pages[self._numbers[self._at]]
        self.key = page_key(reference.first_directory, reference.first_name)

    def open(self) -> None:
        """Read the next page; its first row below the directory comes next."""
        groups = self._listing.page(self._numbers[self._at])
        self._rows = (
            row for rows in groups if is_below(rows.directory, self._below) for row in views(rows)
        )
        self.next_row()

    def next_row(self) -> None:
        """Move past this row."""
        self.row = next(self._rows, None)
        if self.row is None:
            self.next_page()
        else:
            self.key = page_key(self.row.directory, self.row.name)


class SnapshotComparison:
    """Compares two snapshots of one repository, read with their pages."""

    def __init__(self, readers: ClientReaders, before: Snapshot, after: Snapshot) -> None:
        self._readers = readers
        self._before = before
        self._after = after
        self.pages_skipped = 0
        # What is in a folder that was not listed is neither removed nor added.
        self._unread_before = _keys_of(before.unread)
        self._unread_after = _keys_of(after.unread)

    def differences(self, below: bytes = b"") -> Iterator[Difference]:
        """What differs below a directory, in listing order. Raises DamageError."""
        before = _Cursor(self._before, self._readers, below)
        after = _Cursor(self._after, self._readers, below)
        while before.key is not None or after.key is not None:
            if before.key == after.key:
                yield from self._at_one_key(before, after)
            elif after.key is None or (before.key is not None and before.key < after.key):
                yield from _only(before, REMOVED, self._unread_after)
            else:
                yield from _only(after, ADDED, self._unread_before)

    def _at_one_key(self, before: _Cursor, after: _Cursor) -> Iterator[Difference]:
        if before.page is not None and before.page == after.page:
            self.pages_skipped += 1
            before.next_page()
            after.next_page()
            return
        for cursor in (before, after):
            if cursor.row is None:
                cursor.open()
        if before.row is None or after.row is None or before.key != after.key:
            # A page opened now may begin above the directory asked for.
            return
        difference = self._difference(before.row, after.row)
        if difference is not None:
            yield difference
        before.next_row()
        after.next_row()

    def _difference(self, before: RowView, after: RowView) -> Difference | None:
        if stat.S_IFMT(before.mode) != stat.S_IFMT(after.mode):
            return Difference(TYPE, after.path, before, after, ("kind",))
        what = [
            name
            for name, ours, theirs in (
                ("target", before.target, after.target),
                ("device", before.rdev, after.rdev),
                ("mode", before.mode, after.mode),
                ("owner", before.uid, after.uid),
                ("group", before.gid, after.gid),
                ("mtime", before.mtime_ns, after.mtime_ns),
                ("xattrs", decode_xattrs(before.xattrs), decode_xattrs(after.xattrs)),
                ("flags", before.flags, after.flags),
                ("state", before.state, after.state),
            )
            if ours != theirs
        ]
        if stat.S_ISREG(after.mode):
            what = self._content_differences(before, after) + what
        if not what:
            return None
        modified = {"content", "size", "target", "device"} & set(what)
        return Difference(
            MODIFIED if modified else METADATA, after.path, before, after, tuple(what)
        )

    def _content_differences(self, before: RowView, after: RowView) -> list[str]:
        if before.size != after.size:
            return ["content", "size"]
        is_one_client = self._before.owner == self._after.owner
        if is_one_client and before.parts == after.parts and before.extents == after.extents:
            return []
        if UNREADABLE in (before.state, after.state):
            return ["content"]
        # A chunk may be stored twice: other references may still mean the same bytes.
        same = same_content(
            FileContent(before, self._readers.of(self._before.owner)),
            FileContent(after, self._readers.of(self._after.owner)),
        )
        return [] if same else ["content"]


def _keys_of(paths: tuple[bytes, ...]) -> list[bytes]:
    return sorted(map(path_key, paths))


def _is_in(directory: bytes, folders: list[bytes]) -> bool:
    """Whether a directory is one of `folders`, by their sorted keys, or below one."""
    key = path_key(directory)
    place = bisect_right(folders, key) - 1
    return place >= 0 and (key == folders[place] or key.startswith(folders[place] + b"\0"))


def _only(cursor: _Cursor, kind: str, unread: list[bytes]) -> Iterator[Difference]:
    """The row that only one side has; reads its page first. unread: folders of the other side."""
    if cursor.row is None:
        cursor.open()
        return
    row = cursor.row
    if unread and _is_in(row.directory, unread):
        pass
    elif kind == ADDED:
        yield Difference(kind, row.path, None, row)
    else:
        yield Difference(kind, row.path, row, None)
    cursor.next_row()
