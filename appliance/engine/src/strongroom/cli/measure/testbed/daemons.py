"""Daemons that a measurement starts, watches and stops."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from strongroom.base import clock

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 120.0
END_SECONDS = 60.0
KIB = 1024
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_LOG_TAIL_BYTES = 2_000


class DaemonError(Exception):
    """A daemon did not start or died; the message holds the end of its log."""


@dataclass(frozen=True)
class ProcessUsage:
    """The resources that a process has used since its start."""

    cpu_seconds: float
    rss_bytes: int
    peak_rss_bytes: int
    threads: int


def usage_of(pid: int) -> ProcessUsage:
    """Usage of a living process, its children left out."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    found: dict[str, int] = {}
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in ("VmRSS", "VmHWM", "Threads"):
                found[name] = int(value.split()[0])
    return ProcessUsage(
        (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND,
        found["VmRSS"] * KIB,
        found["VmHWM"] * KIB,
        found["Threads"],
    )


def _accepts(family: socket.AddressFamily, address: tuple[str, int] | str) -> bool:
    with socket.socket(family) as probe:
        return not probe.connect_ex(address)


class Daemon:
    """A program that runs until `stop`; a context manager."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path, *, nice: int = 0
    ) -> None:
        self._log = log
        self._command = ["nice", "-n", str(nice), *command] if nice else list(command)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def pid(self) -> int:
        """Of the program itself."""
        return self._process.pid

    def usage(self) -> ProcessUsage:
        """What it has taken. Raises DaemonError when it is dead."""
        self.require_alive()
        return usage_of(self.pid)

    def await_port(self, port: int) -> None:
        """Wait until it listens on loopback. Raises DaemonError."""
        self._await(lambda: _accepts(socket.AF_INET, ("127.0.0.1", port)), f"port {port}")

    def await_socket(self, path: Path) -> None:
        """Wait until it listens on a Unix socket. Raises DaemonError."""
        self._await(lambda: _accepts(socket.AF_UNIX, str(path)), str(path))

    def _await(self, listens: Callable[[], bool], where: str) -> None:
        until = clock.elapsed_seconds() + START_SECONDS
        while clock.elapsed_seconds() < until:
            if listens():
                return
            self.require_alive()
            time.sleep(0.05)
        raise DaemonError(f"{self._command[0]} does not listen on {where}")

    def require_alive(self) -> None:
        """Raise DaemonError if it has ended."""
        if self._process.poll() is not None:
            tail = self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
            raise DaemonError(
                f"{' '.join(self._command)} ended with {self._process.returncode}:\n{tail}"
            )

    def ask_to_stop(self) -> None:
        """Send SIGTERM and continue."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """End it, the hard way if it does not listen."""
        self.ask_to_stop()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that no one uses now."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in taken]
    for one in taken:
        one.close()
    return ports


def plain_environment(home: Path, **own: str) -> dict[str, str]:
    """An environment without any setting of ours or of the user's."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return kept | {"HOME": str(home), "LANG": "C.UTF-8", "TZ": "UTC"} | own
