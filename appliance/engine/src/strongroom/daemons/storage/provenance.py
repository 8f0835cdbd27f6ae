"""Provenance: the storage daemon's database of who stored what, SQLite in the repository's folder.

The repository alone says what is stored; the database says since when, by whom, and whether the
appliance has verified it. So it may lack an object (whose entry was lost in a power failure) or
name one that is gone: `reconcile` corrects that when the daemon starts. An object without an entry
has no owner and is DOUBTED: agents do not see it until the appliance has verified it.

Standing of an object: DOUBTED until the appliance has verified it, then VOUCHED, or FALSE if
verification failed: such an object is hidden from everybody. What the appliance itself stores is
VOUCHED from the start. Only verified objects are shared between agents.

Owner of an object: whoever gave the object its name, for ever. Nobody who stores the same bytes
later becomes an owner too; an object whose entry was lost has none.

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
    standing integer not null, owner text, primary key (kind, name)) without rowid;
create index owned_by on objects (owner, kind, name);
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
    ) -> None:
        """Record that `owner` has given an object its name; the entry of an earlier one goes."""
        with self._transaction() as database:
            database.execute(
                "insert or replace into objects values (?, ?, ?, ?, ?, ?)",
                (kind, name, size, stored_ns, VOUCHED if vouched else DOUBTED, owner),
            )

    def replaced(
        self, kind: Kind, name: str, size: int, owner: str, stored_ns: int
    ) -> tuple[str, int] | None:
        """Record that an object has other content; owner and time stay where it has an entry.

        Returns its owner and its size before.
        """
        with self._transaction() as database:
            before = database.execute(
                "select owner, size from objects where kind = ? and name = ?", (kind, name)
            ).fetchone()
            database.execute(
                "insert into objects values (?, ?, ?, ?, ?, ?) "
                "on conflict do update set size = excluded.size",
                (kind, name, size, stored_ns, DOUBTED if owner else VOUCHED, owner),
            )
            return None if before is None or before[0] is None else (before[0], before[1])

    def forget(self, kind: Kind, name: str) -> tuple[str, int] | None:
        """Delete the entry of an object that was deleted; returns its owner and its size.

        None when there is nobody whose quota it counted against.
        """
        with self._transaction() as database:
            gone = database.execute(
                "select owner, size from objects where kind = ? and name = ?", (kind, name)
            ).fetchone()
            database.execute("delete from objects where kind = ? and name = ?", (kind, name))
            return None if gone is None or gone[0] is None else (gone[0], gone[1])

    def owner(self, kind: Kind, name: str) -> str | None:
        """Who gave an object its name, "" for the appliance; None when that is not known."""
        rows = self._rows("select owner from objects where kind = ? and name = ?", (kind, name))
        return rows[0][0] if rows else None

    def is_owned(self, kind: Kind, name: str, owner: str) -> bool:
        """Whether `owner` gave this object its name."""
        return self.owner(kind, name) == owner

    def owned(self, kind: Kind, owner: str) -> set[str]:
        """Names of the objects of `owner`."""
        rows = self._rows("select name from objects where owner = ? and kind = ?", (owner, kind))
        return {row[0] for row in rows}

    def owners(self, kind: Kind) -> list[tuple[str, str]]:
        """The owner of each object of a kind that has one: name and owner."""
        return self._rows(
            "select name, owner from objects where kind = ? and owner is not null", (kind,)
        )

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
            "select owner, count(*), sum(size) from objects where owner is not null group by owner",
            (),
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
                "insert into objects values (?, ?, ?, ?, ?, null)",
                [(kind, info.name, info.size_bytes, info.modified_ns, DOUBTED) for info in new],
            )
            gone = [(kind, name) for name in known - names]
            database.executemany("delete from objects where kind = ? and name = ?", gone)
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
