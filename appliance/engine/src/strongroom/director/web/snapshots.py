"""Snapshots: all, the files of one, a search for a name, and what differs between two."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from strongroom.base.errors import UsageError
from strongroom.director.http import snapshots as api
from strongroom.director.http.bodies import Cursor
from strongroom.director.http.snapshots import FolderBelow, Path, PathQuery
from strongroom.director.results.formats import path_bytes
from strongroom.director.results.snapshots import ANY_FILE
from strongroom.director.web.rendering import page
from strongroom.director.web.sessions import Reader, Text

router = APIRouter()

_ON_A_PAGE = 50
_FILES_ON_A_PAGE = 500
_MOST_FOUND = 200
_MOST_CHANGES = 500


@router.get("/snapshots")
async def snapshots(
    asked: Reader, client: Text = "", job: Text = "", after: Cursor = ""
) -> Response:
    """Those that fit, the newest first."""
    wanted = api.SnapshotsWanted(client=client, job=job)
    found = await api.snapshots(asked, wanted, after, _ON_A_PAGE)
    return page(
        asked,
        "snapshots.html",
        "/snapshots",
        snapshots=found.items,
        following=found.next,
        wanted={"client": client, "job": job},
        after=after,
    )


@router.get("/snapshots/{snapshot_id}")
async def files(
    snapshot_id: str,
    asked: Reader,
    path: Path,
    after: PathQuery = "",
) -> Response:
    """A folder of a snapshot."""
    asked.rights.require_command("browse")
    snapshot = await asked.visible_snapshot(snapshot_id)
    found = await api.files(snapshot.id, asked, path, after, _FILES_ON_A_PAGE)
    entries = found.items
    own = b"/" + path.strip(b"/")
    if len(entries) == 1 and entries[0].path == own:
        # It is a file; its folder shows it.
        own = own.rpartition(b"/")[0] or b"/"
    return page(
        asked,
        "files.html",
        "/snapshots",
        snapshot=snapshot,
        folder=own,
        above=_above(own),
        entries=entries,
        after=after,
        following=found.next,
    )


def _above(folder: bytes) -> list[tuple[bytes, bytes]]:
    """The folders on the way to one and itself, each with its name."""
    found, so_far = [(b"/", b"/")], b""
    for name in folder.strip(b"/").split(b"/"):
        if name:
            so_far += b"/" + name
            found.append((so_far, name))
    return found


@router.get("/search")
async def search(
    asked: Reader,
    name: Annotated[str, Query(max_length=1024)] = "",
    client: Text = "",
    below: PathQuery = "/",
    ignore_case: bool = False,
) -> Response:
    """Files by name in all snapshots that the reader may see, once a name is given."""
    asked.rights.require_command("browse")
    found = None
    if name:
        path_bytes(name)
        found = await api.search(
            asked,
            name,
            api.SnapshotsOf(client),
            ANY_FILE,
            path_bytes(below),
            ignore_case=ignore_case,
            limit=_MOST_FOUND,
        )
    return page(
        asked,
        "search.html",
        "/search",
        found=found,
        most=_MOST_FOUND,
        name=name,
        client=client,
        below=below,
        ignore_case=ignore_case,
    )


@router.get("/compare")
async def compare(
    asked: Reader,
    before: Text,
    after: Text,
    below: FolderBelow,
) -> Response:
    """What differs between two snapshots of a storage."""
    asked.rights.require_command("browse")
    older = await asked.visible_snapshot(before)
    newer = await asked.visible_snapshot(after)
    if older.id == newer.id:
        raise UsageError("choose two different snapshots to compare")
    changes = await asked.director.snapshots.compare(older.id, newer.id, below, _MOST_CHANGES + 1)
    return page(
        asked,
        "compare.html",
        "/snapshots",
        before=older,
        after=newer,
        folder=b"/" + below.strip(b"/"),
        changes=changes[:_MOST_CHANGES],
        is_whole=len(changes) <= _MOST_CHANGES,
        most=_MOST_CHANGES,
    )
