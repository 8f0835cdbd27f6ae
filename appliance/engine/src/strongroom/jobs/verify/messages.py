"""Messages between the coordinator of a comparison and its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from strongroom.jobs.verify.options import LiveDifference  # noqa: TC001 - msgspec reads annotations
from strongroom.jobs.workers.messages import Failed, RowsEntry, WorkerMessage

if TYPE_CHECKING:
    from collections.abc import Callable

Inode: TypeAlias = tuple[int, int]


class NamedInode(WorkerMessage, frozen=True):
    """One of several names of a file: the inode then and now. Both are (device, inode)."""

    stored: Inode
    live: Inode
    path: bytes


class CompareRows(WorkerMessage, frozen=True, tag="compare"):
    """Compare rows of some directories with the tree."""

    entries: list[RowsEntry]


class RowsCompared(WorkerMessage, frozen=True, tag="compared"):
    """The reply to CompareRows; inodes: of rows with several names."""

    row_count: int
    read_bytes: int
    differences: list[LiveDifference]
    inodes: list[NamedInode]


decode_task: Callable[[memoryview], CompareRows] = msgspec.msgpack.Decoder(CompareRows).decode
decode_reply: Callable[[memoryview], RowsCompared | Failed] = msgspec.msgpack.Decoder(
    RowsCompared | Failed
).decode
