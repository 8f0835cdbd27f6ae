"""The resources of an idle director with thousands of connected agents."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from strongroom_bench.network.appliance import Appliance

SIMULATING_PROCESSES = 2
SETTLE_SECONDS = 10.0


def measure_idle(
    folder: Path, agents: int, watch_seconds: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """RSS in bytes without and with `agents` connected, and processor time when idle."""
    names = [f"agent{number:05}" for number in range(agents)]
    appliance = Appliance(folder, dict.fromkeys(names, Path("/srv")), at_once=10)
    for name in names:
        appliance.authority.issue_identity(str(folder / "agents" / name), name, "agent")
    say(f"idle: {agents} certificates issued")
    with appliance, ExitStack() as stack:
        alone = appliance.director.usage()
        begin = time.monotonic()
        for number in range(SIMULATING_PROCESSES):
            stack.enter_context(_simulated(appliance, names[number::SIMULATING_PROCESSES]))
        connecting_seconds = time.monotonic() - begin
        appliance.await_connected(agents)
        after_connecting = appliance.director.usage()
        say(f"idle: {agents} agents connected in {connecting_seconds:.1f} s")
        time.sleep(SETTLE_SECONDS)
        before = appliance.director.usage()
        time.sleep(watch_seconds)
        after = appliance.director.usage()
        connected = sum(bool(client["connected"]) for client in appliance.all_of("/clients"))
    return {
        "agents": agents,
        "connected_at_the_end": connected,
        "rss_alone_bytes": alone.rss_bytes,
        "rss_bytes": after.rss_bytes,
        "peak_rss_bytes": after.peak_rss_bytes,
        "connecting_seconds": connecting_seconds,
        "connecting_cpu_seconds": after_connecting.cpu_seconds - alone.cpu_seconds,
        "idle_cpu_share": (after.cpu_seconds - before.cpu_seconds) / watch_seconds,
        "threads": after.threads,
    }


class _Simulated:
    """Simulated agents in one process, connected when `__enter__` returns."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> None:
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith("connected"):
            raise SystemExit("simulated agents could not connect; their messages are above")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def _simulated(appliance: Appliance, names: list[str]) -> _Simulated:
    words = ["-m", "strongroom_bench.network.simulated_agents", str(appliance.port)]
    return _Simulated([sys.executable, *words, str(appliance.folder / "agents"), *names])
