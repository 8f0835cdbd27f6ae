"""Rate limit for failures of one address: wrong tokens and enrolment secrets, broken requests.

Failures are counted by address within a sliding window; IPv6 addresses by their /64, as a host has
2^64 of those. The table is bounded: when it is full the address that failed longest ago is
removed, so a flood of addresses costs no memory. Used from the event loop only.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.errors import TooManyAttemptsError
from strongroom.net.channels.unauthenticated import network_of

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_ADDRESSES: Final = 4096


class Attempts:
    """Allows `limit` failures an address in `window_seconds`; remembers `most_addresses`."""

    def __init__(
        self,
        limit: int,
        window_seconds: float,
        elapsed: Callable[[], float] = clock.elapsed_seconds,
        most_addresses: int = MOST_ADDRESSES,
    ) -> None:
        self._limit = limit
        self._window_seconds = window_seconds
        self._elapsed = elapsed
        self._most_addresses = most_addresses
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise TooManyAttemptsError when `address` has failed too often."""
        times = self._current(network_of(address))
        if times and len(times) >= self._limit:
            wait_seconds = int(times[0] + self._window_seconds - self._elapsed()) + 1
            raise TooManyAttemptsError(
                f"too many failed attempts from {address}; wait {wait_seconds} s"
            )

    def failed(self, address: str) -> None:
        """Count a failure."""
        network = network_of(address)
        times = self._current(network)
        if times is None:
            times = deque(maxlen=self._limit)
            self._failures[network] = times
        times.append(self._elapsed())
        self._failures.move_to_end(network)
        while len(self._failures) > self._most_addresses:
            self._failures.popitem(last=False)

    def _current(self, network: str) -> deque[float] | None:
        times = self._failures.get(network)
        if times is None:
            return None
        oldest = self._elapsed() - self._window_seconds
        while times and times[0] <= oldest:
            times.popleft()
        if not times:
            del self._failures[network]
            return None
        return times
