"""Creates the plain files of a new, private directory: most of what a restore does.

Plain is a regular file with one name, in one part, with the default owner of new files and nothing
but mode and time. Such a file takes four system calls and hardly anything beside them. Whatever is
not plain, or does not work, is left to `new_entries`, which reports what is wrong with it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from strongroom.errors import DamageError
from strongroom.jobs.restore.content import write_all
from strongroom.jobs.restore.new_entries import NEW_FILE
from strongroom.rows.rows import (
    BLOCK_ID_BYTES,
    COLUMN_COUNT,
    GID,
    LINK_COUNT,
    MODE,
    MTIME_NS,
    SIZE,
    UID,
    part_starts,
)

if TYPE_CHECKING:
    from strongroom.jobs.restore.content import ContentSource
    from strongroom.jobs.restore.tally import Tally
    from strongroom.rows.rows import Rows

_PERMISSIONS: Final = 0o777
_FORMAT: Final = 0o170000
_REGULAR: Final = 0o100000
_DIRECTORY: Final = 0o040000


def create_plain(
    rows: Rows,
    skipped: frozenset[int],
    owner: tuple[int, int],
    source: ContentSource,
    tally: Tally,
) -> tuple[int, frozenset[int]]:
    """Create the plain files among `rows` in the working directory, which is new and private.

    owner: that of new entries. Returns how many were created, and those that need nothing more:
    they, the ones skipped, and directories. Raises StoreError.
    """
    columns = memoryview(rows.stats).cast("q")
    modes, uids, gids, sizes, mtimes, links = (
        columns[column::COLUMN_COUNT].tolist()
        for column in (MODE, UID, GID, SIZE, MTIME_NS, LINK_COUNT)
    )
    special = skipped.union(rows.xattrs, rows.flags, rows.extents, rows.states)
    counts, starts = rows.part_counts, part_starts(rows)
    blocks, slots = rows.part_blocks, rows.part_slots
    chunk = source.chunk
    done = set(skipped)
    created = written_bytes = 0
    for number, name in enumerate(rows.name_list()):
        mode = modes[number]
        if mode & ~_PERMISSIONS != _REGULAR:
            if mode & _FORMAT == _DIRECTORY:
                done.add(number)
            continue
        if (
            counts[number] != 1
            or links[number] != 1
            or number in special
            or (uids[number], gids[number]) != owner
        ):
            continue
        part = starts[number]
        block_id = blocks[part * BLOCK_ID_BYTES : (part + 1) * BLOCK_ID_BYTES]
        try:
            data = chunk(block_id, slots[part])
            if len(data) != sizes[number]:
                continue
            fd = os.open(name, NEW_FILE, mode & _PERMISSIONS)
        except (OSError, DamageError):
            continue
        try:
            write_all(fd, data)
            mtime_ns = mtimes[number]
            os.utime(fd, ns=(mtime_ns, mtime_ns))
        except OSError:
            os.unlink(name)
            continue
        except BaseException:
            os.unlink(name)
            raise
        finally:
            os.close(fd)
        written_bytes += sizes[number]
        created += 1
        done.add(number)
    tally.written_bytes += written_bytes
    return created, frozenset(done)
