"""Numbers operations that finish out of order, so that some can wait for all before them."""

from __future__ import annotations


class Marks:
    """Numbers operations in the order they start; knows up to where all have ended."""

    def __init__(self) -> None:
        self._next = 0
        self._open: dict[int, int] = {}

    def begin(self) -> int:
        """The number of an operation that starts now; it ends by one `end`."""
        self._next += 1
        self._open[self._next] = 1
        return self._next

    def hold(self, number: int) -> None:
        """The operation with this number needs one more `end`."""
        self._open[number] += 1

    def end(self, number: int) -> None:
        """One part of the operation with this number has ended."""
        self._open[number] -= 1
        if not self._open[number]:
            del self._open[number]

    def has_ended(self, number: int) -> bool:
        """Whether everything up to `number` has ended."""
        return next(iter(self._open), self._next + 1) > number
