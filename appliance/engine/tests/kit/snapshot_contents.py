"""All that a snapshot holds, by path, for comparing."""

from __future__ import annotations

from strongroom.base.errors import DamageError
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.repository import Repository
from strongroom.engine.rows.views import views

Contents = dict[bytes, tuple[int, int, bytes, bytes]]


def contents(repository: Repository, snapshot_id: str) -> Contents:
    """Mode, time, link target and data of each path; DamageError when anything is amiss."""
    snapshot = repository.snapshot(snapshot_id)
    reader = repository.reader_of(snapshot, repository.load_index(owner=snapshot.owner))
    found: Contents = {}
    for groups in Listing(snapshot.pages, reader).pages():
        for rows in groups:
            for view in views(rows):
                data = b"".join(bytes(reader.chunk(block, slot)) for block, slot in view.parts)
                if view.parts and view.extents is None and len(data) != view.size:
                    raise DamageError(f"{view.path!r} has {len(data)} bytes, not {view.size}")
                found[view.path] = (view.mode, view.mtime_ns, view.target, data)
    return found
