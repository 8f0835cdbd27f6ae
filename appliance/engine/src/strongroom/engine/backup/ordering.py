"""Which directory is scanned next, and which is next in the listing.

Directories are found, scanned and settled in any order, but the listing has one order (that of
`path_key`), so results wait for their turn. Handing out the earliest directory first keeps the
wait short; and while more than `WAITING_ROWS_LIMIT` rows wait, only the directory whose turn it is
is handed out, so that memory stays bounded whatever the shape of the tree.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from strongroom.base.errors import SourceError
from strongroom.base.printable import printable
from strongroom.engine.backup.deferred_content import DeferredContent
from strongroom.engine.backup.wide_directory import NameSlice
from strongroom.engine.rows.rows import Rows, slice_rows
from strongroom.engine.rows.views import path_key
from strongroom.engine.scan.share_folders import CLOSED

# How much work is queued at a shard, so that it neither runs dry nor keeps others from work.
#
# Most small directories that the parent knows are unchanged, and then take less time than a message
# and its answer while all cores are busy. So four times as many of them are queued as of others, of
# which each may bring megabytes to read; but not where file systems answer late, as there all
# shards should have some of a small tree. Of new ones twice as many are queued while plenty wait:
# no shard runs dry then, and each message brings more.

_KNOWN_WEIGHT: Final = 1
_DIRECTORY_WEIGHT: Final = 4
# New ones, of which plenty wait: more than a few shards can hold.
_NEW_WEIGHT: Final = 2
_PLENTY: Final = 64
# Thousands of rows, and as many of the parent's.
SLICE_WEIGHT: Final = 16
READ_WEIGHT: Final = 16
# Directories queued at a shard. With several scan threads it is all that it may have in progress
# (`ScanPool.has_room`).
_DIRECTORIES: Final = 8
_DIRECTORIES_A_THREAD: Final = 2
# The coordinator holds the parent's rows of what is queued: larger directories count as others.
_FEW_ROWS: Final = 256
# After so many directories a shard with one scan thread has only file systems that answer at once.
_SOON_ENOUGH: Final = 64


def room_for(scan_threads: int) -> int:
    """The weight of what may be queued at a shard with so many scan threads."""
    return _DIRECTORY_WEIGHT * max(_DIRECTORIES, _DIRECTORIES_A_THREAD * scan_threads)


def is_quick(scan_threads: int, scanned_directories: int) -> bool:
    """Whether the file systems of a shard answer at once, as far as is known."""
    return scan_threads == 1 and scanned_directories >= _SOON_ENOUGH


def directory_weight(parent: Sequence[Rows], *, quick: bool, waiting: int) -> int:
    """The weight of a directory of which the parent has these rows.

    quick: whether the shard it is queued at `is_quick`. waiting: other tasks that are not queued.
    """
    if not quick:
        return _DIRECTORY_WEIGHT
    if parent:
        is_small = sum(rows.row_count for rows in parent) <= _FEW_ROWS
        return _KNOWN_WEIGHT if is_small else _DIRECTORY_WEIGHT
    return _NEW_WEIGHT if waiting >= _PLENTY else _DIRECTORY_WEIGHT


WAITING_ROWS_LIMIT: Final = 100_000


class Node:
    """A directory, or a slice of a wide one, not yet written to the listing.

    `only`: the joined names of the given paths on the way; None: list all, or those of `part`.
    """

    __slots__ = (
        "content", "is_scanned", "is_streams", "key", "number", "only", "parent", "part", "path",
        "rows", "shard", "standing", "way", "weight",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        path: bytes,
        slice_number: int,
        only: bytes | None,
        way: PathGoals | None,
        part: NameSlice | None,
    ) -> None:
        self.number = number
        self.path = path
        self.key = (path_key(path), slice_number)
        self.only = only
        self.way = way
        self.part = part
        self.parent: list[Rows] = []  # the parent's rows, while the node is handed out
        self.rows: list[Rows] | None = None
        self.content: DeferredContent | None = None
        self.is_scanned = False
        self.is_streams = False
        self.shard = -1
        self.weight = 1  # in the queue of a shard, see `directory_weight`
        # See `engine.scan.share_folders`: whether its public files are offered.
        self.standing = CLOSED


class PathGoals:
    """The directories on the way to the given paths: names that lead on, and goals."""

    __slots__ = ("goals", "steps")

    def __init__(self) -> None:
        self.steps: dict[bytes, PathGoals] = {}
        self.goals: set[bytes] = set()

    @classmethod
    def to(cls, paths: tuple[bytes, ...]) -> PathGoals | None:
        """The way to `paths` (from the root, no slash around them); None when the root is one."""
        way = cls()
        for path in sorted(paths):
            if not path:
                return None
            place = way
            *steps, goal = path.split(b"/")
            for step in steps:
                if step in place.goals:
                    break
                place = place.steps.setdefault(step, cls())
            else:
                place.goals.add(goal)
        return way

    def names(self) -> list[bytes]:
        """The names to examine, sorted."""
        return sorted(self.goals | self.steps.keys())


class ContentRead:
    """Deferred content of a node, to be read by any shard: task `place` of `node.content`."""

    __slots__ = ("is_scanned", "node", "number", "place", "shard")

    def __init__(self, number: int, node: Node, place: int) -> None:
        self.number = number
        self.is_scanned = False
        self.shard = -1
        self.node = node
        self.place = place


class Ordering:
    """Nodes that wait to be handed out, and nodes that wait for their turn in the listing."""

    def __init__(self) -> None:
        self._count = 0
        self._to_do: list[tuple[tuple[bytes, int], int, Node | ContentRead]] = []
        self._to_emit: list[tuple[tuple[bytes, int], int, Node]] = []
        self._waiting_rows = 0
        self.tasks: dict[int, Node | ContentRead] = {}

    @property
    def is_done(self) -> bool:
        """Whether every node was emitted."""
        return not self._to_emit

    @property
    def waiting_tasks(self) -> int:
        """How many wait to be handed out."""
        return len(self._to_do)

    @property
    def head(self) -> Node | None:
        """The node whose turn it is in the listing."""
        return self._to_emit[0][2] if self._to_emit else None

    @property
    def blocking_shard(self) -> int | None:
        """The shard that has read what the listing waits for, but not finished it yet."""
        head = self.head
        if head is None:
            return None
        for task in self.tasks.values() if head.content is not None else (head,):
            node = task.node if isinstance(task, ContentRead) else task
            if task.is_scanned and node is head:
                return task.shard
        return None

    def node(self, number: int) -> Node:
        """The directory or slice that is the task `number`."""
        task = self.tasks[number]
        assert isinstance(task, Node)
        return task

    @property
    def is_full(self) -> bool:
        """Whether the limit of waiting rows is reached."""
        return self._waiting_rows > WAITING_ROWS_LIMIT

    def add_streams(self) -> None:
        """The rows of the source's streams, in the root; call it before all else."""
        self.add(b"", -1, None, None).is_streams = True

    def add(
        self,
        path: bytes,
        slice_number: int,
        only: bytes | None,
        way: PathGoals | None,
        part: NameSlice | None = None,
    ) -> Node:
        """A directory (or slice) was found."""
        self._count += 1
        node = Node(self._count, path, slice_number, only, way, part)
        self.tasks[node.number] = node
        heapq.heappush(self._to_do, (node.key, node.number, node))
        heapq.heappush(self._to_emit, (node.key, node.number, node))
        return node

    def defer(self, node: Node, content: DeferredContent) -> None:
        """A node was scanned, but some of its content is still to be read."""
        node.content = content
        for place in range(len(content.tasks)):
            self._count += 1
            read = ContentRead(self._count, node, place)
            self.tasks[read.number] = read
            heapq.heappush(self._to_do, (node.key, read.number, read))

    def next_task(self) -> Node | ContentRead | None:
        """The next task to hand out; None when there is none or too many rows wait."""
        if not self._to_do:
            return None
        task = self._to_do[0][2]
        node = task.node if isinstance(task, ContentRead) else task
        if self.is_full and node is not self.head:
            return None
        heapq.heappop(self._to_do)
        return task

    def settle(self, node: Node, rows: list[Rows]) -> None:
        """The rows of a node are complete."""
        node.rows = rows
        self._waiting_rows += sum(piece.row_count for piece in rows)

    def next_to_emit(self) -> Node | None:
        """Remove and return the next node of the listing, if it is complete."""
        if not self._to_emit or self._to_emit[0][2].rows is None:
            return None
        node = heapq.heappop(self._to_emit)[2]
        self._waiting_rows -= sum(piece.row_count for piece in node.rows or ())
        return node


class StreamRows:
    """Holds rows of streams until their place among the scanned rows of the root is reached."""

    def __init__(self) -> None:
        self._held: Rows | None = None

    def hold(self, rows: Rows) -> None:
        """The rows of all streams, in order."""
        self._held = rows if rows.row_count else None

    def among(self, rows: Rows) -> Iterator[Rows]:
        """`rows`, the next of the root, merged with the held rows that sort among them.

        Raises SourceError when two have the same name.
        """
        held = self._held
        if held is None:
            yield rows
            return
        names = rows.name_list()
        done = 0
        for number, name in enumerate(held.name_list()):
            place = bisect_left(names, name)
            if place == rows.row_count:
                self._held = slice_rows(held, number, held.row_count)
                break
            if names[place] == name:
                shown = printable(name)
                raise SourceError(f"a stream is named {shown}, as is a path that is backed up")
            if place > done:
                yield slice_rows(rows, done, place)
            yield slice_rows(held, number, number + 1)
            done = place
        else:
            self._held = None
        if done < rows.row_count:
            yield slice_rows(rows, done, rows.row_count)

    def rest(self) -> Iterator[Rows]:
        """The remaining held rows, once the root has no more scanned rows."""
        held, self._held = self._held, None
        if held is not None:
            yield held
