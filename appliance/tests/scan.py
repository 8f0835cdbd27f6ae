"""Print the TCP ports that accept a connection, of all there are: scan.py ADDRESS%CARD"""

from __future__ import annotations

import asyncio
import socket
import sys


async def scan(host: str, card: str) -> list[int]:
    """Try every port; a packet that is dropped takes its two seconds."""
    gate = asyncio.Semaphore(800)
    scope = socket.if_nametoindex(card)

    async def accepts(port: int) -> bool:
        async with gate:
            with socket.socket(socket.AF_INET6) as one:
                one.setblocking(False)
                connecting = asyncio.get_running_loop().sock_connect(one, (host, port, 0, scope))
                try:
                    await asyncio.wait_for(connecting, timeout=2)
                except (OSError, TimeoutError):
                    return False
                return True

    ports = range(1, 65536)
    found = await asyncio.gather(*map(accepts, ports))
    return [port for port, answered in zip(ports, found, strict=True) if answered]


print(*asyncio.run(scan(*sys.argv[1].split("%"))))
