"""One directory (or slice) in progress in a shard: rows whose content is still being stored.

`changed_rows` are read; each chunk's reference comes back through `place`, perhaps much later,
while another directory is processed. A work that is sealed and lacks nothing is posted.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from errno import ENOENT
from typing import Final, Protocol

import msgspec

from strongroom.engine.backup.scanned_rows import VANISHED
from strongroom.engine.backup.shards.messages import Settled
from strongroom.engine.repository.listing.page_builder import page_ends
from strongroom.engine.rows.entry_counts import count_files, hole_bytes
from strongroom.engine.rows.rows import (
    CHANGED,
    COLUMN_COUNT,
    MODE,
    SIZE,
    UNREADABLE,
    Rows,
    encode_rows,
)
from strongroom.engine.scan.unchanged import Content, take
from strongroom.engine.writing.block_assembly import Reference
from strongroom.sources.source import Problem

_WITHOUT_CONTENT: Final = (UNREADABLE, VANISHED)


def problem(path: bytes, name: bytes, error: OSError) -> Problem:
    """Something that could not be read."""
    where = path + b"/" + name if path and name else path or name
    return Problem(where, error.errno or 0, error.strerror or str(error))


class Outbox(Protocol):
    """Takes what a shard has to say to the coordinator."""

    def post(self, message: Settled) -> None:
        """Send it soon."""


class WorkTask(msgspec.Struct, frozen=True):
    """What a work is of, and how its rows are stored.

    number: the coordinator's, of the task. offers: whether the public files among the rows are
    offered to share. treatments: how each row is stored, see `ScanRules`; None: as the job is
    configured.
    """

    number: int
    path: bytes
    signature_name: str
    offers: bool = False
    treatments: bytes | None = None


class RowAttributes(msgspec.Struct):
    """What some rows have besides stat columns, by row.

    The scan adds the first three; the reader flags and extents of the files that it opens.
    """

    xattrs: dict[int, bytes] = {}
    targets: dict[int, bytes] = {}
    flags: dict[int, int] = {}
    extents: dict[int, Sequence[tuple[int, int]]] = {}


class ReadCounts(msgspec.Struct):
    """What was read of the changed rows; only the ContentReader counts.

    tallied_files: those that a ShardTally counted. deferred: rows that are left to others.
    """

    files: int = 0
    size_bytes: int = 0
    tallied_files: int = 0
    deferred: list[int] = []


class DirectoryWork:
    """Rows of one task, which are posted once they are complete."""

    __slots__ = (
        "_joined", "_matches", "_missing", "_outbox", "_parent", "_parts", "_sealed",
        "_signatures", "_states", "attributes", "changed_rows", "flat", "names", "problems",
        "read", "task",
    )  # fmt: skip

    def __init__(
        self,
        task: WorkTask,
        names: list[bytes],
        joined: bytes | None,
        flat: array[int],
        problems: list[Problem],
        outbox: Outbox,
    ) -> None:
        """joined: the names as rows have them; None: just `names`, which may become more."""
        self.task = task
        self._joined = joined
        self._outbox = outbox
        self._signatures: dict[int, bytes] = {}
        self._parts: list[Reference | list[Reference | None] | None] = [None] * len(names)
        self._missing = 0
        self._sealed = False
        self._parent: Rows | None = None
        self._matches: Sequence[int] = ()
        self._states: dict[int, int] = {}
        self.names = names
        self.flat = flat
        self.problems = problems
        self.changed_rows: Sequence[int] = range(len(names))
        self.attributes = RowAttributes()
        self.read = ReadCounts()

    def add_row(self, name: bytes, columns: Sequence[int]) -> None:
        """Append a row; only where `joined` was not given."""
        self.names.append(name)
        self.flat.extend(columns)
        self._parts.append(None)

    def match(self, parent: Rows, matches: Sequence[int]) -> None:
        """Take content from `parent` where `matches` names a row of it."""
        # Most of its bytes are what was compared; this may wait for others to fill a block with it.
        self._parent = msgspec.structs.replace(parent, stats=b"")
        self._matches = matches
        self.changed_rows = [row for row, place in enumerate(matches) if place < 0]

    def column(self, row: int, column: int) -> int:
        """A stat column of a row."""
        return self.flat[row * COLUMN_COUNT + column]

    def expect_one(self, row: int) -> None:
        """Row `row` has one chunk, whose reference is pending."""
        self._missing += 1

    def expect_many(self, row: int, first_part: int, count: int) -> None:
        """Row `row` has `count` more chunks, numbered from `first_part`."""
        parts = self._parts[row]
        if not isinstance(parts, list):
            parts = self._parts[row] = []
        parts += [None] * (first_part + count - len(parts))
        self._missing += count

    def place(self, row: int, part: int, reference: Reference) -> None:
        """Set a reference."""
        parts = self._parts[row]
        if isinstance(parts, list):
            parts[part] = reference
        else:
            self._parts[row] = reference
        self._missing -= 1
        if not self._missing and self._sealed:
            self._outbox.post(self._message())

    def sign(self, row: int, signature: bytes) -> None:
        """Row `row` has this signature."""
        self._signatures[row] = signature

    def incomplete(self, row: int, error: OSError) -> None:
        """Row `row` lacks attributes; the next backup will not treat it as unchanged."""
        self._states[row] = CHANGED
        self.problem(self.names[row], error)

    def problem(self, name: bytes, error: OSError) -> None:
        """Report a problem that loses no content."""
        self.problems.append(problem(self.task.path, name, error))

    def unreadable(self, row: int, error: OSError) -> None:
        """Row `row` goes without content, or is dropped if the file has vanished."""
        self._states[row] = VANISHED if error.errno == ENOENT else UNREADABLE
        self.attributes.extents.pop(row, None)
        self.problem(self.names[row], error)

    def changed_meanwhile(self, row: int, text: str) -> None:
        """Row `row` has content that may be inconsistent: the file changed while it was read."""
        self._states[row] = CHANGED
        self.problem(self.names[row], OSError(0, text))

    def resize(self, row: int, size_bytes: int) -> None:
        """Correct the size of row `row`."""
        self.flat[row * COLUMN_COUNT + SIZE] = size_bytes

    def seal(self) -> None:
        """No more content will be added."""
        self._sealed = True
        if not self._missing:
            self._outbox.post(self._message())

    def _message(self) -> Settled:
        names, attributes, read = self.names, self.attributes, self.read
        rows = Rows(
            self.task.path,
            b"\0".join(names) if self._joined is None else self._joined,
            len(names),
            self.flat.tobytes(),
            array("I"),
            targets=attributes.targets,
            xattrs=attributes.xattrs,
            flags=attributes.flags,
            states=self._states,
            extents=attributes.extents,
            signature_name=self.task.signature_name,
        )
        if self._parent is None:
            self._fill(rows)
        else:
            take(rows, self._parent, self._matches, self._contents())
        return Settled(
            self.task.number,
            encode_rows(rows),
            *self._counts(rows),
            read.files,
            self._known_files(),
            read.size_bytes,
            read.tallied_files,
            self.problems,
            read.deferred,
            page_ends(names),
        )

    def _counts(self, rows: Rows) -> tuple[int, int]:
        """Regular files that have not vanished, and their sizes without holes."""
        files, size_bytes = count_files(rows.stats)
        size_bytes -= hole_bytes(rows)
        for row, state in self._states.items():
            if state == VANISHED and self.column(row, MODE) & 0o170000 == 0o100000:
                files -= 1
                size_bytes -= self.column(row, SIZE)
        return files, size_bytes

    def _known_files(self) -> int:
        """Number of files read that the parent has under the same name."""
        if self._parent is None or not (self.read.files or self.read.deferred):
            return 0
        known = set(self._parent.name_list())
        return sum(
            1
            for row in self.changed_rows
            if self.names[row] in known and self.column(row, MODE) & 0o170000 == 0o100000
        )

    def _fill(self, rows: Rows) -> None:
        blocks: list[bytes] = []
        slots = array("H")
        counts = array("I", [0]) * rows.row_count
        for row, parts in enumerate(self._parts):
            if parts is None or self._states.get(row) in _WITHOUT_CONTENT:
                continue
            if isinstance(parts, tuple):
                counts[row] = 1
                blocks.append(parts[0])
                slots.append(parts[1])
                continue
            counts[row] = len(parts)
            for reference in parts:
                assert reference is not None
                blocks.append(reference[0])
                slots.append(reference[1])
        rows.part_counts = counts
        rows.part_blocks = b"".join(blocks)
        rows.part_slots = slots
        if self._signatures:
            zeros = bytes(len(next(iter(self._signatures.values()))))
            signatures = self._signatures
            rows.signatures = b"".join(
                [signatures.get(row, zeros) for row in range(rows.row_count)]
            )

    def _contents(self) -> dict[int, Content]:
        contents: dict[int, Content] = {}
        for row in self.changed_rows:
            parts = self._parts[row]
            signature = self._signatures.get(row, b"")
            if parts is None or self._states.get(row) in _WITHOUT_CONTENT:
                if signature:
                    contents[row] = Content(b"", array("H"), signature)
                continue
            references = [parts] if isinstance(parts, tuple) else parts
            blocks = b"".join([reference[0] for reference in references if reference])
            slots = array("H", [reference[1] for reference in references if reference])
            contents[row] = Content(blocks, slots, signature)
        return contents
