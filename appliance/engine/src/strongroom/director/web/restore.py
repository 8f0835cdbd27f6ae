"""A restore: where files are to go, a preview of what would be written, and its start."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError

from strongroom.base.errors import StrongroomError, UsageError
from strongroom.director.http import snapshots as api
from strongroom.director.http.bodies import NewRestore
from strongroom.director.results.formats import Base64Path, path_bytes, path_text
from strongroom.director.results.snapshots import File, RestoreRequest
from strongroom.director.web.rendering import page
from strongroom.director.web.sessions import Reader, Text

router = APIRouter()

_MOST_CHOSEN = 1000
_MOST_SHOWN = 500

Paths = Annotated[list[str] | None, Query(max_length=_MOST_CHOSEN)]


class RestoredFile(NamedTuple):
    """An entry of the snapshot, and the path where it would be written."""

    file: File
    place: bytes


@router.get("/restore")
async def prepare(
    asked: Reader,
    snapshot: Text,
    path: Paths = None,
    path_base64: Paths = None,
    client: Text = "",
    way: Literal["", "folder", "content", "place"] = "",
    target: Annotated[str, Query(max_length=4096)] = "",
    overwrite: Annotated[str, Query(max_length=16)] = "",
) -> Response:
    """The form; with `way` the preview too: into a folder, a folder's content, or in place."""
    asked.rights.require_command("restore")
    found = await asked.visible_snapshot(snapshot)
    chosen = [path_bytes(one) for one in path or ()]
    chosen += [path_bytes(Base64Path(base64=one)) for one in path_base64 or ()]
    written: list[RestoredFile] = []
    body: dict[str, Any] = {}
    refused = ""
    if not chosen:
        refused = "Nothing is selected."
    elif way:
        try:
            body = _body(found.id, chosen, client, way, target, overwrite)
            request = await api.permitted_restore(NewRestore(**body), asked)
            written = await _preview(asked, request)
        except ValidationError as error:
            refused = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors()[:5])
        except StrongroomError as error:
            refused = str(error)
    return page(
        asked,
        "restore.html",
        "/snapshots",
        code=422 if refused else 200,
        snapshot=found,
        chosen=chosen,
        client=client,
        way=way,
        target=target,
        overwrite=overwrite,
        refused=refused,
        written=written[:_MOST_SHOWN],
        is_whole=len(written) <= _MOST_SHOWN,
        most=_MOST_SHOWN,
        body={} if refused else {"dry_run": body | {"dry_run": True}, "restore": body},
        is_everything=b"/" in chosen,
        is_previewed=bool(way) and not refused,
    )


@router.post("/restores")
async def start(wanted: NewRestore, asked: Reader) -> Response:
    """Queue a restore."""
    run = await api.start_restore(wanted, asked)
    return JSONResponse({"go": f"/runs/{run.id}"})


def _body(
    snapshot: str, chosen: list[bytes], client: str, way: str, target: str, overwrite: str
) -> dict[str, Any]:
    """What the API is asked for; its own rules judge it."""
    paths = [_plain(path_text(one)) for one in chosen]
    body: dict[str, Any] = {"snapshot": snapshot, "client": client, "overwrite": overwrite}
    if way == "content":
        if len(paths) != 1:
            raise UsageError("the content of one folder goes right into a target, not of several")
        body["subpath"] = paths[0]
    else:
        body["paths"] = paths
    if way == "place":
        body["in_place"] = True
    else:
        body["target"] = target
    return body


def _plain(path: str | Base64Path) -> str | dict[str, str]:
    return {"base64": path.base64} if isinstance(path, Base64Path) else path


async def _preview(asked: Reader, request: RestoreRequest) -> list[RestoredFile]:
    """The first entries that would be written, at most one more than are shown."""
    found: list[RestoredFile] = []
    base = b"" if request.in_place else request.target.rstrip(b"/")
    for path in (request.subpath,) if request.subpath else request.paths or (b"",):
        room = _MOST_SHOWN + 1 - len(found)
        if room <= 0:
            break
        files = await asked.director.snapshots.list_below(request.snapshot, path, room)
        left_out = 0
        if request.subpath:
            # The content of a folder goes into the target, a file itself.
            whole = b"/" + path.strip(b"/")
            if files[0].kind == "directory":
                files, left_out = files[1:], len(whole.rstrip(b"/"))
            else:
                left_out = len(whole.rpartition(b"/")[0])
        found += [RestoredFile(one, base + one.path[left_out:]) for one in files]
    return found
