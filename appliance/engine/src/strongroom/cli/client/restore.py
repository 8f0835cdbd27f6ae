"""`strongroom restore` through the director: files of any client's snapshot go to an agent."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from strongroom.base.errors import EXIT_DONE, SetBackError, SnapshotNotFoundError, UsageError
from strongroom.cli.client.view import (
    ApiObject,
    local_time,
    path_for_api,
    run_exit_code,
    run_line,
    short_id,
    tell_run,
)
from strongroom.cli.snapshot_choice import shown_path
from strongroom.cli.terminal import Terminal

if TYPE_CHECKING:
    from strongroom.cli.client.client import DirectorClient

# Options that only a restore without the director has.
_LOCAL_ONLY = {
    "include": "--include", "iinclude": "--iinclude", "exclude": "--exclude",
    "iexclude": "--iexclude", "path": "--path", "tag": "--tag", "before": "--before",
    "verify": "--verify", "false": "--false",
}  # fmt: skip


def add_restore_options(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the options that only a restore through the director has."""
    from strongroom.cli.client.place import add_director_options

    group = parser.add_argument_group("through the director (with --client or --director)")
    group.add_argument(
        "--client", metavar="NAME", help="the client to restore to (default: the files' own)"
    )
    group.add_argument(
        "--storage",
        metavar="NAME",
        help="read the snapshot, or its copy, from this Storage (default: its own, or one with a "
        "copy where that does not answer)",
    )
    group.add_argument(
        "--background", action="store_true", help="queue the restore and do not wait"
    )
    add_director_options(parser)


def goes_through_director(arguments: argparse.Namespace) -> bool:
    """Whether the options ask for a restore by the director."""
    return bool(arguments.client or arguments.director) and arguments.at is None


def restore_through_director(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Queue the restore and, unless --background, follow it to its end; gives the exit code."""
    from strongroom.cli.client.client import open_director
    from strongroom.cli.client.run_watch import watch_run

    body = _request(arguments)
    with open_director(arguments) as director:
        chosen = chosen_snapshot(
            director,
            body["snapshot"],
            # Without --host the client's own files are restored.
            client=arguments.host or (None if arguments.job else arguments.client),
            job=arguments.job,
        )
        if body["snapshot"] == "latest":
            begun = local_time(chosen["time"])
            terminal.message_line(
                f"the latest is {short_id(chosen['id'])} of job {chosen['job']} of "
                f"{chosen['client']}, from {begun}"
            )
        if chosen["original"] and body["snapshot"] == "latest":
            terminal.warn(
                f"{short_id(chosen['id'])} is a copy in storage {chosen['storage']}: the newest "
                "backup's original is missing, or you may not see it"
            )
        body["snapshot"] = chosen["id"]
        found = director.post("/restores", body)
        if arguments.background:
            tell_run(found, terminal)
            return EXIT_DONE
        if arguments.dry_run:
            terminal.message_line("dry run: nothing will be changed")
        terminal.message_line(run_line(found))
        found = watch_run(director, found["id"], terminal)
    tell_run(found, terminal)
    if arguments.dry_run:
        terminal.line("dry run: nothing was changed")
    return run_exit_code(found)


def chosen_snapshot(
    director: DirectorClient, wanted: str, *, client: str | None, job: str | None
) -> ApiObject:
    """The snapshot that `latest` or the beginning of an id selects, from the director's catalog.

    The latest is the newest backup by when it began, and a copy of it only if that is all there is;
    without a job it is of the only one that backs the client up. Raises UsageError where several
    do, and SetBackError where the store shows less than the director knows.
    """
    from strongroom.cli.client.client import named

    if wanted != "latest":
        return dict(director.get(f"/snapshots/{named(wanted)}"))
    if not client and not job:
        raise UsageError("`latest` needs --host CLIENT or --job JOB; or give a snapshot's id")
    job = job or _only_job(director, str(client))
    for missed in director.get("/missed-snapshots"):
        if client in (None, missed["client"]) and job in (None, missed["job"]):
            raise SetBackError(
                f"snapshot {short_id(missed['id'])} of {missed['client']}, the newest known of job "
                f"{missed['job']}, is missing from storage {missed['storage']}: it was "
                "deleted there, or the storage was set back to an earlier state. Give a snapshot's "
                "id instead of `latest`; or, if it was removed on purpose, confirm it: DELETE "
                "/api/v1/snapshots/ID"
            )
    for copies in (False, True):
        newest = director.get(
            "/snapshots", client=client, job=job, copies=copies, false=False, limit=1
        )["items"]
        if newest:
            return dict(newest[0])
    raise SnapshotNotFoundError(f"no snapshot of {client or job} that you may see")


def _only_job(director: DirectorClient, client: str) -> str | None:
    """The job that backed the client up last; None where no job of the configuration did.

    Raises UsageError where their FileSets differ: the newest of all might be one of a database.
    """
    from strongroom.cli.client.client import PAGE_SIZE

    jobs = [
        job["name"]
        for job in director.pages("/jobs", client=client, limit=PAGE_SIZE)
        if job["kind"] == "backup" and job["client"] == client and job["enabled"]
    ]
    newest = [
        one
        for job in jobs
        for one in director.get("/snapshots", client=client, job=job, limit=1)["items"]
    ]
    if len({one["fileset"] for one in newest}) > 1:
        found = ", ".join(f"{one['job']} (newest {local_time(one['time'])})" for one in newest)
        raise UsageError(
            f"{client} has backups of {len(newest)} jobs: {found}; choose with --job JOB, or give "
            "a snapshot's id"
        )
    return max(newest, key=lambda one: str(one["time"]))["job"] if newest else None


def _request(arguments: argparse.Namespace) -> ApiObject:
    for name, option in _LOCAL_ONLY.items():
        if getattr(arguments, name):
            raise UsageError(f"{option} works without the director only")
    target = arguments.target or ""
    if target and not target.startswith("/"):
        raise UsageError("--target: an absolute path on the client is wanted")
    body: ApiObject = {
        "snapshot": arguments.snapshot.snapshot,
        "client": arguments.client or "",
        **({"storage": arguments.storage} if arguments.storage else {}),
        "target": os.path.normpath(target) if target else "",
        "in_place": arguments.in_place,
        "overwrite": arguments.overwrite or "",
        "delete": arguments.delete,
        "dry_run": arguments.dry_run,
        "keep_privileges": arguments.keep_privileges or None,
        "workers": arguments.workers,
    }
    if subpath := arguments.snapshot.inside:
        body["subpath"] = path_for_api(shown_path(subpath))
    return body
