"""Print the TCP ports that accept a connection, of all there are: scan.py ADDRESS[%CARD]"""

from __future__ import annotations

import asyncio
import resource
import socket
import sys


async def scan(address: str) -> list[int]:
    """Try every port; a packet that is dropped takes its three seconds, in which it is sent again."""
    gate = asyncio.Semaphore(2000)
    family, *_ = socket.getaddrinfo(address, 1, type=socket.SOCK_STREAM)[0]

    async def accepts(port: int) -> bool:
        async with gate:
            with socket.socket(family) as one:
                one.setblocking(False)
                _, *_, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
                connecting = asyncio.get_running_loop().sock_connect(one, place)
                try:
                    await asyncio.wait_for(connecting, timeout=3)
                except (OSError, TimeoutError):
                    return False
                return True

    ports = range(1, 65536)
    found = await asyncio.gather(*map(accepts, ports))
    return [port for port, answered in zip(ports, found, strict=True) if answered]


# As many sockets at once.
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
print(*asyncio.run(scan(sys.argv[1])))
