"""Detects jumps of the wall clock, and suspends retention after one.

The wall clock is compared with the time since boot, which suspend does not stop. A jump of more
than ten minutes either way is reported, and until the clock is correct again, or a day has
passed, nothing is forgotten: if the new time were wrong, snapshots would seem older than they are.
Meanwhile `sure_ns` continues without the jump.

The state survives a restart of the director, and then a jump meanwhile is detected as well. Over a
restart of the machine, which may have been off for any time, it is detected where the clock went
backwards, or more than three days ahead.

Once the clock is correct again, `wrong` says which times were written by the wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS

TOLERANCE_SECONDS: Final = 600.0
HOLD_SECONDS: Final = 86400.0
# How far the clock may go ahead while the machine is off.
ABSENCE_SECONDS: Final = 3 * 86400.0
_LATEST_NS: Final = 1 << 62


class WrongTimes(NamedTuple):
    """Times from `since_ns` to `until_ns` were written by a clock that was wrong; add `by_ns`."""

    since_ns: int
    until_ns: int
    by_ns: int


@dataclass(slots=True)
class ClockGuard:
    """offset_seconds: how far the clock jumped. held_seconds: how long retention is suspended.

    absence_seconds: how much of the offset may be time during which the machine was off.
    untrusted_seconds: how long it has been suspended without an interruption.
    """

    offset_seconds: float = 0.0
    held_seconds: float = 0.0
    absence_seconds: float = 0.0
    untrusted_seconds: float = 0.0
    wrong: WrongTimes | None = None
    _now_ns: int = 0
    _elapsed: float = 0.0
    _since_ns: int = 0

    def __post_init__(self) -> None:
        self._now_ns, self._elapsed = clock.now_ns(), clock.elapsed_seconds()

    def load(self, saved: dict[str, Any] | None) -> str:
        """Restore the state of `saved` before a restart; returns a warning, or ""."""
        if not saved:
            return ""
        self.offset_seconds = float(saved["offset_seconds"])
        self.held_seconds = float(saved["held_seconds"])
        self.absence_seconds = float(saved.get("absence_seconds", 0.0))
        # Before 0.9.0 the state had another name.
        before = saved.get("doubted_seconds", 0.0)
        self.untrusted_seconds = float(saved.get("untrusted_seconds", before))
        self._since_ns = int(saved.get("since_ns", 0))
        passed = (self._now_ns - int(saved["now_ns"])) / SECOND_NS
        if "elapsed" in saved and saved["boot_id"] == clock.boot_id():
            return self._judge(passed - (self._elapsed - float(saved["elapsed"])))
        # The machine has been off for a time that no one knows.
        if -TOLERANCE_SECONDS <= passed <= ABSENCE_SECONDS:
            return ""
        if passed > 0:
            self.absence_seconds = ABSENCE_SECONDS
        return self._jumped(passed)

    def saved(self) -> dict[str, Any]:
        """The state to keep over a restart."""
        return {
            "now_ns": self._now_ns,
            "boot_id": clock.boot_id(),
            "elapsed": self._elapsed,
            "offset_seconds": self.offset_seconds,
            "held_seconds": self.held_seconds,
            "absence_seconds": self.absence_seconds,
            "untrusted_seconds": self.untrusted_seconds,
            "since_ns": self._since_ns,
        }

    def observe(self) -> str:
        """Compare both clocks; returns a warning if one has jumped since the last call, or ""."""
        before_ns, before = self._now_ns, self._elapsed
        self._now_ns, self._elapsed = clock.now_ns(), clock.elapsed_seconds()
        passed = self._elapsed - before
        was_held, self.held_seconds = self.held_seconds, max(0.0, self.held_seconds - passed)
        self.untrusted_seconds += passed if was_held else 0.0
        if was_held and not self.held_seconds:
            if self.offset_seconds < 0:
                # It had been ahead before.
                since_ns = self._now_ns + int(TOLERANCE_SECONDS * SECOND_NS)
                self.wrong = WrongTimes(since_ns, _LATEST_NS, int(self.offset_seconds * SECOND_NS))
            self.offset_seconds = self.absence_seconds = 0.0
        warning = self._judge((self._now_ns - before_ns) / SECOND_NS - passed, passed)
        if not self.held_seconds:
            self.untrusted_seconds = 0.0
        return warning

    @property
    def obstacle(self) -> str:
        """Why nothing may be forgotten now, or ""."""
        if not self.held_seconds:
            return ""
        return (
            f"the clock jumped by {self.offset_seconds:+.0f} s; correct it, or wait "
            f"{self.held_seconds / 3600:.1f} h"
        )

    @property
    def is_unsteady(self) -> bool:
        """Whether the clock jumps again and again: retention is suspended for more than a day."""
        return bool(self.held_seconds) and self.untrusted_seconds > HOLD_SECONDS

    def sure_ns(self) -> int:
        """The time now, without a jump that may have been wrong."""
        jump = clock.now_ns() - self._now_ns
        passed_ns = int((clock.elapsed_seconds() - self._elapsed) * SECOND_NS)
        if abs(jump - passed_ns) <= TOLERANCE_SECONDS * SECOND_NS:
            passed_ns = jump
        return self._now_ns + passed_ns - int(self.offset_seconds * SECOND_NS)

    def _judge(self, jump: float, passed: float = 0.0) -> str:
        return "" if abs(jump) <= TOLERANCE_SECONDS else self._jumped(jump, passed)

    def _jumped(self, seconds: float, passed: float = 0.0) -> str:
        was_held, self.offset_seconds = bool(self.held_seconds), self.offset_seconds + seconds
        most_seconds = max(TOLERANCE_SECONDS, self.absence_seconds)
        if -TOLERANCE_SECONDS <= self.offset_seconds <= most_seconds:
            if was_held:
                by_ns = int(seconds * SECOND_NS)
                self.wrong = WrongTimes(self._since_ns, self._now_ns - by_ns, by_ns)
            self.offset_seconds = self.held_seconds = self.absence_seconds = 0.0
            return f"the clock jumped by {seconds:+.0f} s and is correct again"
        if not was_held:
            self._since_ns = self._now_ns - int(passed * SECOND_NS)
        self.held_seconds = HOLD_SECONDS
        return f"the clock jumped by {seconds:+.0f} s; nothing is forgotten for a day"
