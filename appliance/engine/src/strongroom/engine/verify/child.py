"""Compares rows with live entries: the work of one verifying process.

No link is followed and nothing but regular files is opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from strongroom.base.clock import SECOND_NS, local_text
from strongroom.base.errors import DamageError
from strongroom.base.printable import printable
from strongroom.engine.content.digests import new_signature
from strongroom.engine.processes.channel import ChildChannel, Failed, ProcessMessage, RowsEntry
from strongroom.engine.restore.choice import BackedUp
from strongroom.engine.restore.content import ContentSource, Layout, layout_of
from strongroom.engine.restore.metadata import reason_of
from strongroom.engine.restore.target_directories import TargetDirectories, status_of
from strongroom.engine.rows.rows import UNREADABLE, Rows, decode_rows
from strongroom.engine.rows.views import RowView, join_path, views
from strongroom.engine.scan.attributes import (
    SETTABLE_FLAGS,
    decode_xattrs,
    read_flags_of,
    read_xattrs,
)
from strongroom.engine.scan.directory import fitting_mtime_ns
from strongroom.engine.verify.options import (
    LiveDifference,
    VerifyOptions,
)

# Messages between the coordinator of a comparison and its children.

Inode: TypeAlias = tuple[int, int]


class NamedInode(ProcessMessage, frozen=True):
    """One of several names of a file: the inode then and now. Both are (device, inode)."""

    stored: Inode
    live: Inode
    path: bytes


class CompareRows(ProcessMessage, frozen=True, tag="compare"):
    """Compare rows of some directories with the tree."""

    entries: list[RowsEntry]


class RowsCompared(ProcessMessage, frozen=True, tag="compared"):
    """The reply to CompareRows; inodes: of rows with several names."""

    row_count: int
    read_bytes: int
    differences: list[LiveDifference]
    inodes: list[NamedInode]


decode_task: Callable[[memoryview], CompareRows] = msgspec.msgpack.Decoder(CompareRows).decode
decode_reply: Callable[[memoryview], RowsCompared | Failed] = msgspec.msgpack.Decoder(
    RowsCompared | Failed
).decode


_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READ_BYTES: Final = 1 << 20
_KINDS: Final = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symbolic link",
    stat.S_IFIFO: "FIFO",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
    stat.S_IFSOCK: "socket",
}


class RowComparer:
    """Compares the rows of one directory after the other with the tree below `root_fd`."""

    def __init__(
        self,
        root_fd: int,
        source: ContentSource,
        options: VerifyOptions,
        backed_up: BackedUp,
    ) -> None:
        self._backed_up = backed_up
        self._directories = TargetDirectories(root_fd)
        self._source = source
        self._options = options
        self._place = b""
        self._clear()

    def take_result(self) -> RowsCompared:
        """Return the findings and clear them."""
        found = RowsCompared(self.row_count, self.read_bytes, self.differences, self.inodes)
        self._clear()
        return found

    def _clear(self) -> None:
        self.row_count = 0
        self.read_bytes = 0
        self.differences: list[LiveDifference] = []
        self.inodes: list[NamedInode] = []

    def compare(self, place: bytes, rows: Rows, skipped: frozenset[int]) -> None:
        """Compare every row but those `skipped` with what is in the directory `place`."""
        self._place = place
        try:
            self._directories.enter(place)
        except OSError as error:
            self._differs("missing", b"", f"its directory: {reason_of(error)}")
            return
        for number, row in enumerate(views(rows)):
            if number not in skipped:
                self.row_count += 1
                self._compare_row(row, rows.signature_name)

    def _differs(self, kind: str, name: bytes, reason: str) -> None:
        path = join_path(self._place, name) if name else self._place
        self.differences.append(LiveDifference(kind, path, reason))

    def _compare_row(self, row: RowView, signature_name: str) -> None:
        try:
            status = status_of(row.name or b".")
            if status is None:
                if row.state != UNREADABLE:
                    self._differs("missing", row.name, "it is not there")
                return
            live_type = stat.S_IFMT(status.st_mode)
            if live_type != stat.S_IFMT(row.mode):
                self._differs("type", row.name, f"it is a {_KINDS.get(live_type, 'something')} now")
                return
            self._compare_status(row, status)
            self._compare_attributes(row)
            if row.state == UNREADABLE and stat.S_ISDIR(row.mode):
                self._differs("unread", row.name, "the backup could not list this folder")
            if stat.S_ISREG(row.mode) and row.state != UNREADABLE and row.size == status.st_size:
                self._compare_content(row, signature_name)
        except DamageError as error:
            self._differs("damage", row.name, str(error))
        except OSError as error:
            self._differs("unreadable", row.name, reason_of(error))

    def _compare_status(self, row: RowView, status: os.stat_result) -> None:
        name = row.name
        if (row.uid, row.gid) != (status.st_uid, status.st_gid):
            owner = f"{status.st_uid}:{status.st_gid}"
            self._differs("owner", name, f"{row.uid}:{row.gid} then, {owner} now")
        if row.mode != status.st_mode and not stat.S_ISLNK(row.mode):
            then, now = stat.S_IMODE(row.mode), stat.S_IMODE(status.st_mode)
            self._differs("mode", name, f"{then:04o} then, {now:04o} now")
        if row.mtime_ns != fitting_mtime_ns(status) and not self._leads_on(row):
            times = _times_apart(row.mtime_ns, fitting_mtime_ns(status))
            self._differs("mtime", name, "{} then, {} now".format(*times))
        if stat.S_ISREG(row.mode) and row.size != status.st_size:
            self._differs("size", name, f"{row.size} bytes then, {status.st_size} now")
        if stat.S_ISLNK(row.mode) and row.state != UNREADABLE and os.readlink(name) != row.target:
            self._differs("target", name, "it points elsewhere now")
        if (stat.S_ISCHR(row.mode) or stat.S_ISBLK(row.mode)) and row.rdev != status.st_rdev:
            self._differs("device", name, "it is another device now")
        if row.link_count > 1 and not stat.S_ISDIR(row.mode):
            path = join_path(self._place, name)
            stored, live = (row.device, row.inode), (status.st_dev, status.st_ino)
            self.inodes.append(NamedInode(stored, live, path))

    def _leads_on(self, row: RowView) -> bool:
        """Whether the snapshot has this directory only because it leads to others."""
        return stat.S_ISDIR(row.mode) and not self._backed_up(join_path(self._place, row.name))

    def _compare_attributes(self, row: RowView) -> None:
        name = row.name or b"."
        found, failures = read_xattrs([name], [0])
        for failure in failures:
            raise failure.error
        live = found.get(0, b"")
        if live != row.xattrs:
            then, now = dict(decode_xattrs(row.xattrs)), dict(decode_xattrs(live))
            for attribute in sorted(then.keys() | now.keys()):
                if then.get(attribute) != now.get(attribute):
                    kind = "acl" if attribute.startswith(b"system.posix_acl_") else "xattr"
                    shown = printable(attribute)
                    change = _change(shown, attribute in then, attribute in now)
                    self._differs(kind, row.name, change)
        flags = read_flags_of(name, row.mode)
        if flags != row.flags & SETTABLE_FLAGS:
            self._differs("flags", row.name, f"{row.flags:#x} then, {flags:#x} now")

    def _compare_content(self, row: RowView, signature_name: str) -> None:
        options = self._options
        reads_signature = (
            options.reads_signatures and signature_name != "none" and any(row.signature)
        )
        if not options.reads_content and not reads_signature:
            return
        layout = layout_of(row)
        fd = os.open(row.name, _OPEN)
        try:
            if options.from_disk:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            if options.reads_content:
                self._compare_parts(fd, row, layout)
            if reads_signature and self._signature(fd, layout, signature_name) != row.signature:
                self._differs("content", row.name, f"its {signature_name} signature differs")
        finally:
            os.close(fd)

    def _compare_parts(self, fd: int, row: RowView, layout: Layout) -> None:
        offset = 0
        for block_id, slot in row.parts:
            length = self._source.length(block_id, slot)
            data = b"".join([os.pread(fd, n, at) for at, n in layout.pieces(offset, length)])
            self.read_bytes += len(data)
            if not self._source.is_chunk(block_id, slot, data):
                self._differs("content", row.name, f"it differs at byte {offset} or after")
                return
            offset += length
        if offset != layout.content_bytes:
            raise DamageError(f"{offset} bytes are stored instead of {layout.content_bytes}")
        for start, length in layout.holes():
            if not _is_hole(fd, start, length):
                self._differs("content", row.name, f"data at byte {start} or after, a hole then")
                return

    def _signature(self, fd: int, layout: Layout, name: str) -> bytes:
        signature = new_signature(name)
        for start, length in layout.pieces(0, layout.content_bytes):
            position, end = start, start + length
            while position < end:
                data = os.pread(fd, min(_READ_BYTES, end - position), position)
                if not data:
                    break
                signature.update(data)
                self.read_bytes += len(data)
                position += len(data)
        return signature.digest()


def serve(channel: ChildChannel[CompareRows], comparer: RowComparer) -> None:
    """Do tasks until the coordinator closes the channel. Raises ChannelClosedError."""
    while True:
        for entry in channel.receive().entries:
            comparer.compare(entry.place, decode_rows(entry.rows), frozenset(entry.skipped))
        channel.send(comparer.take_result())


def _is_hole(fd: int, offset: int, length: int) -> bool:
    """Whether a stretch reads as zeros."""
    end = offset + length
    while offset < end:
        try:
            offset = os.lseek(fd, offset, os.SEEK_DATA)
        except OSError:
            return True
        if offset >= end:
            return True
        data = os.pread(fd, min(_READ_BYTES, end - offset), offset)
        if not data:
            return True
        if data.count(0) != len(data):
            return False
        offset += len(data)
    return True


def _change(attribute: str, was_there: bool, is_there: bool) -> str:
    if was_there and is_there:
        return f"{attribute} has another value"
    return f"{attribute} is missing" if was_there else f"{attribute} is new"


def _times_apart(then_ns: int, now_ns: int) -> tuple[str, str]:
    """Both in local time, with fractions of a second where only these differ."""
    then, now = local_text(then_ns), local_text(now_ns)
    if then != now:
        return then, now
    return f"{then}.{then_ns % SECOND_NS:09}", f"{now}.{now_ns % SECOND_NS:09}"
