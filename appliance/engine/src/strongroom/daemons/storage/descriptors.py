"""Open files: how many connections and uploads the daemon can have, and how many one client.

The limit of the process (RLIMIT_NOFILE) is raised as far as it may be, and divided: some are kept
for the daemon itself and for handshakes, half of the rest are for connections, half for uploads,
and no client gets more than a quarter of either.
"""

from __future__ import annotations

import resource
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from strongroom.daemons.storage.settings import StorageLimits

# More are of no use to the daemon.
_MOST: Final = 65536
# Databases, sockets that listen, logs, files that are opened for a moment.
_OWN: Final = 64
# The socket, the folder of the repository, and the file that is being sent.
_OF_A_CONNECTION: Final = 3
_PART_OF_A_CLIENT: Final = 4


def raise_open_files() -> int:
    """Raise this process's limit on open files; returns what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def within_open_files(limits: StorageLimits, open_files: int) -> StorageLimits:
    """The limits, reduced to what a limit on open files permits."""
    handshakes = max(8, min(limits.handshakes, open_files // 8))
    rest = max(8 * _OF_A_CONNECTION, open_files - _OWN - handshakes)
    connections = min(limits.connections, rest // 2 // _OF_A_CONNECTION)
    uploads = min(limits.uploads_of_all, rest // 2)
    return replace(
        limits,
        handshakes=handshakes,
        connections=connections,
        connections_each=max(1, min(limits.connections_each, connections // _PART_OF_A_CLIENT)),
        uploads_of_all=uploads,
        uploads_each=max(1, min(limits.uploads_each, uploads // _PART_OF_A_CLIENT)),
    )
