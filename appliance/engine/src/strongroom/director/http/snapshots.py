"""Snapshots and their content: list, browse, search, restore, forget."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from strongroom.base.errors import NotPermittedError, StrongroomError, UsageError
from strongroom.director.http.bodies import (
    Cursor,
    FilesFound,
    NewRestore,
    Page,
    PageSize,
    filtered_page,
)
from strongroom.director.http.request_context import ApiRequest, Asked
from strongroom.director.http.rights import checked_target
from strongroom.director.results.formats import Base64Path, chosen_path, path_bytes
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import (
    File,
    FileChange,
    FileTraits,
    RestoreRequest,
    Snapshot,
    SnapshotFilter,
)
from strongroom.director.runs.requests import restore_jobs

router = APIRouter(tags=["snapshots"])

# Characters of a path in a query; even if all of them are escaped the head of a request stays below
# http_connection.LARGEST_HEAD_BYTES.
LONGEST_PATH = 8192

PathQuery = Annotated[str, Query(max_length=LONGEST_PATH, description="An absolute path.")]
PathBase64Query = Annotated[
    str,
    Query(max_length=2 * LONGEST_PATH, description="The same in base64, if it is not UTF-8."),
]


def _path(path: PathQuery = "/", path_base64: PathBase64Query = "") -> bytes:
    return chosen_path(path, path_base64)


def _below(below: PathQuery = "/", below_base64: PathBase64Query = "") -> bytes:
    return chosen_path(below, below_base64)


# Of two parameters of a query each.
Path = Annotated[bytes, Depends(_path)]
FolderBelow = Annotated[bytes, Depends(_below)]
# How many snapshots, the newest first, a search examines for a caller who may not see all.
_SEARCHED_SNAPSHOTS = 10_000


@dataclass(frozen=True, slots=True)
class SnapshotsOf:
    """Whose snapshots are asked for; what is empty does not matter."""

    client: str = ""
    job: str = ""
    fileset: str = ""


@dataclass(frozen=True, slots=True)
class SnapshotsWanted(SnapshotsOf):
    """Which snapshots are asked for."""

    pool: str = ""
    removed: bool = False
    copies: bool = True
    false: bool = True


@router.get("/snapshots")
async def snapshots(
    asked: Asked,
    wanted: Annotated[SnapshotsWanted, Depends()],
    after: Cursor = "",
    limit: PageSize = 100,
) -> Page[Snapshot]:
    """Snapshots that the caller may see, by when they began, the newest first.

    With `removed` forgotten ones too; without `copies` copies only where the original is gone;
    without `false` none that was found false.
    """
    asked.rights.require_command("snapshots")
    of_clients, of_jobs = await asked.names_in_sight(asked.director.snapshots.names)

    async def read(offset: int, count: int) -> list[Snapshot]:
        return await asked.director.snapshots.find(
            SnapshotFilter(
                client=wanted.client,
                job=wanted.job,
                fileset=wanted.fileset,
                pool=wanted.pool,
                of_clients=of_clients,
                of_jobs=of_jobs,
                with_removed=wanted.removed,
                with_copies=wanted.copies,
                with_false=wanted.false,
                limit=count,
                offset=offset,
            )
        )

    found, following = await filtered_page(read, asked.may_see, after, limit)
    return Page(items=found, next=following)


@router.get("/missed-snapshots")
async def missed_snapshots(asked: Asked) -> list[Snapshot]:
    """Snapshots that are gone, the newest known of their client and job in a storage.

    There is none newer, and no one removed them here: the store may have been set back.
    """
    asked.rights.require_command("snapshots")
    missed = await asked.director.snapshots.missed()
    return [one for one in missed if asked.may_see(one)]


@router.get("/snapshots/{snapshot_id}")
async def snapshot(snapshot_id: str, asked: Asked) -> Snapshot:
    """One snapshot, by its id or an unambiguous beginning of it."""
    asked.rights.require_command("snapshots")
    return await asked.visible_snapshot(snapshot_id)


@router.delete("/snapshots/{snapshot_id}")
async def forget(snapshot_id: str, asked: Asked) -> Snapshot:
    """Remove a snapshot, unless Minimum Retention keeps it, which no one can override."""
    asked.rights.require_command("forget")
    found = await asked.visible_snapshot(snapshot_id)
    return await asked.director.commands.forget_snapshot(found.id, asked.actor)


@router.get("/snapshots/{snapshot_id}/files")
async def files(
    snapshot_id: str,
    asked: Asked,
    path: Path,
    after: PathQuery = "",
    limit: PageSize = 1000,
) -> Page[File]:
    """The entries directly in a directory of a snapshot, in the listing's order."""
    asked.rights.require_command("browse")
    found = await asked.visible_snapshot(snapshot_id)
    page = await asked.director.snapshots.list_files(found.id, path, _name_of_cursor(after), limit)
    # A name may have any byte but "/"; base64 fits into a query unchanged.
    following = base64.urlsafe_b64encode(page.next).decode("ascii") if page.next else None
    return Page(items=list(page.entries), next=following)


@router.get("/snapshots/{snapshot_id}/changes")
async def changes(
    snapshot_id: str,
    asked: Asked,
    since: Annotated[str, Query(description="The snapshot to compare from.")],
    path: Path,
    after: Cursor = "",
    limit: PageSize = 1000,
) -> Page[FileChange]:
    """What differs between two snapshots of a storage below a directory, in listing order."""
    asked.rights.require_command("browse")
    newer, older = await asked.visible_snapshot(snapshot_id), await asked.visible_snapshot(since)
    skip = int(after or 0)
    found = await asked.director.snapshots.compare(older.id, newer.id, path, limit + 1, skip)
    following = str(skip + limit) if len(found) > limit else None
    return Page(items=list(found[:limit]), next=following)


@router.get("/files/search")
async def search(
    asked: Asked,
    name: Annotated[str, Query(min_length=1, max_length=1024, description="A name; *, ? and [].")],
    of: Annotated[SnapshotsOf, Depends()],
    traits: Annotated[FileTraits, Depends()],
    below: FolderBelow,
    snapshot: Annotated[str, Query(description="Only in this one.")] = "",
    ignore_case: bool = False,
    limit: PageSize = 1000,
) -> FilesFound:
    """Files by name in all snapshots that the caller may see, the newest first.

    Snapshots that cannot be searched are left out; the warnings say so.
    """
    asked.rights.require_command("browse")
    pattern = path_bytes(name)
    wanted = SnapshotFilter(
        client=of.client, job=of.job, fileset=of.fileset, limit=_SEARCHED_SNAPSHOTS
    )
    found: list[File] = []
    warnings: list[str] = []
    only = (await asked.visible_snapshot(snapshot)).id if snapshot else ""
    parts = [wanted] if only else await _visible_parts(asked, wanted)
    failures: list[StrongroomError] = []
    for part in parts:
        try:
            more = await asked.director.snapshots.find_files(
                pattern,
                part,
                only=only,
                below=below,
                ignoring_case=ignore_case,
                traits=traits,
                limit=limit - len(found),
            )
        except StrongroomError as error:
            failures.append(error)
            continue
        found += more.entries
        warnings += more.warnings
        if len(found) >= limit:
            break
    if failures and len(failures) == len(parts):
        raise failures[0]
    warnings += [f"some snapshots were left out: {failure}" for failure in failures]
    return FilesFound(items=found[:limit], warnings=warnings)


@router.post("/restores", status_code=202)
async def start_restore(wanted: NewRestore, asked: Asked) -> Run:
    """Queue a restore.

    The caller must be allowed to see the snapshot, and to use the client that the files go to, the
    folder there (Where ACL) and a Restore job, where there is any; the first such is taken. To
    keep privileges takes the command `keep-privileges`, also where the job says so.
    """
    request = await permitted_restore(wanted, asked)
    return await asked.director.commands.start_restore(request, asked.actor)


async def permitted_restore(wanted: NewRestore, asked: ApiRequest) -> RestoreRequest:
    """The restore that was asked for; NotPermittedError unless the caller may have it."""
    asked.rights.require_command("restore")
    target = checked_target(wanted.target)
    if bool(target) == wanted.in_place:
        raise UsageError("set either a target folder or in_place")
    found = await asked.visible_snapshot(wanted.snapshot)
    found = await asked.director.snapshots.restorable(found.id, wanted.storage)
    asked.require_sight(found)
    asked.rights.require("client", wanted.client or found.client)
    job = _permitted_job(asked, wanted.job, wanted.client or found.client)
    if wanted.subpath is not None and wanted.paths:
        raise UsageError("give paths or a subpath, not both")
    if "paths" in wanted.model_fields_set and not wanted.paths:
        raise UsageError("paths is empty; leave it out, or use /, for everything")
    paths = tuple(_absolute(path_bytes(path)) for path in wanted.paths)
    subpath = b"" if wanted.subpath is None else _absolute(path_bytes(wanted.subpath))
    if wanted.in_place and subpath:
        paths, subpath = (subpath,), b""
    # Before the rights, which are about where files come to lie.
    paths = await asked.director.snapshots.followed(found.id, paths)
    if subpath:
        (subpath,) = await asked.director.snapshots.followed(found.id, [subpath])
    asked.rights.require_where(target, [_plain(path) for path in paths])
    keeps_privileges = wanted.keep_privileges
    if keeps_privileges is None:
        keeps_privileges = bool(job) and asked.director.configuration.job(job).keep_privileges
    if keeps_privileges:
        asked.rights.require_command("keep-privileges")
    copies = await asked.director.snapshots.copies(found)
    return RestoreRequest(
        snapshot=found.id,
        copies=tuple(one.id for one in copies if asked.may_see(one)),
        paths=paths,
        subpath=subpath,
        job=job,
        target=target.encode(),
        **wanted.model_dump(include=_SAME),
        where=asked.rights.where_layers() if target else (),
        keeps_privileges=keeps_privileges,
    )


# Of a NewRestore, by the same names in a RestoreRequest.
_SAME: Final = {
    *("client", "in_place", "overwrite", "delete", "dry_run", "workers", "priority"),
    "maximum_bytes_per_second",
}


async def _visible_parts(asked: ApiRequest, wanted: SnapshotFilter) -> list[SnapshotFilter]:
    """Filters that together select those snapshots of `wanted` that the caller may see."""
    if asked.rights.is_unlimited:
        return [wanted]
    seen = await asked.director.snapshots.find(wanted)
    groups = dict.fromkeys(
        (one.client, one.job, one.fileset, one.pool) for one in seen if asked.may_see(one)
    )
    return [
        # Exact match: a snapshot without a job must not select those of every job.
        SnapshotFilter(
            client=client,
            job=job,
            fileset=fileset,
            pool=pool,
            exactly=True,
            limit=wanted.limit,
        )
        for client, job, fileset, pool in groups
    ]


def _permitted_job(asked: ApiRequest, name: str, client: str) -> str:
    """The Restore job to use, "" where the configuration has none. Raises NotPermittedError."""
    names = (name,) if name else restore_jobs(asked.director.configuration, client)
    allowed = next((one for one in names if asked.rights.permits("job", one)), "")
    if name:
        asked.rights.require("job", name)
    elif names and not allowed:
        raise NotPermittedError(
            "no Restore job is allowed here; the Job ACL of your Console or its Profile would have "
            "to name one"
        )
    return allowed


def _name_of_cursor(after: str) -> bytes:
    return path_bytes(Base64Path(base64=after.translate(_FROM_URL))) if after else b""


def _absolute(path: bytes) -> bytes:
    if not path.startswith(b"/") or b".." in path.split(b"/"):
        raise UsageError(f"a path of a snapshot is absolute and without `..`, not {path!r}")
    return path


def _plain(path: bytes) -> str:
    """A path in the form of a Where ACL."""
    parts = path.decode("utf-8", "surrogateescape").split("/")
    return "/" + "/".join(part for part in parts if part not in ("", "."))


_FROM_URL = str.maketrans("-_", "+/")
