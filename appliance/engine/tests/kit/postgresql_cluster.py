"""A PostgreSQL of our own: one cluster a test session, on a Unix socket, one database a test.

`stop`, `start` and `kill` are what happens to a server while somebody uses it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine

# Anyone who has this name must show a password; everybody else is accepted.
KEEPER = "keeper"
_ACCESS = f"local all {KEEPER} scram-sha-256\nlocal all all trust\n"


@contextmanager
def new_cluster() -> Iterator[Cluster]:
    """A server that runs; the test is skipped where there is none to run."""
    found = sorted(glob("/usr/lib/postgresql/*/bin/initdb"))
    initdb = found[-1] if found else shutil.which("initdb")
    if initdb is None:
        pytest.skip("PostgreSQL's initdb is not installed (Debian: postgresql)")
    server = Cluster(initdb)
    try:
        yield server
    finally:
        server.remove()


class Cluster:
    """A running server; PostgreSQL refuses to be root, so it is somebody else then."""

    def __init__(self, initdb: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="strongroom-pg-"))
        self._tools = Path(initdb).parent
        self._data = self.folder / "data"
        self._databases = 0
        self._user: str | None = None
        if os.geteuid() == 0:
            self._user = next(
                name
                for name in ("postgres", "nobody")
                if name in {e.pw_name for e in pwd.getpwall()}
            )
            shutil.chown(self.folder, self._user)
        options = ("--no-sync", "--auth=trust", "--username=strongroom")
        self._command("initdb", *options, "--encoding=UTF8", "--locale=C", "-D", str(self._data))
        (self._data / "pg_hba.conf").write_text(_ACCESS)
        self.is_running = False
        self.start()

    def start(self) -> None:
        """Start the server, and return when it answers."""
        # A server that loses nothing worth having need not wait for a disk.
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off"
        self._control("-t", "60", "-o", options, "-l", str(self.folder / "log"), "start")
        self.is_running = True

    def stop(self) -> None:
        """Stop the server as an upgrade of it does: connections are cut."""
        self._control("-m", "fast", "stop")
        self.is_running = False

    def kill(self) -> None:
        """End it without a chance to finish anything."""
        self._control("-m", "immediate", "stop")
        self.is_running = False

    def remove(self) -> None:
        """End it for good, if it runs."""
        if self.is_running:
            self.kill()
        shutil.rmtree(self.folder)

    def new_database(self, options: str = "") -> URL:
        """An empty database."""
        self._databases += 1
        name = f"catalog{self._databases}"
        self.execute(f"CREATE DATABASE {name} {options}")
        return self._url(name)

    def new_catalog(self) -> str:
        """An empty database as a Catalog resource says it."""
        name = self.new_database().database
        return f'Db Name = {name}; Db User = strongroom; Db Socket = "{self.folder}"'

    def new_keeper(self, password: str, database: str) -> None:
        """Give the database to KEEPER, who must show this password."""
        self.execute(f"CREATE ROLE {KEEPER} LOGIN PASSWORD '{password}'")
        self.execute(f"ALTER DATABASE {database} OWNER TO {KEEPER}")

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Execute a statement as the superuser."""
        engine = create_engine(self._url(database), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()

    def _url(self, name: str) -> URL:
        return URL.create(
            "postgresql+psycopg",
            username="strongroom",
            database=name,
            query={"host": str(self.folder)},
        )

    def _control(self, *arguments: str) -> None:
        self._command("pg_ctl", "-D", str(self._data), "-w", *arguments)

    def _command(self, tool: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._tools / tool), *arguments],
            check=True,
            user=self._user,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
