"""Time that only continues when a test says so."""

from __future__ import annotations

import pytest

from strongroom.base import clock

SECOND_NS = 1_000_000_000


class VirtualTime:
    """In the place of strongroom.base.clock's two clocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now_ns: int) -> None:
        self.now_ns = now_ns
        self.elapsed = 1000.0
        monkeypatch.setattr(clock, "now_ns", lambda: self.now_ns)
        monkeypatch.setattr(clock, "elapsed_seconds", lambda: self.elapsed)

    def pass_by(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND_NS)
        self.elapsed += seconds

    def jump(self, seconds: float) -> None:
        """The wall clock is set; no time has gone by."""
        self.now_ns += int(seconds * SECOND_NS)


class ShiftedTime(VirtualTime):
    """The real clocks, shifted: for tests in which other processes and file systems take part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now_ns, elapsed = clock.now_ns, clock.elapsed_seconds
        super().__init__(monkeypatch, 0)
        self.elapsed = 0.0
        monkeypatch.setattr(clock, "now_ns", lambda: now_ns() + self.now_ns)
        monkeypatch.setattr(clock, "elapsed_seconds", lambda: elapsed() + self.elapsed)
