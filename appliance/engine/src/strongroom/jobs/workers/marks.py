"""Numbers for things that are done out of order, where some must wait for all before them."""

from __future__ import annotations


class Marks:
    """Numbers for things begun, in order; tells up to where all of them have ended."""

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, int] = {}

    def begin(self) -> int:
        """The number of something that begins now; it ends by one `end`."""
        self._next += 1
        self._open[self._next] = 1
        return self._next

    def hold(self, number: int) -> None:
        """What has this number takes one more `end`."""
        self._open[number] += 1

    def end(self, number: int) -> None:
        """One of the things with this number has ended."""
        self._open[number] -= 1
        if not self._open[number]:
            del self._open[number]

    def has_ended(self, number: int) -> bool:
        """Whether everything up to `number` has ended."""
        return next(iter(self._open), self._next + 1) > number
