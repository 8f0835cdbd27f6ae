"""Two thousand idle agents on one director, in its own process: what it holds in memory."""

import asyncio
import contextlib
import os
import re
import resource
import signal
import subprocess
import sys

import pytest
from websockets.asyncio.client import connect

from kit.director_server import CONFIGURATION, PATIENCE_SECONDS, RunningDirector
from kit.ports import free_port
from strongroom.base import clock
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import OWN_HEADERS, Hello, Welcome, decode_for_agent, encode

AGENTS = 2000
MOST_BYTES = 300 << 20
AT_ONCE = 40


def resident_bytes(process):
    with open(f"/proc/{process.pid}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) << 10


def processor_seconds(process):
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def many_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    if before[1] < 2 * AGENTS + 500:
        pytest.skip(f"only {before[1]} open files are allowed")
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.contextmanager
def director_process(prepared, port):
    """The real command; gives its process once it answers."""
    log = prepared.folder / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", "strongroom", "director", "--config",
             str(prepared.configuration_file)],
            stderr=output,
        ) as process,
    ):  # fmt: skip
        try:
            end = clock.elapsed_seconds() + PATIENCE_SECONDS
            while f"port {port}".encode() not in log.read_bytes():
                assert process.poll() is None, log.read_text()
                assert clock.elapsed_seconds() < end
                signal.sigtimedwait((), 0.1)
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()[-2000:]


async def meet(context, port, name):
    agent = await connect(
        f"wss://localhost:{port}/api/v1/agents/connect",
        ssl=context,
        additional_headers=OWN_HEADERS,
        compression=None,
        open_timeout=4 * PATIENCE_SECONDS,
        ping_interval=None,
    )
    said = Hello(name=name, protocol=1, version="1", platform="p", clock_ns=clock.now_ns())
    await agent.send(encode(said).decode())
    assert isinstance(decode_for_agent(await agent.recv()), Welcome)
    return agent


async def crowd(prepared, port, process):
    """Connect everybody; gives bytes held with no one and with all, and seconds for all."""
    alone = resident_bytes(process)
    begun = clock.elapsed_seconds()
    agents = []
    for start in range(0, AGENTS, AT_ONCE):
        names = [f"agent{number}" for number in range(start, min(start + AT_ONCE, AGENTS))]
        contexts = [client_context(prepared.identity(name, "agent")) for name in names]
        agents += await asyncio.gather(
            *(meet(one, port, name) for one, name in zip(contexts, names, strict=True))
        )
    connecting_seconds = clock.elapsed_seconds() - begun
    before = processor_seconds(process)
    # Heartbeats come every half minute.
    await asyncio.sleep(60)
    idle_share = (processor_seconds(process) - before) / 60
    together = resident_bytes(process)
    with prepared.client("admin") as api:
        status = api.get("/status").json()
    for agent in agents:
        agent.transport.abort()
    return alone, together, connecting_seconds, idle_share, status["clients_connected"]


@pytest.mark.slow
def test_two_thousand_idle_agents_take_less_than_300_megabytes(tmp_path, many_files, capsys):
    port = free_port()
    clients = "".join(
        f"Client {{ Name = agent{number}; Address = x; Password = x }}\n"
        for number in range(AGENTS)
    )
    configuration = CONFIGURATION.replace(
        "Address = 127.0.0.1\n", f"Address = 127.0.0.1; Port = {port}\n", 1
    )
    prepared = RunningDirector(tmp_path, configuration + clients)
    prepared.port = port
    with director_process(prepared, port) as process:
        alone, together, seconds, idle_share, connected = asyncio.run(
            crowd(prepared, port, process)
        )
    with capsys.disabled():
        sys.stdout.write(
            f"\n{connected} agents connected in {seconds:.1f} s: {alone / 1e6:.0f} MB without, "
            f"{together / 1e6:.0f} MB with them, {100 * idle_share:.1f}% of a processor when idle"
        )
    assert connected == AGENTS
    assert together < MOST_BYTES
