"""Provenance: the storage daemon's database of who stored what, SQLite in the repository's folder.

The repository alone says what is stored; the database says since when, by whom, and whether the
appliance has verified it. So it may lack an object (whose entry was lost in a power failure) or
name one that is gone: `reconcile` corrects that when the daemon starts. An object without an entry
has no owner and is DOUBTED: agents do not see it until the appliance has verified it.

Standing of an object: DOUBTED until the appliance has verified it, then VOUCHED, or FALSE if
verification failed: such an object is hidden from everybody. What the appliance itself stores is
VOUCHED from the start. Only verified objects are shared between agents.

One connection, one lock. Entries are in the kernel's buffers when `record` returns and on stable
storage after `sync`, as objects are.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from strongroom.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strongroom.stores.store import Kind, ObjectInfo

DOUBTED: Final = 0
VOUCHED: Final = 1
FALSE: Final = 2
FOLDER: Final = b"provenance"

SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
create table objects (kind text, name text, size integer not null, stored_ns integer not null,
    standing integer not null, primary key (kind, name)) without rowid;
create table holders (kind text, name text, owner text, primary key (owner, kind, name))
    without rowid;
create index holders_of on holders (kind, name);
create index standing_of on objects (kind, standing);
"""


def book_path(repository: bytes) -> bytes:
    """The file of the provenance database of a repository folder."""
    return os.path.join(repository, FOLDER, b"objects.sqlite")


class Provenance:
    """See the module's docstring. The appliance's own name is ""."""

    def __init__(self, repository: bytes) -> None:
        """Opens or creates the database of a repository folder. Raises StoreError."""
        self._path = book_path(repository)
        folder = os.path.dirname(self._path)
        self._lock = threading.Lock()
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._database = sqlite3.connect(
                os.fsdecode(self._path), check_same_thread=False, isolation_level=None, timeout=30.0
            )
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"could not open {os.fsdecode(self._path)}: {error}; fix the cause and start again"
            ) from error

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def sync(self) -> None:
        """Return when everything recorded so far is on stable storage."""
        try:
            # In this mode SQLite appends to the log without syncing; a log on the disk is all
            # that it needs to recover.
            descriptor = os.open(self._path + b"-wal", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"could not sync the provenance database: {error}") from error

    def record(
        self, kind: Kind, name: str, size: int, owner: str, stored_ns: int, *, vouched: bool
    ) -> bool:
        """Record that `owner` has stored an object; False when that was recorded before."""
        with self._transaction() as database:
            database.execute(
                "insert into objects values (?, ?, ?, ?, ?) on conflict do nothing",
                (kind, name, size, stored_ns, VOUCHED if vouched else DOUBTED),
            )
            if vouched:
                database.execute(
                    "update objects set standing = ? where kind = ? and name = ? and standing = ?",
                    (VOUCHED, kind, name, DOUBTED),
                )
            added = database.execute(
                "insert into holders values (?, ?, ?) on conflict do nothing", (kind, name, owner)
            )
            return added.rowcount == 1

    def forget(self, kind: Kind, name: str) -> list[tuple[str, int]]:
        """Delete the entry of an object that was deleted; returns its owners and its size."""
        with self._transaction() as database:
            gone = database.execute(
                "select owner, size from holders natural join objects where kind = ? and name = ?",
                (kind, name),
            ).fetchall()
            for table in ("holders", "objects"):
                database.execute(f"delete from {table} where kind = ? and name = ?", (kind, name))  # noqa: S608
            return gone

    def is_held(self, kind: Kind, name: str, owner: str) -> bool:
        """Whether `owner` has stored this object."""
        rows = self._rows(
            "select 1 from holders where owner = ? and kind = ? and name = ?", (owner, kind, name)
        )
        return bool(rows)

    def held(self, kind: Kind, owner: str) -> set[str]:
        """Names of what `owner` has stored."""
        rows = self._rows("select name from holders where owner = ? and kind = ?", (owner, kind))
        return {row[0] for row in rows}

    def owners(self, kind: Kind) -> list[tuple[str, str]]:
        """The owners of each object of a kind: name and owner, one pair for each owner."""
        return self._rows("select name, owner from holders where kind = ?", (kind,))

    def standing(self, kind: Kind, name: str) -> int | None:
        """The standing of an object; None when it has no entry."""
        rows = self._rows("select standing from objects where kind = ? and name = ?", (kind, name))
        return int(rows[0][0]) if rows else None

    def of_standing(self, kind: Kind, standing: int) -> set[str]:
        """Names of the objects of a kind and standing."""
        rows = self._rows(
            "select name from objects where kind = ? and standing = ?", (kind, standing)
        )
        return {row[0] for row in rows}

    def judge(self, kind: Kind, names: Iterable[str], standing: int) -> None:
        """Set the standing of objects that were verified. FALSE is final."""
        with self._transaction() as database:
            database.executemany(
                "update objects set standing = ? where kind = ? and name = ? and standing != ?",
                [(standing, kind, name, FALSE) for name in names],
            )

    def stored_ns(self, kind: Kind, name: str) -> int | None:
        """When an object was stored, by the trusted clock of the daemon."""
        rows = self._rows("select stored_ns from objects where kind = ? and name = ?", (kind, name))
        return int(rows[0][0]) if rows else None

    def move_times(self, since_ns: int, by_ns: int, latest_ns: int) -> None:
        """Shift the times of objects stored at `since_ns` or later, to `latest_ns` at most.

        Raises StoreError.
        """
        with self._transaction() as database:
            database.execute(
                "update objects set stored_ns = stored_ns + ? where stored_ns >= ?",
                (by_ns, since_ns),
            )
            database.execute(
                "update objects set stored_ns = ? where stored_ns > ?", (latest_ns, latest_ns)
            )

    def usage(self) -> dict[str, tuple[int, int]]:
        """For each owner how many objects it has stored, and their bytes."""
        rows = self._rows(
            "select owner, count(*), sum(size) from holders natural join objects group by owner", ()
        )
        return {owner: (count, size) for owner, count, size in rows}

    def reconcile(self, kind: Kind, present: list[ObjectInfo]) -> tuple[int, int]:
        """Add objects without an entry, as DOUBTED; delete entries of objects that are gone.

        Returns how many were added and deleted.
        """
        with self._transaction() as database:
            known = {
                row[0]
                for row in database.execute("select name from objects where kind = ?", (kind,))
            }
            names = {info.name for info in present}
            new = [info for info in present if info.name not in known]
            database.executemany(
                "insert into objects values (?, ?, ?, ?, ?)",
                [(kind, info.name, info.size_bytes, info.modified_ns, DOUBTED) for info in new],
            )
            gone = [(kind, name) for name in known - names]
            for table in ("holders", "objects"):
                database.executemany(f"delete from {table} where kind = ? and name = ?", gone)  # noqa: S608
            return len(new), len(gone)

    def _prepare(self) -> None:
        database = self._database
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        version = database.execute("pragma user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{os.fsdecode(self._path)} is of a newer version; upgrade this storage daemon"
            )
        if version == 0:
            database.executescript(
                f"begin immediate; {_SCHEMA} pragma user_version = {SCHEMA_VERSION}; commit;"
            )

    def _rows(self, statement: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._database.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise self._failure(error) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                self._database.execute("begin immediate")
                try:
                    yield self._database
                except BaseException:
                    self._database.execute("rollback")
                    raise
                self._database.execute("commit")
            except sqlite3.Error as error:
                if self._database.in_transaction:
                    self._database.execute("rollback")
                raise self._failure(error) from error

    def _failure(self, error: sqlite3.Error) -> StoreError:
        return StoreError(
            f"the provenance database {os.fsdecode(self._path)} failed: {error}; free space "
            "there or fix the cause, then run the same command again"
        )
