"""Whether a daemon could start: everything it would need, looked at without changing anything.

One look finds all that is wrong, each as one fault that names the directive and the file. What is
there already may be in use by a daemon that runs: no lock is taken, no port is kept, and no file is
made, which would belong to whoever looks rather than to the daemon's user. So whether that user may
read and write is judged for whoever looks; have the daemon's user do it.
"""

from __future__ import annotations

import os
import socket
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from strongroom.errors import OperatingSystemError, StrongroomError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class FailedCheck(NamedTuple):
    """What a start would fail on, as the command line tells errors."""

    error_id: str
    exit_code: int
    text: str


class Preflight:
    """Collects faults, and warnings of what a daemon can do without."""

    def __init__(self) -> None:
        self.faults: list[FailedCheck] = []
        self.warnings: list[str] = []

    @contextmanager
    def part(self, where: str) -> Iterator[None]:
        """An error in here is a fault of `where`, such as a directive; the check goes on."""
        try:
            yield
        except StrongroomError as error:
            self._add(where, error)
        except OSError as error:
            place = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            self._add(where, OperatingSystemError(f"{place}{error.strerror or error}"))

    def writable(self, where: str, folder: bytes | str) -> None:
        """The folder can be written to, or made."""
        place = os.path.abspath(os.fsencode(folder))
        with self.part(where):
            while not os.path.lexists(place) and os.path.dirname(place) != place:
                place = os.path.dirname(place)
            if not os.path.isdir(place):
                raise OperatingSystemError(f"{os.fsdecode(place)} is no folder")
            if not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
                raise OperatingSystemError(f"{os.fsdecode(place)} cannot be written to")

    def changeable(self, where: str, file: bytes | str) -> None:
        """The file can be written to, if it is there."""
        with self.part(where):
            if os.path.lexists(file) and not os.access(file, os.R_OK | os.W_OK, effective_ids=True):
                raise OperatingSystemError(f"{os.fsdecode(file)} cannot be written to")

    def addresses(self, where: str, addresses: Iterable[tuple[str, int]]) -> None:
        """The machine has them. Ports are not asked for: the daemon may have them already."""
        for host, port in addresses:
            with self.part(where):
                try:
                    found = socket.getaddrinfo(
                        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
                    )
                    family, kind, _, _, address = found[0]
                    with socket.socket(family, kind) as probe:
                        probe.bind((address[0], 0))
                except OSError as error:
                    raise OperatingSystemError(
                        f"cannot listen on {host} port {port}: {error.strerror or error}"
                    ) from error

    def _add(self, where: str, error: StrongroomError) -> None:
        self.faults.append(FailedCheck(error.error_id, error.exit_code, f"{where}: {error}"))


def sqlite_value(path: bytes | str, query: str) -> object:
    """The first value that a query finds in a database file; None: no such file, table or row.

    The file is read as it lies there, without its log, so what was written last may be missing.
    Raises sqlite3.DatabaseError for a file that is no database.
    """
    if not os.path.exists(path):
        return None
    name = f"file:{quote(os.path.abspath(os.fsencode(path)))}?immutable=1"
    with closing(sqlite3.connect(name, uri=True)) as database:
        try:
            row = database.execute(query).fetchone()
        except sqlite3.OperationalError:
            return None
    return row[0] if row else None
