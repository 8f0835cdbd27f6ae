"""Options that select snapshots, what they select, and snapshots as JSON objects.

Snapshots that were found false are never selected by rules or as `latest`. Each listing is compared
with the newest snapshots that the cache folder remembers (`repo.newest_known`).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from strongroom.base.clock import utc_text
from strongroom.base.errors import (
    DamageError,
    FalseSnapshotError,
    PathNotFoundError,
    SetBackError,
    SnapshotNotFoundError,
)
from strongroom.base.printable import printable
from strongroom.cli.options import JOINED, REPEATED, moment, words
from strongroom.cli.set_aside import name_set_aside
from strongroom.cli.terminal import JsonObject, Terminal
from strongroom.engine.repository.listing.links import followed
from strongroom.engine.repository.newest_known import Behind, NewestKnown
from strongroom.engine.repository.object_owners import owner_of_object
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import Snapshot, find_snapshot, select_snapshots
from strongroom.engine.stores.capabilities import found_false

if TYPE_CHECKING:
    from strongroom.engine.repository.listing.reader import Listing

_Result = TypeVar("_Result")
# What snapshots can be grouped by: the keys of GROUP_PARTS in engine.prune.forget.
GROUPED_BY: Final = ("host", "job", "tags", "paths")


def add_snapshot_filters(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the options that filter snapshots."""
    group = parser.add_argument_group("which snapshots")
    group.add_argument("--host", metavar="NAME", help="only those of the client of this name")
    group.add_argument("--job", metavar="NAME", help="only those of this job")
    group.add_argument(
        "--path",
        metavar="PATH",
        **REPEATED,
        help="only those made of this path (several: of all of them)",
    )
    group.add_argument(
        "--tag",
        metavar="TAG[,TAG]",
        type=words,
        **JOINED,
        help="only those with this tag (several: with all of them)",
    )
    group.add_argument(
        "--before",
        metavar="TIME",
        type=moment,
        help="only those begun at or before TIME: a date, a date and time, or how long ago (7d)",
    )
    group.add_argument(
        "--false",
        action="store_true",
        help="accept a snapshot that was found false, if its whole id is given",
    )


def snapshot_filter(
    arguments: argparse.Namespace,
) -> Callable[[Iterable[Snapshot]], list[Snapshot]]:
    """The filter that the options define; it keeps the order."""
    # Backups make relative paths absolute; so do we.
    typed = [normal_path(os.path.abspath(path)) for path in arguments.path]
    paths = tuple((path, resolved_path(path)) for path in typed)

    def choose(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
        return select_snapshots(
            snapshots,
            host=arguments.host,
            job=arguments.job,
            paths=paths,
            tags=tuple(arguments.tag),
            before_ns=arguments.before,
        )

    return choose


class SnapshotChoice:
    """The snapshots that the options select, and what is known against them and the store.

    snapshots: without pages, the oldest first; without those that were found false, which are in
    `false`. behind: clients of which the store shows less than this machine knows of.
    """

    def __init__(
        self, arguments: argparse.Namespace, repository: Repository, *, anew: bool = False
    ) -> None:
        """anew: see `Repository.snapshots`. Raises DamageError, StoreError, UsageError."""
        ids = found_false(repository.store)
        self._repository = repository
        self._host: str | None = arguments.host
        # What was found false is listed as such, whether it decodes or not.
        self.set_aside = SetAside(ids)
        everything = repository.snapshots(self.set_aside, anew=anew)
        unverified = (
            repository.store.unverified("snapshots") if len(self.set_aside) else frozenset()
        )
        self._damaged = [one for one in self.set_aside.names("snapshots") if one not in unverified]
        fitting = snapshot_filter(arguments)(everything)
        self.snapshots = [one for one in fitting if one.id not in ids]
        self.false = [one for one in fitting if one.id in ids]
        # What does not decode has no fields that options could select by.
        self.undecodable = sorted(ids - {one.id for one in everything})
        self.behind: list[Behind] = []
        self._accepts_false = arguments.false
        self._everything = everything
        self._newest: NewestKnown | None = None
        folder = arguments.settings.cache_folder
        with suppress(OSError):
            if folder is not None:
                self._newest = NewestKnown(folder, repository.config.id)
                host, mine = arguments.host, repository.client
                self.behind = [
                    one
                    for one in self._newest.behind(everything)
                    if host in (None, one.host) and (mine is None or mine.client_id == one.owner)
                ]
                self._newest.note(everything)

    def warn(self, terminal: Terminal) -> None:
        """Say what is known against the store, and name what could not be read."""
        for one in self.behind:
            terminal.warn(one.text())
        name_set_aside(self.set_aside, self._repository, terminal)

    def find(self, wanted: str) -> Snapshot:
        """The snapshot that `latest` or the beginning of an id selects.

        Raises SnapshotNotFoundError; SetBackError for `latest` where the store shows less than
        is known, DamageError where one of that client is damaged, which may be the latest;
        FalseSnapshotError for a false one, unless its whole id was given with --false.
        """
        if wanted == "latest":
            for name in filter(self._may_be_latest, self._damaged):
                raise DamageError(
                    f"{self.set_aside.problems['snapshots', name]}; it may be the latest "
                    "snapshot: name one by its id, or forget this one"
                )
        if wanted == "latest" and self.behind and self._newest is not None:
            raise SetBackError(
                f"{self.behind[0].text()}. Name a snapshot by its id instead of `latest`; or, if "
                f"this state is correct, remove {printable(self._newest.path)}"
            )
        begun = [one for one in self.false if wanted and one.id.startswith(wanted.lower())]
        if self._accepts_false and [one.id for one in begun] == [wanted]:
            return begun[0]
        try:
            return find_snapshot(self.snapshots, wanted)
        except SnapshotNotFoundError:
            if len(begun) != 1:
                raise
            raise FalseSnapshotError(
                f"snapshot {begun[0].id} was found false: it lacks something, or its totals are "
                "not true (see the log of vouch). Forget it; or give its whole id and --false to "
                "read what is there"
            ) from None

    def _may_be_latest(self, name: str) -> bool:
        """Whether a damaged snapshot may be of the client whose latest one is wanted."""
        store, key = self._repository.store, self._repository.key
        owner = owner_of_object(store, "snapshots", name)
        hosts = {one.host for one in self.snapshots}
        if self._host is not None:
            hosts = {self._host}
        if not owner or not hosts:
            return True
        mine = [one for one in self._everything if one.host in hosts]
        # Its keys may have been changed once more since.
        generations = range(2 + max((one.generation for one in mine), default=0))
        return any(one.owner == owner for one in mine) or any(
            key.has_name(owner, host, generation) for host in hosts for generation in generations
        )

    def find_to_forget(self, wanted: str) -> Snapshot:
        """The same for removing it, which is how to proceed with a false one."""
        if wanted == "latest":
            return self.find(wanted)
        unreadable = [*self.undecodable, *self.set_aside.names("snapshots")]
        stubs = [Snapshot(host="", id=name) for name in unreadable]
        return find_snapshot([*self.snapshots, *self.false, *stubs], wanted)

    def forgotten(self, ids: Iterable[str]) -> None:
        """Some were removed on purpose: no one is to be warned that they are gone."""
        with suppress(OSError):
            if self._newest is not None:
                self._newest.forget(ids, self._everything)


def chosen_snapshot(
    arguments: argparse.Namespace, repository: Repository, terminal: Terminal, wanted: str
) -> Snapshot:
    """The snapshot that `wanted` selects (see `Choice.find`), with its pages. KeyRightError."""
    choice = SnapshotChoice(arguments, repository)
    # The error of `latest` says most of it.
    if wanted != "latest":
        choice.warn(terminal)
    found = choice.find(wanted)
    if wanted == "latest":
        choice.warn(terminal)
    return repository.snapshot(found.id)


class SnapshotPath(NamedTuple):
    """`SNAPSHOT[:PATH]` of a command line; path: as typed, None where there is no colon."""

    snapshot: str
    path: str | None

    @property
    def inside(self) -> bytes:
        """The path in the form of listings, b"" for all of the snapshot."""
        return normal_path(self.path or "")

    @property
    def enters(self) -> bool:
        """Whether a slash at its end means the folder behind a link."""
        return bool(self.inside) and (self.path or "").endswith("/")


def snapshot_path(text: str) -> SnapshotPath:
    """The type of an argument `SNAPSHOT[:PATH]`."""
    snapshot, colon, path = text.partition(":")
    return SnapshotPath(snapshot, path if colon else None)


def normal_path(path: str) -> bytes:
    """An absolute path in the form of listings: without the slashes around it, b"" for the root."""
    return os.path.normpath(b"/" + os.fsencode(path)).strip(b"/")


def resolved_path(path: bytes) -> bytes:
    """A path as backups have it: with the links on the way to it resolved, as they are here."""
    above, name = os.path.split(b"/" + path)
    return os.path.join(os.path.realpath(above), name).strip(b"/")


def found_path(listing: Listing, path: bytes, *, enters: bool = False) -> bytes:
    """The path as typed, as links here lead or as those in the snapshot do, whichever it has.

    enters: it was typed with a slash at its end, which means the folder behind a link.
    """
    ways = tuple(dict.fromkeys((path, resolved_path(path))))
    exact = [way for way in ways if listing.lookup(way) is not None]
    for way in (*exact, *ways):
        found = followed(listing, way, enters=enters)
        if found is not None:
            return found
    return path


def path_in(
    repository: Repository, snapshot: Snapshot, path: bytes, *, enters: bool = False
) -> bytes:
    """The same for a command that has not read the listing yet."""
    from strongroom.engine.repository.listing.reader import Listing

    reader = repository.reader_of(snapshot, repository.kept_index())
    return found_path(Listing.of(snapshot, reader, takes_any_xattrs=True), path, enters=enters)


def at_place(
    place: SnapshotPath,
    repository: Repository,
    snapshot: Snapshot,
    work: Callable[[bytes], _Result],
) -> tuple[bytes, _Result]:
    """The path of `place` in the snapshot, and what `work` gives for it.

    As typed, or where the snapshot has no such path as links lead; so most commands need not read
    the listing for that. Raises what `work` does, PathNotFoundError for a path that is nowhere.
    """
    path = place.inside
    if place.enters:
        path = path_in(repository, snapshot, path, enters=True)
    try:
        return path, work(path)
    except PathNotFoundError:
        found = path_in(repository, snapshot, path, enters=place.enters)
        if found == path:
            raise
        return found, work(found)


def shown_path(path: bytes) -> bytes:
    """A path of a listing as an absolute path."""
    return b"/" + path


def snapshot_object(snapshot: Snapshot, *, is_false: bool = False) -> JsonObject:
    """A snapshot for `Terminal.emit`; docs/reference/json-output.md says what the fields mean."""
    totals = snapshot.totals
    return {
        "type": "snapshot",
        "id": snapshot.id,
        "time": utc_text(snapshot.start_ns),
        "end_time": utc_text(snapshot.end_ns),
        "server_time": utc_text(snapshot.server_ns) if snapshot.server_ns else None,
        "host": snapshot.host,
        "job": snapshot.job,
        "fileset": snapshot.fileset,
        "level": snapshot.level,
        "parent": snapshot.parent or None,
        "original": snapshot.original or None,
        "tags": list(snapshot.tags),
        "paths": [shown_path(path) for path in snapshot.paths],
        "files": totals.files,
        "directories": totals.directories,
        "others": totals.others,
        "size_bytes": totals.content_bytes,
        "stored_bytes": totals.stored_bytes,
        "errors": snapshot.error_count,
        "missing_paths": snapshot.missing_paths,
        "protected": snapshot.protected,
        "false": is_false,
        "engine_version": snapshot.engine_version,
    }
