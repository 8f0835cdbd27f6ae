"""How rows become tasks of a size that keeps all children busy to the end."""

from __future__ import annotations

from array import array

from strongroom.engine.processes.windows import TASK_BYTES, Marks, Windows
from strongroom.engine.rows.rows import COLUMN_COUNT, new_rows

WORKERS = 2
DIRECTORIES = 600
FILES = 8
FILE_BYTES = 256 << 10


def tasks(total_bytes: int) -> list[tuple[list[bytes], int]]:
    """The places and the bytes of each task."""
    submitted = []

    def submit(entries, marks, row_count, content_bytes) -> None:
        assert row_count == FILES * len(entries)
        submitted.append(([entry.place for entry in entries], content_bytes))

    windows = Windows(submit, Marks(), total_bytes, WORKERS)
    for number in range(DIRECTORIES):
        names = [b"%d" % file for file in range(FILES)]
        rows = new_rows(b"%d" % number, names, array("q", [0]) * (COLUMN_COUNT * FILES))
        rows.part_blocks = number.to_bytes(24, "little")
        windows.add(rows.directory, rows, set(), FILES * FILE_BYTES, is_new=True)
    windows.flush()
    return submitted


def test_every_directory_is_in_one_task_in_order():
    for total_bytes in (0, DIRECTORIES * FILES * FILE_BYTES):
        places = [place for some, _ in tasks(total_bytes) for place in some]
        assert places == [b"%d" % number for number in range(DIRECTORIES)]


def test_the_first_and_the_last_tasks_are_small():
    sizes = [size for _, size in tasks(DIRECTORIES * FILES * FILE_BYTES)]
    assert max(sizes[:WORKERS]) <= TASK_BYTES / 4
    assert max(sizes[-WORKERS:]) <= TASK_BYTES / 4
    assert max(sizes) >= TASK_BYTES
    # What is left when a task begins is enough for the others, until little is left.
    left = sum(sizes)
    for size in sizes:
        assert size <= max(left / WORKERS, TASK_BYTES / 4)
        left -= size


def test_a_wrong_total_does_no_harm():
    sizes = [size for _, size in tasks(1)]
    assert sum(sizes) == DIRECTORIES * FILES * FILE_BYTES
    assert max(sizes[WORKERS:-1]) >= TASK_BYTES
