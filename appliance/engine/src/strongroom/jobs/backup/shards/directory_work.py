"""One directory (or slice) in progress in a shard: rows whose content is still being stored.

`changed_rows` are read; each chunk's reference comes back through `place`, perhaps much later,
while another directory is processed. A work that is sealed and lacks nothing is delivered.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from errno import ENOENT
from typing import TYPE_CHECKING, Final

from strongroom.jobs.backup.scanned_rows import VANISHED
from strongroom.jobs.backup.shards.messages import Settled
from strongroom.repo.listing.page_builder import page_ends
from strongroom.rows.entry_counts import count_files, hole_bytes
from strongroom.rows.rows import (
    CHANGED,
    COLUMN_COUNT,
    MODE,
    SIZE,
    UNREADABLE,
    Rows,
    encode_rows,
)
from strongroom.scan.unchanged import Content, take
from strongroom.sources.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strongroom.jobs.writing.block_assembly import Reference


_WITHOUT_CONTENT: Final = (UNREADABLE, VANISHED)


def problem(path: bytes, name: bytes, error: OSError) -> Problem:
    """Something that could not be read."""
    where = path + b"/" + name if path and name else path or name
    return Problem(where, error.errno or 0, error.strerror or str(error))


class DirectoryWork:
    """Rows of one task; see the module."""

    __slots__ = (
        "_deliver", "_joined", "_matches", "_missing", "_parent", "_parts", "_path", "_sealed",
        "_signature_name", "_signatures", "_states", "_task", "changed_bytes", "changed_files",
        "changed_rows", "deferred", "extents", "flags", "flat", "names", "offers", "problems",
        "tallied_files", "targets", "treatments", "xattrs",
    )  # fmt: skip

    def __init__(
        self,
        task: int,
        path: bytes,
        names: list[bytes],
        joined: bytes,
        flat: array[int],
        problems: list[Problem],
        signature_name: str,
        deliver: Callable[[DirectoryWork], None],
    ) -> None:
        self._task = task
        self._path = path
        self._joined = joined
        self._deliver = deliver
        self._signature_name = signature_name
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
        self.deferred: list[int] = []
        self.changed_files = 0
        self.changed_bytes = 0
        # Those that a ShardTally counted.
        self.tallied_files = 0
        self.targets: dict[int, bytes] = {}
        self.xattrs: dict[int, bytes] = {}
        self.flags: dict[int, int] = {}
        self.extents: dict[int, Sequence[tuple[int, int]]] = {}
        # How each row is stored, see `ScanRules`; None: as the job is configured.
        self.treatments: bytes | None = None
        # Whether the public files among the rows are offered to share.
        self.offers = False

    def add_row(self) -> None:
        """A row was appended to `names` and `flat`."""
        self._parts.append(None)

    def rename(self, joined: bytes) -> None:
        """The joined names, when rows were appended."""
        self._joined = joined

    def match(self, parent: Rows, matches: Sequence[int]) -> None:
        """Take content from `parent` where `matches` names a row of it."""
        # Most of its bytes are what was compared; this may wait for others to fill a block with it.
        self._parent = replace(parent, stats=b"")
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
            self._deliver(self)

    def sign(self, row: int, signature: bytes) -> None:
        """Row `row` has this signature."""
        self._signatures[row] = signature

    def incomplete(self, row: int, error: OSError) -> None:
        """Row `row` lacks attributes; the next backup will not treat it as unchanged."""
        self._states[row] = CHANGED
        self.problem(self.names[row], error)

    def problem(self, name: bytes, error: OSError) -> None:
        """Report a problem that loses no content."""
        self.problems.append(problem(self._path, name, error))

    def unreadable(self, row: int, error: OSError) -> None:
        """Row `row` goes without content, or is dropped if the file has vanished."""
        self._states[row] = VANISHED if error.errno == ENOENT else UNREADABLE
        self.extents.pop(row, None)
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
            self._deliver(self)

    def message(self) -> Settled:
        """The result for the coordinator."""
        names = self.names
        rows = Rows(
            self._path,
            self._joined,
            len(names),
            self.flat.tobytes(),
            array("I"),
            targets=self.targets,
            xattrs=self.xattrs,
            flags=self.flags,
            states=self._states,
            extents=self.extents,
            signature_name=self._signature_name,
        )
        if self._parent is None:
            self._fill(rows)
        else:
            take(rows, self._parent, self._matches, self._contents())
        return Settled(
            self._task,
            encode_rows(rows),
            *self._counts(rows),
            self.changed_files,
            self._known_files(),
            self.changed_bytes,
            self.tallied_files,
            self.problems,
            self.deferred,
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
        if self._parent is None or not (self.changed_files or self.deferred):
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
