"""Copies of the catalog as snapshots, and the way back from a damaged or lost catalog, in one step.

`backup catalog` writes all rows to a file, of which a job makes a snapshot together with the
configuration.

The way back: whatever can be had is tried in this order: all rows of the damaged file itself (often
only an index is damaged), the newest copy in a repository that can be read, nothing. Copies, and
nothing, are completed from the repositories. The new catalog is whole before it takes the place of
the damaged one, which stays beside it under another name. A director that runs with the damaged one
notices the change and starts again.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO, Final

import msgspec
from sqlalchemy import URL

from strongroom.base import clock
from strongroom.base.errors import (
    CatalogError,
    CatalogUnavailableError,
    ConflictError,
    DamageError,
    OperatingSystemError,
    StrongroomError,
    UsageError,
)
from strongroom.director.catalog.database import (
    catalog_url,
    open_catalog,
    open_damaged,
)
from strongroom.director.catalog.portable import read_portable, write_portable
from strongroom.director.configuration import LoadedConfiguration, open_context, repository_places
from strongroom.director.context import DirectorContext
from strongroom.director.repositories.access import Repositories
from strongroom.director.results.runs import Run
from strongroom.director.results.snapshots import Snapshot
from strongroom.director.snapshots.reconciliation import reconcile
from strongroom.engine.inspect.file_content import FileContent
from strongroom.engine.repository.keys.roles import required_appliance_key
from strongroom.engine.repository.listing.reader import Listing
from strongroom.engine.repository.object_owners import owner_of_object
from strongroom.engine.repository.repository import Repository
from strongroom.engine.repository.set_aside import SetAside
from strongroom.engine.repository.snapshots import CATALOG_TAG, list_snapshots, read_snapshot
from strongroom.engine.repository.snapshots import Snapshot as StoredSnapshot
from strongroom.engine.rows.views import views
from strongroom.engine.stores.capabilities import KnowsOwners

CATALOG_JOB: Final = "catalog"
CATALOG_FILE: Final = "catalog.jsonl"
_FOLLOWERS: Final = ("-wal", "-shm")
_PIECE_BYTES: Final = 1 << 20

_log = logging.getLogger(__name__)


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What was done. source: sound (nothing was wrong), file, copy or repositories.

    snapshot: of the copy. aside: where the damaged file is now. entered: snapshots by Storage that
    were added from repositories. failed: storages that could not be read, and why.
    """

    source: str
    rows: int = 0
    snapshot: str = ""
    snapshot_ns: int = 0
    aside: str = ""
    entered: dict[str, int] = {}
    failed: dict[str, str] = {}


def recover_catalog(path: str, loaded: LoadedConfiguration) -> Recovered:
    """Recover the catalog of the configuration at `path`. Raises UsageError, CatalogError."""
    settings = loaded.settings
    url = catalog_url(settings.catalog, settings.director.working_folder)
    if url.get_backend_name() != "sqlite" or not url.database:
        raise UsageError(
            "the catalog is in PostgreSQL: restore the database from its own backup, then run "
            "`strongroom catalog rebuild`"
        )
    if os.path.exists(url.database) and os.path.getsize(url.database) and _is_sound(url):
        return Recovered(source="sound")
    try:
        made = _fill(url, Repositories(repository_places(settings)), settings.director.name)
    except BaseException:
        _remove(_new(url.database))
        raise
    aside = _put_in_place(url.database)
    entered: dict[str, int] = {}
    failed: dict[str, str] = {}
    if made.source != "file":
        context = open_context(path, None, loaded)
        try:
            for name in context.repositories.names:
                try:
                    entered[name] = len(reconcile(context, name, rebuilds=True).entered)
                except CatalogUnavailableError:
                    raise
                except (StrongroomError, OSError) as error:
                    failed[name] = str(error)
        finally:
            context.close()
    return msgspec.structs.replace(made, aside=aside, entered=entered, failed=failed)


def _is_sound(url: URL) -> bool:
    catalog = open_damaged(url)
    try:
        catalog.check()
        with catalog.reading() as connection:
            # Something else than a catalog is refused when the director starts, and not moved away.
            tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar()
    except CatalogError as error:
        _log.warning("%s", error)
        return False
    else:
        return bool(tables)
    finally:
        catalog.close()


def _remove(database: str) -> None:
    for end in ("", *_FOLLOWERS):
        with suppress(FileNotFoundError):
            os.unlink(database + end)


def _new(database: str) -> str:
    return database + ".recovered"


def _fill(url: URL, repositories: Repositories, director: str) -> Recovered:
    """Make the new catalog beside the old one."""
    os.makedirs(os.path.dirname(url.database or ""), mode=0o700, exist_ok=True)
    new_url = url.set(database=_new(url.database or ""))

    def attempt(write: Callable[[BinaryIO], object]) -> int:
        """Fill a new catalog from what `write` writes. Raises StrongroomError, OSError."""
        _remove(new_url.database or "")
        with tempfile.TemporaryFile(dir=os.path.dirname(url.database or "")) as file:
            write(file)
            is_empty = not file.tell()
            file.seek(0)
            catalog = open_catalog(new_url)
            try:
                rows = 0 if is_empty else read_portable(catalog, file)
                catalog.check()
            finally:
                catalog.close()
            return rows

    if os.path.exists(url.database or ""):
        try:
            return Recovered(source="file", rows=attempt(lambda file: _write_damaged(url, file)))
        except (StrongroomError, OSError, ValueError) as error:
            _log.warning("not everything in the damaged file can be read: %s", error)
    failed: dict[str, str] = {}
    for repository, snapshot in _copies(repositories, director, failed):
        try:
            rows = attempt(lambda file: _write_copy(repository, snapshot, file))  # noqa: B023
        except (StrongroomError, OSError, ValueError) as error:
            _log.warning("the copy in snapshot %s cannot be used: %s", snapshot.id[:8], error)
            continue
        return Recovered(
            source="copy", rows=rows, snapshot=snapshot.id, snapshot_ns=snapshot.start_ns
        )
    if failed:
        # The copy may be there; afterwards no one would look for it.
        name, why = next(iter(failed.items()))
        raise CatalogError(
            f"no copy of the catalog was found, and storage {name} could not be read: {why}. Fix"
            "that and recover again; nothing was changed. Without that storage: move the file of "
            "the catalog away, start the director, then `strongroom catalog rebuild`"
        )
    attempt(lambda _: None)
    return Recovered(source="repositories")


def _write_damaged(url: URL, file: BinaryIO) -> None:
    catalog = open_damaged(url)
    try:
        if not write_portable(catalog, file):
            raise CatalogError("it holds nothing")
    finally:
        catalog.close()


def _copies(
    repositories: Repositories, director: str, failed: dict[str, str]
) -> Iterator[tuple[Repository, StoredSnapshot]]:
    """The copies of all repositories, the newest first; each is open while it is used.

    failed: gets the storages that could not be read, and why.
    """
    found: list[tuple[StoredSnapshot, Repository]] = []
    try:
        for name in repositories.names:
            try:
                repository = repositories.open(name)
            except (StrongroomError, OSError) as error:
                failed[name] = str(error)
                continue
            try:
                snapshots = _readable_snapshots(repository, director)
                knowing = repository.store.capability(KnowsOwners)
                owners = {} if knowing is None else knowing.owners("snapshots")
            except (StrongroomError, OSError) as error:
                failed[name] = str(error)
                repository.close()
                continue
            mine = [
                one
                for one in snapshots
                if (one.host, one.generation, one.job) == (director, 0, CATALOG_JOB)
                and CATALOG_TAG in one.tags
                # One that an agent stored would bring its own tokens along.
                and "" in owners.get(one.id, {""})
            ]
            found += [(one, repository) for one in mine]
        for snapshot, repository in sorted(found, key=lambda one: -one[0].start_ns):
            yield repository, snapshot
    finally:
        for repository in {id(one): one for _, one in found}.values():
            repository.close()


def _readable_snapshots(repository: Repository, director: str) -> list[StoredSnapshot]:
    """All that can be read; DamageError where one cannot that may be the director's newest."""
    store = repository.store
    unread = SetAside()
    snapshots = list_snapshots(store, repository.key, set_aside=unread)
    own = required_appliance_key(repository.key).client_id(director)
    unverified = store.unverified("snapshots") if len(unread) else frozenset()
    for (_, name), problem in unread.problems.items():
        owner = owner_of_object(store, "snapshots", name)
        if owner == own or (not owner and name not in unverified):
            raise DamageError(problem)
    return snapshots


def _write_copy(repository: Repository, listed: StoredSnapshot, file: BinaryIO) -> None:
    snapshot = read_snapshot(repository.store, repository.key, listed.id, pages=True)
    reader = repository.reader_of(snapshot, repository.kept_index())
    wanted = CATALOG_FILE.encode()
    for rows in Listing(snapshot.pages, reader).rows():
        for row in views(rows):
            if row.name == wanted and row.path.endswith(b"/" + wanted):
                content = FileContent(row, reader)
                offsets = range(0, content.size, _PIECE_BYTES)
                file.writelines(content.read(offset, _PIECE_BYTES) for offset in offsets)
                return
    raise ConflictError(f"snapshot {snapshot.id[:8]} holds no {CATALOG_FILE}")


def _put_in_place(database: str) -> str:
    """Put the new catalog in the place of the old one; where that is now, "" without one."""
    stamp = clock.utc_text(clock.now_ns())[:19].replace(":", "")
    aside = f"{database}.damaged-{stamp}"
    is_there = os.path.exists(database)
    try:
        for end in _FOLLOWERS:
            # They belong to the old file; the new one must not find them.
            with suppress(FileNotFoundError):
                os.rename(database + end, aside + end)
        if is_there:
            os.rename(database, aside)
        os.rename(_new(database), database)
        descriptor = os.open(os.path.dirname(database), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise OperatingSystemError(f"the new catalog cannot replace it: {error}") from error
    return aside if is_there else ""


def write_catalog(context: DirectorContext, folder: str) -> int:
    """Write all rows to a file in a folder; how many there are. Blocks.

    Raises CatalogDamagedError: a copy of a damaged catalog would displace a good one.
    """
    context.catalog.check()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, CATALOG_FILE), "wb") as file:
        return write_portable(context.catalog, file)


def catalog_snapshot(context: DirectorContext, storage: str, name: str, record: Run) -> Snapshot:
    """The entry of the snapshot that a run made of the catalog. Blocks."""
    repository = context.repositories.open(storage)
    try:
        snapshot = read_snapshot(repository.store, repository.key, name)
    finally:
        repository.close()
    return Snapshot(
        id=name,
        client=context.name,
        job=CATALOG_JOB,
        storage=storage,
        pool=record.pool,
        run=record.id,
        start_ns=snapshot.start_ns,
        server_ns=snapshot.server_ns or clock.now_ns(),
        files=snapshot.totals.files,
        bytes=snapshot.totals.content_bytes,
        stored_bytes=snapshot.totals.stored_bytes,
        tags=snapshot.tags,
    )
