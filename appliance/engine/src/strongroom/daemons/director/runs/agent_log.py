"""How much of an agent's log of a run is kept: lines, bytes, and bytes a second.

An agent may send lines without end and faster than a disk takes them. What is above a limit is
left out and counted, and a line of the log says so.
"""

from __future__ import annotations

from typing import Final

from strongroom import clock

MOST_LINES: Final = 20_000
MOST_BYTES: Final = 4 << 20
# A burst is kept, such as the names of a folder's unreadable files.
BYTES_PER_SECOND: Final = 64 << 10
BURST_BYTES: Final = 1 << 20
# What a line takes besides its text.
_LINE_BYTES: Final = 64


class AgentLog:
    """The allowance of one run. `sequence`: the agent's last report that was handled."""

    def __init__(self) -> None:
        self.sequence = 0
        self._bytes = 0
        self._free_bytes = float(BURST_BYTES)
        self._counted_at = clock.elapsed_seconds()
        self._left_out = 0
        self._is_full = False

    def admit(self, text: str, lines_before: int) -> list[str]:
        """The lines to keep when the agent sends one; `lines_before`: that the run has already.

        Empty when it is left out.
        """
        if self._is_full:
            return []
        size = _LINE_BYTES + len(text)
        if lines_before >= MOST_LINES or self._bytes + size > MOST_BYTES:
            self._is_full = True
            return [*self.unsaid(), "the log of this run is full: further lines are left out"]
        now = clock.elapsed_seconds()
        regained = (now - self._counted_at) * BYTES_PER_SECOND
        self._free_bytes = min(float(BURST_BYTES), self._free_bytes + regained)
        self._counted_at = now
        if self._free_bytes < size:
            self._left_out += 1
            return []
        self._free_bytes -= size
        self._bytes += size
        return [*self.unsaid(), text]

    def unsaid(self) -> list[str]:
        """The line for what was left out since the last one, if anything was."""
        count, self._left_out = self._left_out, 0
        return [f"{count} more lines like these, which came too fast"] if count else []
