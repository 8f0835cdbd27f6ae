"""Print the TCP ports that accept a connection, of all there are: scan.py ADDRESS[%CARD]"""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from typing import Any

# So many are begun in a second. A guest that is emulated loses packets that come faster, or all at once.
PORTS_EACH_SECOND = 1500
# A packet that got no answer is sent again after one second.
PATIENCE_SECONDS = 3
# That are open at the same time: a host that has been slow for seconds begins what it missed at once.
SOCKETS = PORTS_EACH_SECOND * PATIENCE_SECONDS


async def scan(address: str) -> list[int]:
    """Try every port."""
    family, *_ = socket.getaddrinfo(address, 1, type=socket.SOCK_STREAM)[0]
    loop = asyncio.get_running_loop()
    free = asyncio.Semaphore(SOCKETS)

    async def accepts(port: int) -> bool:
        _, *_, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        async with free:
            return await answers(place)

    async def answers(place: tuple[Any, ...]) -> bool:
        with socket.socket(family) as one:
            one.setblocking(False)
            try:
                await asyncio.wait_for(loop.sock_connect(one, place), timeout=PATIENCE_SECONDS)
            except (OSError, TimeoutError):
                return False
            return True

    begun = loop.time()
    ports = range(1, 65536)
    tried = []
    for number, port in enumerate(ports):
        tried.append(asyncio.create_task(accepts(port)))
        await asyncio.sleep(max(0, begun + number / PORTS_EACH_SECOND - loop.time()))
    return [port for port, answered in zip(ports, await asyncio.gather(*tried), strict=True) if answered]


# And what else is open.
resource.setrlimit(resource.RLIMIT_NOFILE, (SOCKETS + 100,) * 2)
print(*asyncio.run(scan(sys.argv[1])))
