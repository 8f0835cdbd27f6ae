"""Ports for daemons that tests stop and start again at the same place.

A port that the kernel picks may be somebody else's as soon as it is free for a moment: another
test's, or the near end of any connection. Those given here lie below the range that the kernel
picks from, and belong to this process until it ends: it takes them block by block, and holds an
abstract socket for each block, which all processes of the machine that run these tests look at.
"""

from __future__ import annotations

import os
import random
import socket
from contextlib import suppress
from typing import Final

_FIRST: Final = 12_000
_LAST: Final = 32_000
_BLOCK: Final = 50

_held: list[socket.socket] = []
# The rest of our last block, and the process that took it: a child of ours takes its own.
_ports: list[int] = []
_taken_by = 0


def free_port() -> int:
    """A TCP port of loopback that no one else has or gets."""
    global _taken_by  # noqa: PLW0603
    if _taken_by != os.getpid():
        _taken_by = os.getpid()
        _ports.clear()
    while True:
        if not _ports:
            _ports.extend(_free_block())
        port = _ports.pop()
        with suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            return port


def _free_block() -> range:
    while True:
        first = random.SystemRandom().randrange(_FIRST, _LAST, _BLOCK)
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0strongroom-tests-ports-{os.getuid()}-{first}")
        except OSError:
            mark.close()
            continue
        _held.append(mark)
        return range(first, first + _BLOCK)
