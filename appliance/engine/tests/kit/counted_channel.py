"""A channel that counts how often its owner sends and then waits: round trips to the other side."""

from __future__ import annotations

import itertools
import mmap
import struct
from collections.abc import Callable
from typing import Any

from strongroom.net.channels.channel import Channel

_MOST_CONNECTIONS = 64
_COUNT = struct.Struct("=Q")


class RoundTrips:
    """Counts of all channels that `counted` gave, those used by forked processes too."""

    def __init__(self) -> None:
        self._counts = mmap.mmap(-1, _MOST_CONNECTIONS * _COUNT.size)
        self._numbers = itertools.count()

    @property
    def connections(self) -> list[int]:
        """What each connection waited for, in the order in which they were made."""
        counts = [one for (one,) in _COUNT.iter_unpack(self._counts)]
        return counts[: next(self._numbers)]

    def counted(self, connect: Callable[[], Channel]) -> Callable[[], Channel]:
        """The same way to connect, its channels counted."""
        return lambda: _CountedChannel(connect(), self, next(self._numbers))

    def add(self, number: int) -> None:
        """One more; only the process that uses connection `number` calls it."""
        place = number * _COUNT.size
        (count,) = _COUNT.unpack_from(self._counts, place)
        _COUNT.pack_into(self._counts, place, count + 1)


class _CountedChannel:
    def __init__(self, inner: Channel, trips: RoundTrips, number: int) -> None:
        self._inner = inner
        self._trips = trips
        self._number = number
        self._has_sent = False

    def send(self, *parts: Any) -> None:
        self._has_sent = True
        self._inner.send(*parts)

    def send_content(self, start: Any, content: Any) -> None:
        self._has_sent = True
        self._inner.send_content(start, content)

    def wait_readable(self, timeout_seconds: float) -> bool:
        # What is waited for was asked for before: only what was sent since can be a new question.
        if self._has_sent:
            self._has_sent = False
            self._trips.add(self._number)
        return self._inner.wait_readable(timeout_seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
