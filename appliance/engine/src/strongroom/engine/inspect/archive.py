"""A folder of a snapshot as a tar archive, written to a stream while it is read.

The archive is of the POSIX format (pax), with times of full precision, numeric owners, extended
attributes (as SCHILY.xattr, which GNU tar and bsdtar restore) and further names of files as hard
links. Holes of sparse files become zeros. Entries are named relative to the folder. Memory grows
only with the number of files that have several names.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Callable
from typing import IO, Final

from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import DamageError
from strongroom.base.printable import printable
from strongroom.engine.inspect.file_content import FileContent, PartReader
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.rows.rows import UNREADABLE
from strongroom.engine.rows.views import RowView, path_key, views
from strongroom.engine.scan.attributes import decode_xattrs

PIECE_BYTES: Final = 1 << 20
_TYPES: Final = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
    stat.S_IFCHR: tarfile.CHRTYPE,
    stat.S_IFBLK: tarfile.BLKTYPE,
}


def write_archive(
    output: IO[bytes],
    listing: Listing,
    path: bytes,
    reader: PartReader,
    left_out: Callable[[bytes, str], None],
) -> None:
    """Write everything below the directory `path` (from the root) as an archive.

    `left_out` gets a path and why it, or an attribute of it, is not in the archive. Raises
    DamageError, after which the archive ends in the middle of a file; and what writing raises.
    """
    with tarfile.open(
        fileobj=output,
        mode="w|",
        format=tarfile.PAX_FORMAT,
        encoding="utf-8",
        errors="surrogateescape",
    ) as archive:
        written = _Archive(archive, path, reader, left_out)
        # Directories that are to come, the next one last: each goes just before what is in it, for
        # tar sets the time of a directory as soon as something beside it follows.
        waiting: list[RowView] = []
        for rows in listing.rows(path):
            here = path_key(rows.directory)
            while waiting and path_key(waiting[-1].path) <= here:
                written.add(waiting.pop())
            directories = []
            for row in views(rows):
                if not row.name:
                    continue
                if stat.S_ISDIR(row.mode):
                    directories.append(row)
                    if row.state == UNREADABLE:
                        left_out(row.path, "the backup could not list it, so it is empty here")
                elif row.state == UNREADABLE:
                    left_out(row.path, "the backup could not read it")
                else:
                    written.add(row)
            waiting += reversed(directories)
        while waiting:
            written.add(waiting.pop())


class _Archive:
    """Adds rows to an archive, their names relative to `path`."""

    def __init__(
        self,
        archive: tarfile.TarFile,
        path: bytes,
        reader: PartReader,
        left_out: Callable[[bytes, str], None],
    ) -> None:
        self._left_out = left_out
        self._archive = archive
        self._path = path
        self._reader = reader
        self._names: dict[tuple[int, int], str] = {}

    def add(self, row: RowView) -> None:
        """Add one row. Raises DamageError."""
        if stat.S_IFMT(row.mode) not in _TYPES:
            self._left_out(row.path, "an archive cannot hold this kind of file")
            return
        name = _decoded(row.path[len(self._path) :].lstrip(b"/"))
        entry = _entry(row, name)
        self._add_attributes(row, entry)
        key = row.hard_link_key
        if key is not None and (first := self._names.setdefault(key, name)) != name:
            entry.type, entry.linkname, entry.size = tarfile.LNKTYPE, first, 0
        if not _fits(entry):
            self._left_out(row.path, "an archive cannot hold its numbers")
            return
        try:
            content = None
            if entry.type == tarfile.REGTYPE:
                content = _FileReader(FileContent(row, self._reader))
                entry.size = row.size
            self._archive.addfile(entry, content)
        except DamageError as error:
            raise DamageError(
                f"the archive ends before or in {printable(b'/' + row.path)}: {error}"
            ) from error

    def _add_attributes(self, row: RowView, entry: tarfile.TarInfo) -> None:
        headers: dict[str, str] = {}
        for attribute, value in decode_xattrs(row.xattrs):
            # As GNU tar writes them: an equals sign ends the name.
            quoted = attribute.replace(b"%", b"%25").replace(b"=", b"%3D")
            try:
                headers[f"SCHILY.xattr.{quoted.decode()}"] = _decoded(value)
            except UnicodeDecodeError:
                text = f"an archive cannot hold its attribute {printable(attribute)}"
                self._left_out(row.path, f"{text}, whose name is not UTF-8")
        entry.pax_headers = {**entry.pax_headers, **headers}


def _entry(row: RowView, name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = _TYPES[stat.S_IFMT(row.mode)]
    entry.mode = stat.S_IMODE(row.mode)
    entry.uid, entry.gid = row.uid, row.gid
    seconds, nanoseconds = divmod(row.mtime_ns, SECOND_NS)
    entry.mtime = seconds
    headers: dict[str, str] = {}
    if nanoseconds and seconds >= 0:
        headers["mtime"] = f"{seconds}.{nanoseconds:09}"
    if stat.S_ISLNK(row.mode):
        entry.linkname = _decoded(row.target)
    if stat.S_ISCHR(row.mode) or stat.S_ISBLK(row.mode):
        entry.devmajor, entry.devminor = os.major(row.rdev), os.minor(row.rdev)
    entry.pax_headers = headers
    return entry


def _fits(entry: tarfile.TarInfo) -> bool:
    """Whether the numbers of an entry, which may be anybody's, fit the fields of a header."""
    try:
        entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    except (ValueError, OverflowError):
        return False
    return True


class _FileReader:
    """A file's content as the stream that tarfile reads."""

    def __init__(self, content: FileContent) -> None:
        self._content = content
        self._offset = 0

    def read(self, size: int = PIECE_BYTES) -> bytes:
        """The next bytes."""
        piece = self._content.read(self._offset, size)
        if len(piece) < min(size, self._content.size - self._offset):
            raise DamageError("its content is shorter than the file")
        self._offset += len(piece)
        return piece


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
