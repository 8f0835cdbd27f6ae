"""A repository as a read-only file system: attributes, names, content, by path.

Independent of FUSE: paths and names are bytes, errors are OSError. Paths have no leading or
trailing slash, b"" is the root.

The root of a snapshot shows generated attributes, not those of the source's root: listing
thousands of snapshots must not open each.

Inode numbers: a row's is its place in the snapshot, so that a program that reads files in inode
order (cp, tar, find) reads the repository in the order in which it is stored. All names of a
hard-linked file have one number. Numbers of one mount never collide.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, NamedTuple, Protocol, TypeVar

from blake3 import blake3

from strongroom.base.errors import ObjectMissingError, StrongroomError
from strongroom.engine.inspect.file_content import FileContent
from strongroom.engine.inspect.row_lookup import RowLookup, Slice
from strongroom.engine.mount.names import Folder, Inside, Link, Place
from strongroom.engine.mount.repository import ClientContent, MountedRepository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.rows.rows import UNREADABLE
from strongroom.engine.rows.views import RowView
from strongroom.engine.scan.attributes import decode_xattrs

# Open directories of a mounted repository: their entries from any offset on.
#
# An offset is the number of entries before it: 0 is `.`, 1 is `..`, the names follow. For a
# directory of a snapshot a handle stores only where each of its slices began, so that a directory
# of millions of names takes no memory and reading resumes where it stopped.

_DOTS: Final = (b".", b"..")


class Entry(NamedTuple):
    """A name in a directory; `next_offset` is where reading continues after it."""

    name: bytes
    mode: int
    inode: int
    next_offset: int


class DirectoryHandle(Protocol):
    """An open directory."""

    def entries(self, offset: int) -> Iterator[Entry]:
        """The entries from `offset` on."""


class FolderHandle:
    """A directory whose names are all known."""

    def __init__(self, names: Sequence[tuple[bytes, int, int]]) -> None:
        """`names`: (name, mode, inode) each."""
        self._names = [(name, stat.S_IFDIR, 0) for name in _DOTS] + list(names)

    def entries(self, offset: int) -> Iterator[Entry]:
        """The entries from `offset` on."""
        for number, (name, mode, inode) in enumerate(self._names[offset:], offset + 1):
            yield Entry(name, mode, inode, number)


class RowsHandle:
    """A directory of a snapshot."""

    def __init__(
        self, lookup: RowLookup, path: bytes, inode_of: Callable[[Slice, int], int]
    ) -> None:
        self._lookup = lookup
        self._path = path
        self._inode_of = inode_of
        self._positions = [0]
        self._first_names = [b""]

    def entries(self, offset: int) -> Iterator[Entry]:
        """The entries from `offset` on. Raises DamageError."""
        for number, name in enumerate(_DOTS[offset:], offset + 1):
            yield Entry(name, stat.S_IFDIR, 0, number)
        position = max(offset - len(_DOTS), 0)
        known = bisect_right(self._positions, position) - 1
        at = self._positions[known]
        for piece in self._lookup.directory_from(self._path, self._first_names[known]):
            if at > self._positions[-1]:
                self._positions.append(at)
                self._first_names.append(piece.names[0])
            for row in range(max(0, position - at), len(piece.names)):
                # The root's own row has no name.
                if piece.names[row]:
                    yield Entry(
                        piece.names[row],
                        piece.mode(row),
                        self._inode_of(piece, row),
                        at + row + 1 + len(_DOTS),
                    )
            at += len(piece.names)


Attributes = dict[str, int]
_Handle = TypeVar("_Handle")

_FOLDER_MODE: Final = stat.S_IFDIR | 0o555
_LINK_MODE: Final = stat.S_IFLNK | 0o777
_HARD_LINK_INODE: Final = 1 << 62
_FOLDER_INODE: Final = 1 << 61
_INODE_MASK: Final = (1 << 60) - 1
_ORDINAL_BITS: Final = 40
_SNAPSHOT_NUMBERS: Final = 1 << 20
_BLOCK_BYTES: Final = 512
_PAIR: Final = struct.Struct("<qq")


class MountedFiles:
    """The files of a mounted repository; every method is safe from any thread.

    `report(text)` gets damage and store failures, which the reader sees as EIO.
    """

    def __init__(self, repository: MountedRepository, report: Callable[[str], None]) -> None:
        self._repository = repository
        self._report = report
        self._lock = threading.Lock()
        self._snapshot_numbers: dict[str, int] = {}
        self._taken_numbers: set[int] = set()
        self._next_handle = 1
        self._directories: dict[int, DirectoryHandle] = {}
        self._files: dict[int, FileContent] = {}

    def attributes(self, path: bytes) -> Attributes:
        """The stat fields of a path; times in ns."""
        with self._failures():
            place = self._place(path)
            if isinstance(place, Link):
                return _link_attributes(path, place)
            if isinstance(place, Folder):
                return _folder_attributes(path, place.time_ns)
            if not place.path:
                return _folder_attributes(path, place.snapshot.start_ns)
            row, ordinal = self._find(place)
            return _row_attributes(row, self._row_inode(place.snapshot, row, ordinal))

    def link_target(self, path: bytes) -> bytes:
        """Where a symbolic link points to."""
        with self._failures():
            place = self._place(path)
            if isinstance(place, Link):
                return place.target
            row = self._row(path)
            if row is None or not stat.S_ISLNK(row.mode):
                raise OSError(errno.EINVAL, "not a symbolic link")
            return row.target

    def xattrs(self, path: bytes) -> dict[bytes, bytes]:
        """The extended attributes of a path, ACLs among them."""
        with self._failures():
            row = self._row(path)
            return {} if row is None else dict(decode_xattrs(row.xattrs))

    def flags(self, path: bytes) -> int:
        """The chattr flags of a path."""
        with self._failures():
            row = self._row(path)
            return 0 if row is None else row.flags

    def open_directory(self, path: bytes) -> int:
        """A handle for `entries`."""
        with self._failures():
            place = self._place(path)
            if isinstance(place, Folder):
                return self._keep(self._directories, _folder_handle(path, place))
            if isinstance(place, Link):
                raise OSError(errno.ENOTDIR, "a link")
            if place.path:
                row, _ = self._find(place)
                if not stat.S_ISDIR(row.mode):
                    raise OSError(errno.ENOTDIR, "not a directory")
                if row.state == UNREADABLE:
                    raise OSError(errno.EIO, "the backup could not list this folder")
            lookup = self._repository.rows(place.snapshot)
            snapshot = place.snapshot
            return self._keep(
                self._directories,
                RowsHandle(
                    lookup, place.path, lambda piece, row: self._inode_in(snapshot, piece, row)
                ),
            )

    def entries(self, handle: int, offset: int) -> Iterator[Entry]:
        """The entries of an open directory from `offset` on."""
        with self._failures():
            yield from self._directories[handle].entries(offset)

    def close_directory(self, handle: int) -> None:
        """Close an open directory."""
        with self._lock:
            del self._directories[handle]

    def open_file(self, path: bytes) -> int:
        """A handle for reading a regular file."""
        with self._failures():
            row = self._row(path)
            if row is None or not stat.S_ISREG(row.mode):
                raise OSError(errno.EINVAL, "not a regular file")
            if row.state == UNREADABLE:
                raise OSError(errno.EIO, "the backup could not read this file")
            return self._keep(self._files, FileContent(row, self._content(path)))

    def _content(self, path: bytes) -> ClientContent:
        """The content of the snapshot that a path leads into."""
        place = self._repository.names().place(path)
        assert isinstance(place, Inside)  # it has a row
        return ClientContent(self._repository, place.snapshot.owner)

    def read(self, handle: int, offset: int, size: int) -> bytes:
        """Bytes of an open file, fewer than `size` only at its end."""
        with self._failures():
            return self._files[handle].read(offset, size)

    def seek(self, handle: int, offset: int, whence: int) -> int:
        """The next data (os.SEEK_DATA) or hole (os.SEEK_HOLE) of an open file."""
        content = self._files[handle]
        if not 0 <= offset < content.size:
            raise OSError(errno.ENXIO, "beyond the end")
        if whence == os.SEEK_HOLE:
            return content.seek_hole(offset)
        place = content.seek_data(offset)
        if whence != os.SEEK_DATA or place is None:
            raise OSError(errno.ENXIO, "no more data")
        return place

    def close_file(self, handle: int) -> None:
        """Close an open file."""
        with self._lock:
            del self._files[handle]

    def stored_bytes(self) -> int:
        """Size of the repository's packs."""
        return self._repository.stored_bytes()

    def _failures(self) -> _Failures:
        return _Failures(self._report)

    def _place(self, path: bytes) -> Place:
        place = self._repository.names().place(path)
        if place is None:
            raise OSError(errno.ENOENT, "no such name")
        return place

    def _find(self, place: Inside) -> tuple[RowView, int]:
        """The row at a place and its ordinal. Raises OSError (ENOENT) where there is none."""
        found = self._repository.rows(place.snapshot).find(place.path)
        if found is None:
            raise OSError(errno.ENOENT, "no such name")
        return found

    def _row(self, path: bytes) -> RowView | None:
        """The row of a path, None for names above the snapshots and for their roots."""
        place = self._place(path)
        if isinstance(place, Inside) and place.path:
            return self._find(place)[0]
        return None

    def _keep(self, handles: dict[int, _Handle], handle: _Handle) -> int:
        with self._lock:
            number = self._next_handle
            self._next_handle += 1
            handles[number] = handle
            return number

    def _inode_in(self, snapshot: Snapshot, piece: Slice, row: int) -> int:
        return self._row_inode(snapshot, piece.reader.view(row), piece.first_ordinal + row)

    def _row_inode(self, snapshot: Snapshot, row: RowView, ordinal: int) -> int:
        key = row.hard_link_key
        if key is not None:
            digest = blake3(snapshot.id.encode() + _PAIR.pack(*key)).digest(8)
            return _HARD_LINK_INODE | (int.from_bytes(digest, "little") & _INODE_MASK)
        return self._snapshot_number(snapshot) << _ORDINAL_BITS | (ordinal + 1)

    def _snapshot_number(self, snapshot: Snapshot) -> int:
        """A unique number for each snapshot, the same in every mount unless two collide."""
        with self._lock:
            number = self._snapshot_numbers.get(snapshot.id)
            if number is None:
                number = int(snapshot.id[:5], 16)
                while number in self._taken_numbers:
                    number = (number + 1) % _SNAPSHOT_NUMBERS
                self._taken_numbers.add(number)
                self._snapshot_numbers[snapshot.id] = number
            return number


class _Failures:
    """Turns our errors into errno values, and reports them."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, StrongroomError):
            self._report(f"[{error.error_id}] {error}")
            number = errno.ESTALE if isinstance(error, ObjectMissingError) else errno.EIO
            raise OSError(number, os.strerror(number)) from error


def _folder_handle(path: bytes, folder: Folder) -> FolderHandle:
    prefix = path + b"/" if path else b""
    return FolderHandle(
        [
            (
                name,
                _LINK_MODE if isinstance(place, Link) else _FOLDER_MODE,
                _name_inode(prefix + name),
            )
            for name, place in folder.names.items()
        ]
    )


def _folder_attributes(path: bytes, time_ns: int) -> Attributes:
    return _attributes(_FOLDER_MODE, _name_inode(path), time_ns)


def _link_attributes(path: bytes, link: Link) -> Attributes:
    attributes = _attributes(_LINK_MODE, _name_inode(path), link.time_ns)
    attributes["st_size"] = len(link.target)
    return attributes


def _attributes(mode: int, inode: int, time_ns: int) -> Attributes:
    return {
        "st_mode": mode,
        "st_ino": inode,
        # A link count of 1 leaves the number of sub-directories open; 2 would mean none.
        "st_nlink": 1,
        "st_mtime": time_ns,
        "st_ctime": time_ns,
        "st_atime": time_ns,
    }


def _row_attributes(row: RowView, inode: int) -> Attributes:
    stored = row.size if row.extents is None else sum(length for _, length in row.extents)
    return {
        "st_mode": row.mode,
        "st_ino": inode,
        "st_nlink": row.link_count,
        "st_uid": row.uid,
        "st_gid": row.gid,
        "st_rdev": row.rdev,
        "st_size": row.size,
        "st_blocks": -(-stored // _BLOCK_BYTES) if stat.S_ISREG(row.mode) else 0,
        "st_blksize": 4096,
        "st_mtime": row.mtime_ns,
        "st_ctime": row.ctime_ns,
        "st_atime": row.mtime_ns,
    }


def _name_inode(path: bytes) -> int:
    digest = int.from_bytes(blake3(path).digest(8), "little")
    return _FOLDER_INODE | (digest & _INODE_MASK)
