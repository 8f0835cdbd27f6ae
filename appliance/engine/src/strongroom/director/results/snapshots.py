"""Snapshots, what is in them, and a restore of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strongroom.director.results.formats import (
    AttributeName,
    Internal,
    KnownTime,
    LinkTarget,
    SnapshotPath,
    Time,
    served,
)


@served(start_ns="time", server_ns="server_time")
@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot in the catalog, including removed ones.

    original: the id of the snapshot that it is a copy of, or "". Before the time until which it is
    kept no one can remove it (Minimum Retention). false_reason: why it counts for nothing and
    nothing keeps it; "" for a sound one.
    """

    id: str
    client: str
    job: str = ""
    fileset: str = ""
    fileset_digest: Internal[str] = ""
    storage: str = ""
    pool: str = ""
    level: str = "full"
    run: str = ""
    original: str = ""
    start_ns: Time = 0
    server_ns: Time = 0
    files: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    errors: int = 0
    missing_paths: Internal[int] = 0
    tags: tuple[str, ...] = ()
    removed_ns: Time = 0
    removed_reason: Internal[str] = ""
    # Depends on the configuration: set where somebody asks (runs.retention), 0 elsewhere.
    kept_until_ns: Time = 0
    false_reason: str = ""

    @property
    def begun_ns(self) -> int:
        """When it began, but not later than the store received it."""
        return min(self.start_ns, self.server_ns) if self.server_ns else self.start_ns


@dataclass(frozen=True, slots=True)
class SnapshotFilter:
    """Which snapshots; empty fields do not filter, except names with `exactly`.

    with_copies: if not, a copy counts only where its original is gone. of_clients, of_jobs: only
    those of these, None of all.
    """

    client: str = ""
    job: str = ""
    fileset: str = ""
    of_clients: tuple[str, ...] | None = None
    of_jobs: tuple[str, ...] | None = None
    pool: str = ""
    after_ns: int = 0
    before_ns: int = 0
    with_removed: bool = False
    with_false: bool = True
    with_copies: bool = True
    exactly: bool = False
    limit: int = 100
    offset: int = 0


@served()
@dataclass(frozen=True, slots=True)
class File:
    """An entry of a snapshot. kind: file, directory, symlink and so on; target: of a link.

    xattrs: names of extended attributes, None where they are damaged. signature: hex digits.
    """

    snapshot: str
    path: SnapshotPath
    kind: str
    mode: int
    uid: int
    gid: int
    size_bytes: int
    modified_ns: KnownTime
    target: LinkTarget = b""
    state: str = ""
    changed_ns: KnownTime = 0
    inode: int = 0
    links: int = 0
    rdev: int = 0
    xattrs: tuple[AttributeName, ...] | None = ()
    flags: int = 0
    signature: str = ""


@dataclass(frozen=True, slots=True)
class FileTraits:
    """What is wanted of files besides their names; all of it inclusive, None: any.

    kinds: those of `File`, separated by commas. Sizes are those of regular files, times unix ns.
    """

    kinds: str = ""
    smallest_bytes: int | None = None
    largest_bytes: int | None = None
    earliest_ns: int | None = None
    latest_ns: int | None = None


ANY_FILE: Final = FileTraits()


@dataclass(frozen=True, slots=True)
class FilePage:
    """Entries in order; `next` is the cursor for the following ones, b"" at the end."""

    entries: tuple[File, ...]
    next: bytes = b""


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """What a search found; warnings: snapshots that it had to leave out, and why."""

    entries: tuple[File, ...]
    warnings: tuple[str, ...] = ()


@served()
@dataclass(frozen=True, slots=True)
class FileChange:
    """A path that differs between two snapshots.

    kind: added, removed, modified, metadata or retyped; what: the names of what differs. before,
    after: None where there is none.
    """

    kind: str
    path: SnapshotPath
    what: tuple[str, ...]
    before: File | None
    after: File | None


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """A restore to start.

    paths: of the snapshot, absolute; () for all; they keep their whole path below a target.
    subpath: the one path of which the content goes right into the target; b"" for none. client:
    where the files go, "" for the client they came from. target: a folder on it; b"" with
    `in_place` puts every path where it was.
    overwrite: of engine.restore_options.Overwrite, "" for the restore job's setting.
    maximum_bytes_per_second: 0 is no limit. where: the Where ACLs of the caller, which the agent
    checks against the resolved target (StartRestore). keeps_privileges: also where the files did
    not come from. copies: those of the snapshot that the caller may see, which may be taken in its
    place; None: all.
    """

    snapshot: str
    paths: tuple[bytes, ...] = ()
    subpath: bytes = b""
    client: str = ""
    job: str = ""
    target: bytes = b""
    in_place: bool = False
    overwrite: str = ""
    delete: bool = False
    dry_run: bool = False
    workers: int = 0
    priority: int = 0
    maximum_bytes_per_second: int = 0
    where: tuple[tuple[str, ...], ...] = ()
    keeps_privileges: bool = False
    copies: tuple[str, ...] | None = None
