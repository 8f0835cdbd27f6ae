"""Opens the catalog: SQLite in one file, or PostgreSQL; and migrates its schema.

SQLite runs in WAL mode and syncs every commit before it returns, so acknowledged reports are
durable. Writers take their lock at the start of a transaction, so two of them never wait for
each other's reads. One director writes; readers do not block it.

A catalog of a newer version is refused, and so is a database that holds something else, such as the
catalog of Bareos or Bacula, or a new one whose encoding is not UTF8: before anything is written. An
unavailable database (down, locked or full) raises CatalogUnavailableError, other errors
CatalogError. Broken connections are recreated on next use.

A damaged file raises CatalogDamagedError, a kind of unavailability, from then on and at once: what
is written to it would be lost or add to the damage. `check` looks for damage, also in pages that
no one reads.

What is kept of the catalog in memory (`director.kept_figures`) learns from `take_stale` what was
written since. Writers call `note_stale` within their transaction; it counts from its end on,
however that ended, so what is read anew then is what was written.

Safe for threads.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Executable,
    create_engine,
    event,
    inspect,
    make_url,
)
from sqlalchemy.exc import (
    DBAPIError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError,  # noqa: A004 - the pool's
)

from strongroom.base.errors import (
    CatalogDamagedError,
    CatalogError,
    CatalogUnavailableError,
)
from strongroom.base.parts import missing_library
from strongroom.config.settings.director import CatalogSettings
from strongroom.director.catalog.storable import left_out, shallow
from strongroom.director.catalog.tables import REVISION, RUNS
from strongroom.net.identities.private_files import first_line
from strongroom.service.preflight import sqlite_value

if TYPE_CHECKING:
    from alembic.config import Config

BUSY_SECONDS = 60
_POOL_SIZE = 8
# Of each connection. By default 128 statements of tens of kilobytes and 2 MB of pages stay with it,
# so a director grew for months; the kernel caches the file anyway.
_CACHED_STATEMENTS: Final = 16
_CACHE_KIB: Final = 256
_MOST_TABLES = 3
_NEW_DATABASE = (
    "Name a new one as DB Name; on PostgreSQL: createdb --encoding=UTF8 --template=template0 NAME"
)
# An unresponsive server is detected after half a minute, not after hours.
_POSTGRESQL: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "strongroom",
    # Of a server that converts nothing (SQL_ASCII) the driver would return bytes.
    "client_encoding": "utf8",
}
# SQLITE_CORRUPT and SQLITE_NOTADB; data_corrupted and index_corrupted.
_SQLITE_DAMAGE: Final = (11, 26)
_POSTGRESQL_DAMAGE: Final = ("XX001", "XX002")
# Of a server that became the standby of another.
_POSTGRESQL_READ_ONLY: Final = "25006"
_WAY_BACK: Final = {
    "sqlite": "`strongroom catalog recover` restores it",
    "postgresql": "restore the database from its own backup",
}


# In the information of a connection: what its transaction changes.
_CHANGED: Final = "strongroom_changed"


class Changed(NamedTuple):
    """Figures of what changed: of runs of a job and client, or of a client alone; "" for all."""

    job: str = ""
    client: str = ""


def note_stale(connection: Connection, *changed: Changed) -> None:
    """A transaction changes the figures of these."""
    connection.info.setdefault(_CHANGED, set()).update(changed)


class Catalog:
    """An open catalog."""

    def __init__(self, engine: Engine) -> None:
        """Use `open_catalog`."""
        self._engine = engine
        self._damage = ""
        self._has_failed_to_write = False
        self._file = _file_of(engine.url)
        self._stale: set[Changed] = {Changed()}
        self._stale_lock = threading.Lock()

    @property
    def kind(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._engine.dialect.name

    @property
    def place(self) -> str:
        """Its location, without a password."""
        return self._engine.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only transaction with a consistent state."""
        with self._as_catalog_error(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction; committed durably at the end, rolled back on an error."""
        try:
            with (
                self._as_catalog_error(),
                self._engine.connect().execution_options(strongroom_writes=True) as connection,
                self._noting(connection),
                connection.begin(),
            ):
                # What was written to the file before would be lost.
                self.require_same_file()
                yield connection
        except CatalogUnavailableError:
            self._has_failed_to_write = True
            raise
        self._has_failed_to_write = False

    @contextmanager
    def _noting(self, connection: Connection) -> Iterator[None]:
        """After a transaction, successful or not, add what it changed to what is stale."""
        information = connection.info
        try:
            yield
        finally:
            if changed := information.pop(_CHANGED, None):
                with self._stale_lock:
                    self._stale |= changed

    def take_stale(self) -> set[Changed]:
        """What changed since the last call; at the first `Changed()`, which is everything."""
        with self._stale_lock:
            taken, self._stale = self._stale, set()
        return taken

    def note_stale(self, changed: set[Changed]) -> None:
        """Return what was taken: it could not be read."""
        with self._stale_lock:
            self._stale |= changed

    def rows(self, query: Executable) -> Iterator[Any]:
        """The rows that a query finds, read as they are asked for: there may be very many."""
        with self.reading() as connection:
            yield from connection.execute(query)

    def change(self, statement: Executable, rows: Sequence[Mapping[str, Any]] = ()) -> int:
        """Do one statement, for each of some rows, in a transaction; how many rows it changed."""
        with self.writing() as connection:
            return connection.execute(statement, rows or None).rowcount

    def require_writable(self) -> None:
        """Raises CatalogUnavailableError where the last write failed, and one more does.

        What is on a disk that became read-only can still be read, for as long as it takes.
        """
        if self._has_failed_to_write:
            with self.writing() as connection:
                text = "UPDATE alembic_version SET version_num = version_num"
                connection.exec_driver_sql(text)

    def check(self) -> None:
        """Look for damage; a second for each gigabyte. Raises CatalogDamagedError."""
        if self.kind == "sqlite":
            with self.reading() as connection:
                found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
            if found != "ok":
                raise self._damaged(str(found))

    def require_same_file(self) -> None:
        """Raises CatalogUnavailableError where another file took the place of the open one."""
        if self._file != _file_of(self._engine.url):
            raise CatalogUnavailableError(
                f"the file of the catalog {self.place} was replaced while it was open; what uses "
                "it has to start again"
            )

    def close(self) -> None:
        """Close its connections."""
        self._engine.dispose()

    def _damaged(self, what: str) -> CatalogDamagedError:
        way_back = _WAY_BACK[self.kind]
        self._damage = f"the catalog {self.place} is damaged: {' '.join(what.split())}; {way_back}"
        return CatalogDamagedError(self._damage)

    @contextmanager
    def _as_catalog_error(self) -> Iterator[None]:
        if self._damage and self.kind == "sqlite":
            raise CatalogDamagedError(self._damage)
        try:
            yield
        except DBAPIError as error:
            why = str(getattr(error, "orig", error)).strip().replace("\n", " ")
            if _is_damage(error.orig):
                raise self._damaged(why) from error
            is_read_only = getattr(error.orig, "sqlstate", "") == _POSTGRESQL_READ_ONLY
            if is_read_only or isinstance(error, OperationalError | InterfaceError):
                raise self._unavailable(why) from error
            raise CatalogError(f"the catalog {self.place} failed: {error.orig}") from error
        except TimeoutError as error:
            raise self._unavailable(str(error)) from error
        except SQLAlchemyError as error:
            raise CatalogError(f"the catalog {self.place} failed: {error}") from error

    def _unavailable(self, why: str) -> CatalogUnavailableError:
        return CatalogUnavailableError(
            f"the catalog {self.place} is unavailable: {why}; check that the database runs and its "
            "disk has space"
        )


def open_catalog(url: str | URL) -> Catalog:
    """Open the catalog at `url` (`sqlite:///PATH`, `postgresql+psycopg://...`), or create it.

    Raises CatalogError.
    """
    url = make_url(url)
    engine = _engine(url)
    catalog = Catalog(engine)
    try:
        catalog.check()
        _migrate(catalog)
    except BaseException:
        catalog.close()
        raise
    return catalog


def open_damaged(url: URL) -> Catalog:
    """The catalog as it is, not checked: for reading what can still be read."""
    return Catalog(_engine(url))


def catalog_url(settings: CatalogSettings | None, working_folder: str) -> URL:
    """The database of a Catalog resource.

    With a DbAddress or a DbSocket it is PostgreSQL, otherwise a file of the name DbName in the
    working directory, `catalog.sqlite` without a resource. Raises UsageError when the PasswordFile
    cannot be read; without a password PostgreSQL's own methods (peer, ~/.pgpass, certificates).
    """
    if settings is not None and (settings.db_address or settings.db_socket):
        return URL.create(
            "postgresql+psycopg",
            username=settings.db_user,
            password=_password(settings),
            host=settings.db_address or None,
            port=settings.db_port,
            database=settings.db_name,
            query={"host": settings.db_socket} if settings.db_socket else {},
        )
    name = "catalog" if settings is None else settings.db_name.replace("/", "_")
    return URL.create("sqlite", database=os.path.join(working_folder, f"{name}.sqlite"))


def _password(settings: CatalogSettings) -> str | None:
    if not settings.password_file:
        return settings.db_password or None
    return first_line(settings.password_file).decode("utf-8", "surrogateescape")


def look_at_catalog(url: URL) -> None:
    """Check that the catalog could be opened, without changing anything.

    Raises CatalogError (of a newer version, of something else), CatalogUnavailableError,
    UsageError (no driver), and sqlite3.DatabaseError for a file that is not SQLite's.
    """
    if url.get_backend_name() == "sqlite":
        query = "SELECT version_num FROM alembic_version"
        present = sqlite_value(url.database or "", query)
        if not present:
            query = "SELECT group_concat(name) FROM sqlite_master WHERE type = 'table'"
            tables = str(sqlite_value(url.database or "", query) or "")
            _require_empty(tables.split(",") if tables else [], url.database or "")
    else:
        catalog = Catalog(_engine(url))
        try:
            with catalog.reading() as connection:
                present = _revision(connection, catalog.place)
        finally:
            catalog.close()
    _judge(str(present or ""), url.render_as_string(hide_password=True))


def _data(text: str | bytes) -> Any:
    """Stored data; older versions of the director stored any data of agents."""
    try:
        return shallow(json.loads(text))
    except RecursionError:
        return left_out()


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(
                url,
                connect_args=_POSTGRESQL,
                pool_size=_POOL_SIZE,
                max_overflow=0,
                pool_pre_ping=True,
                json_deserializer=_data,
            )
        except ImportError as error:
            raise missing_library("psycopg") from error
    folder = os.path.dirname(url.database or "")
    if folder:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # Readable for its owner only; SQLite gives its other files this mode.
        os.close(os.open(url.database or "", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    engine = create_engine(
        url,
        connect_args={
            "timeout": BUSY_SECONDS,
            "check_same_thread": False,
            "cached_statements": _CACHED_STATEMENTS,
        },
        json_deserializer=_data,
        pool_size=_POOL_SIZE,
        max_overflow=0,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    # The driver's implicit transactions would conflict with `_begin_sqlite`.
    connection.isolation_level = None
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        f"cache_size = -{_CACHE_KIB}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("strongroom_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _migrate(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        present = _revision(connection, catalog.place)
        if present == REVISION:
            # The usual start, which is spared the time and the memory of Alembic.
            return
        _judge(present, catalog.place)
        from alembic import command

        config = _migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _revision(connection: Connection, place: str) -> str:
    """The newest migration that was done; "" in an empty database.

    Raises CatalogError for a database that cannot be ours.
    """
    tables = inspect(connection).get_table_names()
    if not {"alembic_version", RUNS.name} <= set(tables):
        _require_empty(tables, place)
        if connection.dialect.name == "postgresql":
            _require_encoding(connection, place)
        return ""
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return str(found or "")


def _migrations() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "strongroom.director.catalog:migrations")
    return config


def _require_encoding(connection: Connection, place: str) -> None:
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
    if encoding != "UTF8":
        raise CatalogError(
            f"the database {place} has the encoding {encoding}, and the catalog needs UTF8; "
            f"nothing was changed. {_NEW_DATABASE}"
        )


def _require_empty(tables: Sequence[str], place: str) -> None:
    if tables:
        shown = ", ".join(sorted(tables)[:_MOST_TABLES])
        count = "1 table" if len(tables) == 1 else f"{len(tables)} tables"
        raise CatalogError(
            f"the database {place} holds {count} of another program ({shown}), perhaps of Bareos "
            "or "
            f"Bacula; nothing was changed. {_NEW_DATABASE}"
        )


def _judge(present: str, place: str) -> None:
    """Refuse a catalog of an unknown revision; "" is none yet."""
    if present in ("", REVISION):
        return
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(_migrations()).walk_revisions()
    if present not in {script.revision for script in scripts}:
        raise CatalogError(
            f"the catalog {place} was written by a newer version (revision {present}); update "
            "strongroom"
        )


def _is_damage(error: BaseException | None) -> bool:
    if getattr(error, "sqlstate", None) in _POSTGRESQL_DAMAGE:
        return True
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in _SQLITE_DAMAGE or str(error).startswith("Could not decode to UTF-8")


def _file_of(url: URL) -> tuple[int, int] | None:
    """Which file SQLite's is now; None where there is none."""
    if url.get_backend_name() != "sqlite":
        return None
    try:
        found = os.stat(url.database or "")
    except OSError:
        return None
    return found.st_dev, found.st_ino
