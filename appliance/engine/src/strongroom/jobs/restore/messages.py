"""Messages between the coordinator of a restore and its workers: each task has one reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from strongroom.jobs.restore.options import (  # noqa: TC001 - msgspec reads annotations
    Action,
    RestoreProblem,
    Step,
)
from strongroom.jobs.workers.messages import Failed, RowsEntry, WorkerMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.jobs.workers.pool import WorkerPool

Inode: TypeAlias = tuple[int, int]


class LateFlags(WorkerMessage, frozen=True):
    """chattr flags that can be set only after the last link was made."""

    place: bytes
    name: bytes
    mode: int
    flags: int


class TallyCounts(WorkerMessage, frozen=True):
    """What a process has done since its last reply."""

    actions: dict[Action, int]
    problems: list[RestoreProblem]
    steps: list[Step]
    written_bytes: int


class RestoreRows(WorkerMessage, frozen=True, tag="rows"):
    """Restore rows of some directories."""

    entries: list[RowsEntry]


class RowsRestored(WorkerMessage, frozen=True, tag="rows"):
    """The reply to RestoreRows. unusable: inodes to which no other name can be linked."""

    counts: TallyCounts
    unusable: list[Inode]
    late_flags: list[LateFlags]


class WriteStretch(WorkerMessage, frozen=True, tag="stretch"):
    """Write consecutive parts (block id, slot) of a large file that the coordinator keeps open.

    offset: of the first part, in the content, which is what lies in the extents. compares: write
    only what differs.
    """

    place: bytes
    name: bytes
    inode: Inode
    compares: bool
    size_bytes: int
    extents: list[tuple[int, int]] | None
    offset: int
    parts: list[tuple[bytes, int]]


class StretchWritten(WorkerMessage, frozen=True, tag="stretch"):
    """The reply to WriteStretch. reason: why it could not be written, None if it was."""

    counts: TallyCounts
    reason: str | None


RestoreTask: TypeAlias = RestoreRows | WriteStretch
RestoreReply: TypeAlias = RowsRestored | StretchWritten
RestorePool: TypeAlias = "WorkerPool[RestoreTask, RestoreReply]"

decode_task: Callable[[memoryview], RestoreTask] = msgspec.msgpack.Decoder(RestoreTask).decode
decode_reply: Callable[[memoryview], RestoreReply | Failed] = msgspec.msgpack.Decoder(
    RestoreReply | Failed
).decode
