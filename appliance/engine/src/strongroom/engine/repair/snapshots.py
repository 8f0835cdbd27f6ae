"""Replaces snapshots that have lost something by ones that mark it.

A file whose content is lost keeps its row, marked unreadable; the next backup reads it again. A
listing page that is lost takes its rows with it, names and all. The old snapshot goes only after
the new one is committed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

import msgspec

from strongroom.base.errors import DamageError
from strongroom.engine.check.pages import ClientPage, PageAnswer, PageChecker
from strongroom.engine.copy.rewrite import commit_rows
from strongroom.engine.repository.index.index import Index
from strongroom.engine.repository.leases import Lease
from strongroom.engine.repository.left_out import LeftOut
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.snapshots import Snapshot
from strongroom.engine.rows.rows import BLOCK_ID_BYTES, UNREADABLE, Rows, part_starts
from strongroom.engine.rows.views import join_path


class LostRange(msgspec.Struct, frozen=True):
    """Rows lost with their names: how many, from a path to just before another (or the end)."""

    first_path: bytes
    before_path: bytes | None
    row_count: int


class SnapshotLoss(msgspec.Struct):
    """What a snapshot has lost; `new_id`: the snapshot that replaces it, if any."""

    snapshot: Snapshot
    new_id: str = ""
    paths: list[bytes] = []
    ranges: list[LostRange] = []

    @property
    def row_count(self) -> int:
        """Rows that have lost their content or themselves."""
        return len(self.paths) + sum(lost.row_count for lost in self.ranges)


def find_loss(snapshot: Snapshot, answers: Mapping[ClientPage, PageAnswer]) -> SnapshotLoss:
    """What a snapshot (with its pages) has lost; `answers`: of its pages that are not sound."""
    loss = SnapshotLoss(snapshot)
    for number, page in enumerate(snapshot.pages):
        answer = answers.get(ClientPage(snapshot.owner, page))
        if answer is None:
            continue
        if answer.problem:
            loss.ranges.append(_lost_range(snapshot, number))
        loss.paths.extend(row.path for row in answer.rows)
    return loss


def replace_snapshot(
    repository: Repository,
    loss: SnapshotLoss,
    checker: PageChecker,
    index: Index,
    lease: Lease,
) -> str:
    """Commit a snapshot without what is lost and delete the old one; returns the new id.

    "" when nothing of it is left: then it is only deleted.
    """
    old = loss.snapshot
    repository = repository.for_client(old.host, old.generation)
    new = commit_rows(
        repository,
        old,
        _rows_left(repository, old, checker),
        index.of_client(old.owner),
        lease,
        error_count=old.error_count + loss.row_count,
        left_out=_left_out(loss),
    )
    repository.store.delete("snapshots", old.id)
    return "" if new is None else new.id


def _rows_left(repository: Repository, old: Snapshot, checker: PageChecker) -> Iterator[Rows]:
    for page in old.pages:
        try:
            groups = checker.rows_of(repository, ClientPage(old.owner, page))
        except DamageError:
            continue
        for rows in groups:
            bad = [row for row, _ in checker.bad_rows(old.owner, rows)]
            yield without_content(rows, bad) if bad else rows


def _left_out(loss: SnapshotLoss) -> LeftOut | None:
    """What was left out; where names are lost, nothing may be deleted for want of them."""
    left_out = loss.snapshot.left_out
    if left_out is None or not loss.ranges:
        return left_out
    return msgspec.structs.replace(left_out, rules=b"")


def without_content(rows: Rows, lost: list[int]) -> Rows:
    """The rows, of which those of some numbers are marked unreadable and refer to nothing."""
    starts = part_starts(rows)
    gone = set(lost)
    counts = array("I", rows.part_counts)
    blocks = bytearray()
    slots = array("H")
    for row in range(rows.row_count):
        if row in gone:
            counts[row] = 0
            continue
        first, last = starts[row], starts[row + 1]
        blocks += rows.part_blocks[first * BLOCK_ID_BYTES : last * BLOCK_ID_BYTES]
        slots.extend(rows.part_slots[first:last])
    return Rows(
        directory=rows.directory,
        names=rows.names,
        row_count=rows.row_count,
        stats=rows.stats,
        part_counts=counts,
        targets=rows.targets,
        xattrs=rows.xattrs,
        flags=rows.flags,
        states={**rows.states, **dict.fromkeys(lost, UNREADABLE)},
        extents={row: some for row, some in rows.extents.items() if row not in gone},
        part_blocks=bytes(blocks),
        part_slots=slots,
        signatures=rows.signatures,
        signature_name=rows.signature_name,
    )


def _lost_range(snapshot: Snapshot, number: int) -> LostRange:
    page = snapshot.pages[number]
    before = None
    if number + 1 < len(snapshot.pages):
        after = snapshot.pages[number + 1]
        before = join_path(after.first_directory, after.first_name)
    return LostRange(join_path(page.first_directory, page.first_name), before, page.row_count)
