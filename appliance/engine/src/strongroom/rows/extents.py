"""The data extents of a sparse file that has very many, 16 bytes each instead of a hundred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    Integers = np.ndarray[Any, np.dtype[np.int64]]


class ManyExtents(Sequence[tuple[int, int]]):
    """(offset, length) of each, from two columns; equal to a list of the same pairs."""

    __slots__ = ("_lengths", "_offsets")

    def __init__(self, offsets: Integers, lengths: Integers) -> None:
        self._offsets = offsets
        self._lengths = lengths

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, place: int) -> tuple[int, int]: ...

    @overload
    def __getitem__(self, place: slice) -> ManyExtents: ...

    def __getitem__(self, place: int | slice) -> tuple[int, int] | ManyExtents:
        if isinstance(place, slice):
            return ManyExtents(self._offsets[place], self._lengths[place])
        return int(self._offsets[place]), int(self._lengths[place])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        # Views make each number when it is wanted, lists would make all of them.
        return zip(self._offsets.data, self._lengths.data, strict=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ManyExtents | list):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == its for mine, its in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]
