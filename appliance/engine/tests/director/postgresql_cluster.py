"""A PostgreSQL of our own: one cluster a test session, on a Unix socket, one database a test."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from glob import glob
from pathlib import Path

from sqlalchemy import URL, create_engine


def initdb_path() -> str | None:
    """Where Debian or the PATH has initdb."""
    found = sorted(glob("/usr/lib/postgresql/*/bin/initdb"))
    return found[-1] if found else shutil.which("initdb")


class Cluster:
    """A running server; PostgreSQL refuses to be root, so it is somebody else then."""

    def __init__(self, initdb: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="strongroom-pg-"))
        self._tools = Path(initdb).parent
        self._databases = 0
        self._user: str | None = None
        if os.geteuid() == 0:
            self._user = next(
                name
                for name in ("postgres", "nobody")
                if name in {e.pw_name for e in pwd.getpwall()}
            )
            shutil.chown(self.folder, self._user)
        data = str(self.folder / "data")
        self._command(
            "initdb",
            "--no-sync",
            "--auth=trust",
            "--username=strongroom",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
            data,
        )
        # A server that loses nothing worth having need not wait for a disk.
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off"
        self._command(
            "pg_ctl",
            "-D",
            data,
            "-w",
            "-t",
            "60",
            "-o",
            options,
            "-l",
            str(self.folder / "log"),
            "start",
        )

    def new_database(self) -> URL:
        self._databases += 1
        name = f"catalog{self._databases}"
        engine = create_engine(self._url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
        return self._url(name)

    def stop(self) -> None:
        self._command("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder)

    def _url(self, name: str) -> URL:
        return URL.create(
            "postgresql+psycopg",
            username="strongroom",
            database=name,
            query={"host": str(self.folder)},
        )

    def _command(self, tool: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._tools / tool), *arguments],
            check=True,
            user=self._user,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=120,
        )
