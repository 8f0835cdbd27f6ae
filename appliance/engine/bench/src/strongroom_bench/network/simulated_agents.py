"""Agents that connect and do nothing: `python -m strongroom_bench.network.simulated_agents`.

Arguments: PORT FOLDER NAME...

Each is welcomed by the director at PORT with the identity in FOLDER/NAME and then only pings, as
often as a real agent does. Prints `connected` once all are; ends when standard input does.
"""

from __future__ import annotations

import asyncio
import sys
import time

from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import (
    PROTOCOL_VERSION,
    Hello,
    Welcome,
    decode_for_agent,
    encode,
)
from strongroom.net.identities.identity import Identity

AT_ONCE = 20
PING_SECONDS = 20
WELCOME_SECONDS = 120


async def _connect(port: int, folder: str, name: str, entering: asyncio.Semaphore) -> object:
    from websockets.asyncio.client import connect

    async with entering:
        connection = await connect(
            f"wss://localhost:{port}/api/v1/agents/connect",
            ssl=client_context(Identity.load(f"{folder}/{name}")),
            compression=None,
            open_timeout=WELCOME_SECONDS,
            ping_interval=PING_SECONDS,
            ping_timeout=WELCOME_SECONDS,
            proxy=None,
        )
        hello = Hello(
            name=name,
            protocol=PROTOCOL_VERSION,
            version="simulated",
            platform="simulated",
            clock_ns=time.time_ns(),
        )
        await connection.send(encode(hello).decode())
        answer = decode_for_agent(await asyncio.wait_for(connection.recv(), WELCOME_SECONDS))
        if not isinstance(answer, Welcome):
            raise SystemExit(f"{name} got {answer}")
        return connection


async def _be_agents(port: int, folder: str, names: list[str]) -> None:
    entering = asyncio.Semaphore(AT_ONCE)
    connections = await asyncio.gather(*(_connect(port, folder, name, entering) for name in names))
    print("connected", len(connections), flush=True)
    await asyncio.to_thread(sys.stdin.read)


def main() -> int:
    """Connect all, and wait."""
    port, folder = sys.argv[1:3]
    asyncio.run(_be_agents(int(port), folder, sys.argv[3:]))
    return 0


if __name__ == "__main__":
    # Thousands of goodbyes, each waited for, would be no use to anybody.
    sys.exit(main())
