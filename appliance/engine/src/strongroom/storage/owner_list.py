"""OwnerList: the storage daemon's database of who stored what, SQLite in the repository's folder.

The repository alone says what is stored; the database says since when, by whom, and whether the
appliance has verified it. So it may lack an object (whose entry was lost in a power failure) or
name one that is gone: `reconcile` corrects that when the daemon starts. An object without an entry
has no owner and is UNVERIFIED: agents do not see it until the appliance has verified it.

Standing of an object: UNVERIFIED until the appliance has verified it, then VERIFIED, or FALSE if
verification failed: such an object is hidden from everybody (a snapshot only from agents). What the
appliance itself stores is VERIFIED from the start. What was verified once never becomes FALSE:
no one can take the protection of Minimum Retention from it. A FALSE snapshot, which the appliance
sees and may remove at any age, becomes VERIFIED when what it lacked is there again.

Client of an object: the id in its bytes 8 to 24, zeros for what is shared; objects of other kinds
have none. What the appliance stores for a client (packs that prune rewrote) has that client's id
too, and counts against its quota. Owner of an object: the name of the agent that gave the object
its name, "" for the appliance, forever; an object whose entry was lost has none.

A client's *charge* is what shared packs hold in its place: it counts as if the client held it.

A damaged database is noticed when it is read and when the daemon starts, which then makes another
of what can be read and leaves the damaged one beside it; `reconcile` adds what is missing.

A *shared* list is that of a folder behind ssh: processes of `strongroom serve --append-only` enter
what they store, and anyone who has the folder itself reads it (`owned_folder`). There an object
without an entry is the keeper's own, and trusted; what is there when the list is made is
UNVERIFIED. So an entry is on stable storage before its object has a name, nothing is reconciled,
and a damaged list is refused.

One connection, one lock. Entries are in the kernel's buffers when `record` returns and on stable
storage after `sync`, as objects are.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from strongroom.base import clock
from strongroom.base.errors import StoreError
from strongroom.engine.stores.store import Kind, ObjectInfo

_log = logging.getLogger(__name__)

UNVERIFIED: Final = 0
VERIFIED: Final = 1
FALSE: Final = 2
FOLDER: Final = b"provenance"

SCHEMA_VERSION: Final = 1
_SCHEMA: Final = """
create table objects (kind text, name text, size integer not null, stored_ns integer not null,
    standing integer not null, owner text, client blob not null, primary key (kind, name))
    without rowid;
create index of_client on objects (client, kind, standing, name, owner);
create index standing_of on objects (kind, standing);
create table clients (client blob primary key, name text not null default '',
    charge integer not null default 0) without rowid;
"""
# Table -> its key, and places for its columns.
_COLUMNS: Final = {
    "objects": (("kind", "name"), "?, ?, ?, ?, ?, ?, ?"),
    "clients": (("client",), "?, ?, ?"),
}
_IN_MEMORY: Final = b":memory:"
# The client of objects that have none, and of those that do not say it.
NO_CLIENT: Final = b""


def owner_list_path(repository: bytes) -> bytes:
    """The file of the owner list of a repository folder."""
    return os.path.join(repository, FOLDER, b"objects.sqlite")


class StoredUsage(NamedTuple):
    """What a client has: its name, if an agent of it has connected, objects, bytes, charge."""

    name: str
    objects: int
    stored_bytes: int
    charge_bytes: int


class OwnerList:
    """Who stored which object, and its standing. The appliance's own name is ""."""

    def __init__(
        self,
        repository: bytes | None,
        stored_before: Callable[[], Iterable[tuple[Kind, ObjectInfo, bytes]]] | None = None,
    ) -> None:
        """Opens or creates the database of a repository folder. Raises StoreError.

        None: it is in memory, and knows nothing of what was stored before. stored_before: of a
        shared list, what is there when it is made: kinds, objects, clients.
        """
        self._path = _IN_MEMORY if repository is None else owner_list_path(repository)
        self._lock = threading.Lock()
        try:
            if repository is not None:
                os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            self._database = self._connect(self._path)
            if stored_before is not None:
                self._prepare_shared(stored_before)
                return
            if damage := _damage(self._database):
                self._make_anew(damage)
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
            raise StoreError(f"could not sync the owner list: {error}") from error

    def record(
        self,
        kind: Kind,
        name: str,
        size: int,
        owner: str,
        client: bytes,
        stored_ns: int,
        *,
        verified: bool,
    ) -> None:
        """Record that `owner` has given an object its name; the entry of an earlier one goes."""
        with self._transaction() as database:
            database.execute(
                "insert or replace into objects values (?, ?, ?, ?, ?, ?, ?)",
                (kind, name, size, stored_ns, VERIFIED if verified else UNVERIFIED, owner, client),
            )

    def claim(
        self, kind: Kind, name: str, size: int, owner: str, client: bytes, stored_ns: int
    ) -> bool:
        """Record an object that is about to get its name, unless it has an entry (then False).

        So nothing that can fail, or be made to fail by a full disk, comes between its name and its
        standing UNVERIFIED. An entry may be left of a deletion that did not come to its end: it
        verifies no object that comes later.
        """
        with self._transaction() as database:
            added = database.execute(
                "insert or ignore into objects values (?, ?, ?, ?, ?, ?, ?)",
                (kind, name, size, stored_ns, UNVERIFIED, owner, client),
            )
            if added.rowcount == 1:
                return True
            database.execute(
                "update objects set standing = ? where kind = ? and name = ? and standing = ?",
                (UNVERIFIED, kind, name, VERIFIED),
            )
            return False

    def replaced(
        self, kind: Kind, name: str, size: int, owner: str, client: bytes, stored_ns: int
    ) -> tuple[bytes, int] | None:
        """Record that an object has other content; owner and time stay where it has an entry.

        Returns its client and its size before.
        """
        with self._transaction() as database:
            before: tuple[bytes, int] | None = database.execute(
                "select client, size from objects where kind = ? and name = ?", (kind, name)
            ).fetchone()
            database.execute(
                "insert into objects values (?, ?, ?, ?, ?, ?, ?) "
                "on conflict do update set size = excluded.size, client = excluded.client",
                (kind, name, size, stored_ns, UNVERIFIED if owner else VERIFIED, owner, client),
            )
            return before

    def forget(self, kind: Kind, name: str) -> tuple[bytes, int] | None:
        """Delete the entry of an object that was deleted; returns its client and its size."""
        with self._transaction() as database:
            gone: tuple[bytes, int] | None = database.execute(
                "select client, size from objects where kind = ? and name = ?", (kind, name)
            ).fetchone()
            database.execute("delete from objects where kind = ? and name = ?", (kind, name))
            return gone

    def is_owned(self, kind: Kind, name: str, owner: str, client: bytes) -> bool:
        """Whether the agent `owner`, as this client, gave this object its name."""
        rows = self._rows(
            "select owner, client from objects where kind = ? and name = ?", (kind, name)
        )
        return rows == [(owner, client)]

    def owned(self, kind: Kind, owner: str, client: bytes) -> set[str]:
        """Names of the objects that the agent `owner` stored as this client."""
        rows = self._rows(
            "select name from objects where client = ? and kind = ? and owner = ?",
            (client, kind, owner),
        )
        return {row[0] for row in rows}

    def client(self, kind: Kind, name: str) -> bytes:
        """The client of an object; NO_CLIENT when it has none, or has no entry."""
        rows = self._rows("select client from objects where kind = ? and name = ?", (kind, name))
        return rows[0][0] if rows else NO_CLIENT

    def of_client(self, kind: Kind, client: bytes, least: int = UNVERIFIED) -> set[str]:
        """Names of the objects of a client, or of shared ones; `least`: UNVERIFIED or VERIFIED.

        Without those that are FALSE.
        """
        rows = self._rows(
            "select name from objects where client = ? and kind = ? and standing between ? and ?",
            (client, kind, least, VERIFIED),
        )
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
        """Set the standing of objects that were unverified, or of snapshots that were false."""
        before = FALSE if kind == "snapshots" and standing == VERIFIED else UNVERIFIED
        with self._transaction() as database:
            database.executemany(
                "update objects set standing = ? where kind = ? and name = ? "
                "and standing in (?, ?)",
                [(standing, kind, name, UNVERIFIED, before) for name in names],
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

    def usage(self) -> dict[bytes, StoredUsage]:
        """What each client has."""
        rows = self._rows(
            "select client, max(name), sum(objects), sum(bytes), sum(charge) from ("
            "select client, '' as name, count(*) as objects, sum(size) as bytes, 0 as charge "
            "from objects group by client "
            "union all select client, name, 0, 0, charge from clients) group by client",
            (),
        )
        return {client: StoredUsage(*figures) for client, *figures in rows}

    def learn_name(self, client: bytes, name: str) -> None:
        """Record the name of a client, as the certificate of its agent says."""
        rows = self._rows("select name from clients where client = ?", (client,))
        if rows != [(name,)]:
            with self._transaction() as database:
                database.execute(
                    "insert into clients (client, name) values (?, ?) "
                    "on conflict do update set name = excluded.name",
                    (client, name),
                )

    def charge(self, client: bytes, size_bytes: int) -> int:
        """Set the charge of a client; returns what it was."""
        with self._transaction() as database:
            before = database.execute(
                "select charge from clients where client = ?", (client,)
            ).fetchone()
            database.execute(
                "insert into clients (client, charge) values (?, ?) "
                "on conflict do update set charge = excluded.charge",
                (client, size_bytes),
            )
            return 0 if before is None else int(before[0])

    def names(self, kind: Kind) -> set[str]:
        """Names of all objects of a kind that have an entry."""
        return {row[0] for row in self._rows("select name from objects where kind = ?", (kind,))}

    def reconcile(
        self, kind: Kind, present: list[ObjectInfo], client_of: Callable[[ObjectInfo], bytes]
    ) -> tuple[int, int]:
        """Add objects without an entry, as UNVERIFIED; delete entries of objects that are gone.

        `client_of`: reads the client of an object. Returns how many were added and
        deleted.
        """
        with self._transaction() as database:
            known = {
                row[0]
                for row in database.execute("select name from objects where kind = ?", (kind,))
            }
            names = {info.name for info in present}
            new = [info for info in present if info.name not in known]
            database.executemany(
                "insert into objects values (?, ?, ?, ?, ?, null, ?)",
                (
                    (
                        kind,
                        one.name,
                        one.size_bytes,
                        one.modified_ns,
                        UNVERIFIED,
                        client_of(one),
                    )
                    for one in new
                ),
            )
            gone = [(kind, name) for name in known - names]
            database.executemany("delete from objects where kind = ? and name = ?", gone)
            return len(new), len(gone)

    @staticmethod
    def _connect(path: bytes) -> sqlite3.Connection:
        return sqlite3.connect(
            os.fsdecode(path), check_same_thread=False, isolation_level=None, timeout=30.0
        )

    def _make_anew(self, damage: str) -> None:
        """Put a new database in the place of the damaged one, with all rows that can be read."""
        self._database.close()
        stamp = clock.utc_text(clock.now_ns())[:19].replace(":", "")
        aside = self._path + f".damaged-{stamp}".encode()
        for end in (b"-wal", b"-shm", b""):
            with suppress(FileNotFoundError):
                os.rename(self._path + end, aside + end)
        self._database = self._connect(self._path)
        self._prepare()
        old = self._connect(aside)
        try:
            counts = [_save_rows(old, self._database, table) for table in _COLUMNS]
        finally:
            old.close()
        _log.error(
            "the owner list %s is damaged: %s. It was made anew with the %d entries that "
            "could be read; other objects have no owner and are not verified until the appliance "
            "has verified them. The damaged one is %s",
            os.fsdecode(self._path),
            damage,
            sum(counts),
            os.fsdecode(aside),
        )

    def _prepare(self) -> None:
        database = self._database
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        if self._version() == 0:
            database.executescript(
                f"begin immediate; {_SCHEMA} pragma user_version = {SCHEMA_VERSION}; commit;"
            )

    def _prepare_shared(
        self, stored_before: Callable[[], Iterable[tuple[Kind, ObjectInfo, bytes]]]
    ) -> None:
        # The journal stays as it is: changing its kind takes all others' connections away.
        self._database.execute("pragma synchronous = full")
        if self._version():
            return
        with self._transaction() as database:
            if self._version():
                return
            for statement in filter(str.strip, _SCHEMA.split(";")):
                database.execute(statement)
            database.executemany(
                "insert into objects values (?, ?, ?, ?, ?, null, ?)",
                (
                    (kind, one.name, one.size_bytes, one.modified_ns, UNVERIFIED, client)
                    for kind, one, client in stored_before()
                ),
            )
            database.execute(f"pragma user_version = {SCHEMA_VERSION}")

    def _version(self) -> int:
        version = int(self._database.execute("pragma user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            raise StoreError(f"{os.fsdecode(self._path)} is of a newer version; upgrade strongroom")
        return version

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
        if _is_damage(error):
            return StoreError(
                f"the owner list {os.fsdecode(self._path)} is damaged: {error}; restart "
                "the storage daemon, which makes it anew; look at its disk"
            )
        return StoreError(
            f"the owner list {os.fsdecode(self._path)} failed: {error}; free space "
            "there or fix the cause, then run the same command again"
        )


def _is_damage(error: sqlite3.Error) -> bool:
    # SQLITE_CORRUPT, SQLITE_NOTADB.
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in (11, 26)


def _damage(database: sqlite3.Connection) -> str:
    """What is wrong with a database, "" for nothing. Raises sqlite3.Error."""
    try:
        found = database.execute("pragma quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if not _is_damage(error):
            raise
        return str(error)
    return "" if found == "ok" else " ".join(str(found).split())


def _save_rows(old: sqlite3.Connection, new: sqlite3.Connection, table: str) -> int:
    """Copy what can be read of a table, from both ends; returns how many rows."""
    key, places = _COLUMNS[table]
    before = new.total_changes
    for order in ("asc", "desc"):
        columns = ", ".join(f"{column} {order}" for column in key)
        new.execute("begin immediate")
        with suppress(sqlite3.DatabaseError):
            for row in old.execute(f"select * from {table} order by {columns}"):  # noqa: S608
                new.execute(f"insert or ignore into {table} values ({places})", row)  # noqa: S608
        new.execute("commit")
    return new.total_changes - before
