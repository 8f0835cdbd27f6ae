"""Ports for daemons that tests stop and start again at the same place.

A port that the kernel picks may be somebody else's as soon as it is free for a moment: another
test's, or the near end of any connection. Those given here lie below the range that the kernel
picks from, and belong to this process until it ends: it holds an abstract socket for each, which
all processes of the machine that run these tests look at.
"""

from __future__ import annotations

import os
import random
import socket
from typing import Final

_FIRST: Final = 12_000
_LAST: Final = 32_000

_held: list[socket.socket] = []


def free_port() -> int:
    """A TCP port of loopback that no one else has or gets."""
    while True:
        port = random.SystemRandom().randint(_FIRST, _LAST)
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0strongroom-tests-port-{os.getuid()}-{port}")
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            mark.close()
            continue
        _held.append(mark)
        return port
