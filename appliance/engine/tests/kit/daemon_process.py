"""A daemon as a real process: started, killed, stopped, its log and its clock."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kit.prepared_commands import Process, start_command
from kit.prepared_jobs import children_of
from kit.shifted_clock import ShiftedClock

PATIENCE_SECONDS = 60.0


class DaemonProcess:
    """One daemon: `strongroom KIND --config FILE`, its log, and its clock if it has its own."""

    def __init__(
        self, kind: str, configuration: Path, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.kind = kind
        self.configuration = configuration
        self._log = log
        self.environment = dict(environment)
        self.clock: ShiftedClock | None = None
        self._process: Process | None = None

    @property
    def pid(self) -> int:
        """That of the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What it said so far, all its lives together."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Start it."""
        assert not self.is_running
        shift = self.clock.environment if self.clock is not None else {}
        with self._log.open("ab") as log:
            self._process = start_command(
                [self.kind, "--config", str(self.configuration)],
                {**self.environment, **shift},
                log.fileno(),
                log.fileno(),
            )

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it without a chance to do anything more."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)

    def stop(self) -> int:
        """End it as a service manager does; its exit code."""
        self.signal(signal.SIGTERM)
        return self.await_end()

    def await_end(self) -> int:
        """Wait until it has ended; its exit code."""
        assert self._process is not None
        return self._process.wait(PATIENCE_SECONDS)

    def await_said(self, text: str, times: int = 1) -> None:
        """Return when its log has `text` so often."""
        wait_for(lambda: self.log.count(text) >= times, lambda: self.log)

    def processes(self) -> list[int]:
        """Pids of it and of all that it started and that is still there."""
        found = [self.pid]
        for pid in found:
            try:
                found += children_of(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found


def wait_for(
    settled: Callable[[], bool],
    why: Callable[[], str] = str,
    patience_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Return when `settled` says yes; fails with `why` when it does not in good time."""
    end = time.monotonic() + patience_seconds
    while not settled():
        assert time.monotonic() < end, why()
        time.sleep(0.05)
