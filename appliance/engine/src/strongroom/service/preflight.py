"""Whether a daemon could start: checks everything that it needs without changing anything.

One check finds all faults; each names the directive and the file. A running daemon may use the same
files: no lock is taken, nothing listens, and no file is created, which would belong to the
calling user rather than to the daemon's. Permissions are checked for the calling user; run it as
the daemon's user.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple
from urllib.parse import quote

from strongroom.base.errors import OperatingSystemError, StrongroomError
from strongroom.net.channels.listening import listen


class FailedCheck(NamedTuple):
    """An error that would prevent a start, in the format of the command line."""

    error_id: str
    exit_code: int
    text: str


class Preflight:
    """Collects faults, and warnings about what a daemon can run without."""

    def __init__(self) -> None:
        self.faults: list[FailedCheck] = []
        self.warnings: list[str] = []

    @contextmanager
    def part(self, where: str) -> Iterator[None]:
        """Report an error in this block as a fault of `where`, such as a directive; continue."""
        try:
            yield
        except StrongroomError as error:
            self._add(where, error)
        except OSError as error:
            place = f"{os.fsdecode(error.filename)}: " if error.filename else ""
            self._add(where, OperatingSystemError(f"{place}{error.strerror or error}"))

    def writable(self, where: str, folder: bytes | str) -> None:
        """Check that the folder can be written to, or created."""
        place = os.path.abspath(os.fsencode(folder))
        with self.part(where):
            while not os.path.lexists(place) and os.path.dirname(place) != place:
                place = os.path.dirname(place)
            if not os.path.isdir(place):
                raise OperatingSystemError(f"{os.fsdecode(place)} is not a folder")
            if not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
                raise OperatingSystemError(f"{os.fsdecode(place)} cannot be written to")

    def changeable(self, where: str, file: bytes | str) -> None:
        """Check that the file can be written to, if it exists."""
        with self.part(where):
            if os.path.lexists(file) and not os.access(file, os.R_OK | os.W_OK, effective_ids=True):
                raise OperatingSystemError(f"{os.fsdecode(file)} cannot be written to")

    def addresses(self, where: str, addresses: Iterable[tuple[str, int]]) -> None:
        """Check that the machine has the addresses, and that the ports may be used.

        A port that is in use is no fault: the daemon may have it.
        """
        for place in addresses:
            # This port and no other: the unit allows no other (SocketBindAllow).
            with self.part(where):
                try:
                    probes = listen([place], backlog=None)
                except OperatingSystemError as error:
                    if getattr(error.__cause__, "errno", None) == errno.EADDRINUSE:
                        continue
                    raise
                for probe in probes:
                    probe.close()

    def _add(self, where: str, error: StrongroomError) -> None:
        self.faults.append(FailedCheck(error.error_id, error.exit_code, f"{where}: {error}"))


def sqlite_value(path: bytes | str, query: str) -> object:
    """The first value that a query finds in a database file; None: no such file, table or row.

    The file is read without its write-ahead log, so recent writes may be missing.
    Raises sqlite3.DatabaseError for a file that is not a database.
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
