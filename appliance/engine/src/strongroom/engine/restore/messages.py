"""Messages between the coordinator of a restore and its children, and the counts in them.

Each task has one reply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from strongroom.engine.processes.channel import Failed, ProcessMessage, RowsEntry
from strongroom.engine.processes.pool import ProcessPool
from strongroom.engine.restore.options import Action, EntryKind, LeftOut, RestoreProblem, Step
from strongroom.engine.restore.scope import Spared
from strongroom.engine.rows.views import join_path
from strongroom.engine.scan.privileges import Privilege

Inode: TypeAlias = tuple[int, int]


class LateFlags(ProcessMessage, frozen=True):
    """chattr flags that can be set only after the last link was made."""

    place: bytes
    name: bytes
    mode: int
    flags: int


class TallyCounts(ProcessMessage, frozen=True):
    """What a process has done since its last reply."""

    actions: dict[Action, int]
    problems: list[RestoreProblem]
    steps: list[Step]
    written_bytes: int


class RestoreRows(ProcessMessage, frozen=True, tag="rows"):
    """Restore rows of some directories."""

    entries: list[RowsEntry]


class RowsRestored(ProcessMessage, frozen=True, tag="rows"):
    """The reply to RestoreRows. unusable: inodes to which no other name can be linked."""

    counts: TallyCounts
    unusable: list[Inode]
    late_flags: list[LateFlags]


class WriteStretch(ProcessMessage, frozen=True, tag="stretch"):
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


class StretchWritten(ProcessMessage, frozen=True, tag="stretch"):
    """The reply to WriteStretch. reason: why it could not be written, None if it was."""

    counts: TallyCounts
    reason: str | None


RestoreTask: TypeAlias = RestoreRows | WriteStretch
RestoreReply: TypeAlias = RowsRestored | StretchWritten
RestorePool: TypeAlias = "ProcessPool[RestoreTask, RestoreReply]"

decode_task: Callable[[memoryview], RestoreTask] = msgspec.msgpack.Decoder(RestoreTask).decode
decode_reply: Callable[[memoryview], RestoreReply | Failed] = msgspec.msgpack.Decoder(
    RestoreReply | Failed
).decode


class Tally:
    """What was done in the directory `place`, and in others before it."""

    def __init__(self, *, tells_steps: bool) -> None:
        self.tells_steps = tells_steps
        self.place = b""
        self.clear()

    def clear(self) -> None:
        """Clear everything but the place."""
        self.actions: Counter[Action] = Counter()
        self.problems: list[RestoreProblem] = []
        self.steps: list[Step] = []
        self.left_out: list[LeftOut] = []
        self.spared: Counter[Spared] = Counter()
        self.written_bytes = 0

    def problem(self, kind: EntryKind, name: bytes, reason: str) -> None:
        """Record a problem of `name` in the current place (b"": the place itself)."""
        path = join_path(self.place, name) if name else self.place
        self.problems.append(RestoreProblem(kind, path, reason))

    def step(self, action: Action, name: bytes) -> None:
        """Record an entry of the current place as done."""
        self.actions[action] += 1
        if self.tells_steps:
            self.steps.append(Step(action, join_path(self.place, name) if name else self.place))

    def leave_out(self, kind: Privilege, place: bytes, name: bytes) -> None:
        """Record a privilege that is not restored; only in the process that reports."""
        self.left_out.append(LeftOut(kind, join_path(place, name) if name else place))

    def spare(self, path: bytes, reason: Spared) -> None:
        """Record what was not removed; only in the process that reports."""
        self.spared[reason] += 1
        if self.tells_steps:
            self.steps.append(Step(Action.SPARED, path))

    def take_counts(self) -> TallyCounts:
        """Return all counts, to be sent to another process, and clear them."""
        counts = TallyCounts(self.actions, self.problems, self.steps, self.written_bytes)
        self.clear()
        return counts

    def add_counts(self, counts: TallyCounts) -> None:
        """Add what another process counted."""
        self.actions.update(counts.actions)
        self.problems += counts.problems
        self.steps += counts.steps
        self.written_bytes += counts.written_bytes
