"""Finds the newest snapshot of a client that has a path which another one could not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strongroom.errors import DamageError, ObjectMissingError
from strongroom.repo.listing.reader import Listing
from strongroom.rows.left_out import is_in_folders
from strongroom.rows.rows import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strongroom.repo.repository import Repository
    from strongroom.repo.snapshots import Snapshot

MOST_PATHS: Final = 20
_MOST_SNAPSHOTS: Final = 200


def newest_with(
    repository: Repository, snapshots: Iterable[Snapshot], lacking: Snapshot, paths: Sequence[bytes]
) -> dict[bytes, Snapshot]:
    """For each path (MOST_PATHS at most) the newest snapshot of the client that has it, if any.

    lacking: the snapshot that does not. Snapshots that cannot be read are passed over. Raises
    KeyRightError, StoreError.
    """
    wanted = list(dict.fromkeys(paths))[:MOST_PATHS]
    found: dict[bytes, Snapshot] = {}
    others = [one for one in snapshots if one.owner == lacking.owner and one.id != lacking.id]
    others.sort(key=lambda one: (one.start_ns, one.id), reverse=True)
    index = repository.load_index(owner=lacking.owner) if wanted and others else None
    for one in others[:_MOST_SNAPSHOTS]:
        if len(found) == len(wanted) or index is None:
            break
        try:
            snapshot = repository.snapshot(one.id)
            listing = Listing.of(snapshot, repository.reader_of(snapshot, index), 2)
            for path in wanted:
                if path not in found and has_path(snapshot, listing, path):
                    found[path] = snapshot
        except (DamageError, ObjectMissingError):
            continue
    return found


def has_path(snapshot: Snapshot, listing: Listing, path: bytes) -> bool:
    """Whether a snapshot has a path, and its backup could read it."""
    if is_in_folders(path, snapshot.unread):
        return False
    row = listing.lookup(path)
    return row is not None and row.state != UNREADABLE
