"""Detects jumps of the wall clock, and suspends retention after one.

The wall clock is compared with a monotonic one. A jump of more than ten minutes either way is
reported, and until the clock is back where it was, or a day has passed, nothing is forgotten: if
the new time were wrong, snapshots would seem older than they are. The state survives a restart; a
jump while the director was down is detected only if it went backwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from strongroom import clock
from strongroom.clock import SECOND_NS

TOLERANCE_SECONDS: Final = 600.0
HOLD_SECONDS: Final = 86400.0


@dataclass(slots=True)
class ClockGuard:
    """offset_seconds: how far the clock jumped. held_seconds: how long retention is suspended."""

    offset_seconds: float = 0.0
    held_seconds: float = 0.0
    _now_ns: int = 0
    _elapsed: float = 0.0

    def __post_init__(self) -> None:
        self._now_ns, self._elapsed = clock.now_ns(), clock.elapsed_seconds()

    def load(self, saved: dict[str, Any] | None) -> str:
        """Restore the state of `saved` before a restart; returns a warning, or ""."""
        if not saved:
            return ""
        self.offset_seconds = float(saved["offset_seconds"])
        self.held_seconds = float(saved["held_seconds"])
        back_seconds = (int(saved["now_ns"]) - clock.now_ns()) / SECOND_NS
        if back_seconds <= TOLERANCE_SECONDS:
            return ""
        return self._jumped(-back_seconds)

    def saved(self) -> dict[str, Any]:
        """The state to keep over a restart."""
        return {
            "now_ns": self._now_ns,
            "offset_seconds": self.offset_seconds,
            "held_seconds": self.held_seconds,
        }

    def observe(self) -> str:
        """Compare both clocks; returns a warning if one has jumped since the last call, or ""."""
        now_ns, elapsed = clock.now_ns(), clock.elapsed_seconds()
        passed = elapsed - self._elapsed
        jump = (now_ns - self._now_ns) / SECOND_NS - passed
        self._now_ns, self._elapsed = now_ns, elapsed
        self.held_seconds = max(0.0, self.held_seconds - passed)
        if not self.held_seconds:
            self.offset_seconds = 0.0
        if abs(jump) <= TOLERANCE_SECONDS:
            return ""
        return self._jumped(jump)

    @property
    def obstacle(self) -> str:
        """Why nothing may be forgotten now, or ""."""
        if not self.held_seconds:
            return ""
        return (
            f"the clock jumped by {self.offset_seconds:+.0f} s; set it right, or wait "
            f"{self.held_seconds / 3600:.1f} h"
        )

    def _jumped(self, seconds: float) -> str:
        self.offset_seconds += seconds
        if abs(self.offset_seconds) <= TOLERANCE_SECONDS:
            self.offset_seconds = self.held_seconds = 0.0
            return f"the clock jumped by {seconds:+.0f} s and is right again"
        self.held_seconds = HOLD_SECONDS
        return f"the clock jumped by {seconds:+.0f} s; nothing is forgotten for a day"
