"""Print the TCP ports that accept a connection, of all there are: scan.py ADDRESS[%CARD]"""

from __future__ import annotations

import asyncio
import resource
import socket
import sys

# So many are begun in a second. A guest that is emulated loses packets that come faster, or all at once.
PORTS_EACH_SECOND = 1500
# A packet that got no answer is sent again after one second.
PATIENCE_SECONDS = 3


async def scan(address: str) -> list[int]:
    """Try every port."""
    family, *_ = socket.getaddrinfo(address, 1, type=socket.SOCK_STREAM)[0]
    loop = asyncio.get_running_loop()

    async def accepts(port: int) -> bool:
        with socket.socket(family) as one:
            one.setblocking(False)
            _, *_, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
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


# As many sockets as may be open; twice as many as there are when this host is fast enough.
resource.setrlimit(resource.RLIMIT_NOFILE, (2 * PORTS_EACH_SECOND * PATIENCE_SECONDS,) * 2)
print(*asyncio.run(scan(sys.argv[1])))
