"""How long a job over all clients reads what one client stored and no one has verified.

A few kilobytes can be made to decode to hundreds of megabytes, so neither quotas nor sizes bound
what a hostile client costs. Each client has so much time in a run, and more for what it has stored;
what is left then waits for the next run, and the other clients continue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import TimeShareError

LEAST_SECONDS: Final = 900.0
# Slow for any disk and processor that reads honest data.
_BYTES_PER_SECOND: Final = 10e6


class TimeShares:
    """The time that clients have used, by their ids; for one thread."""

    def __init__(self, least_seconds: float = LEAST_SECONDS) -> None:
        self._least_seconds = least_seconds
        self._spent: dict[bytes, float] = {}
        self._earned: dict[bytes, float] = {}
        self._owner = b""
        self._started = 0.0

    @contextmanager
    def spending(self, owner: bytes, stored_bytes: int = 0) -> Iterator[None]:
        """Count what is done inside to a client. TimeShareError where it has no time left."""
        self._owner, self._started = owner, clock.elapsed_seconds()
        self.require()
        self._earned[owner] = self._earned.get(owner, 0.0) + stored_bytes / _BYTES_PER_SECOND
        try:
            yield
        finally:
            elapsed = clock.elapsed_seconds() - self._started
            self._spent[owner] = self._spent.get(owner, 0.0) + elapsed

    def require(self) -> None:
        """TimeShareError once the client of `spending` has used its time."""
        elapsed = clock.elapsed_seconds() - self._started
        allowed = self._least_seconds + self._earned.get(self._owner, 0.0)
        if self._spent.get(self._owner, 0.0) + elapsed > allowed:
            raise TimeShareError(
                f"reading what this client stored takes more than {allowed:.0f} s; the rest waits "
                "for the next run"
            )
