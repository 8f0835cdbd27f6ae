"""Sums of sizes as snapshots hold them.

Sparse files may be so large that two of them exceed the 64 bits of a total, which then is the
largest that fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST_BYTES: Final = (1 << 63) - 1


def bytes_together(sizes: Iterable[int]) -> int:
    """The sum, within the bounds; hostile rows may have negative sizes."""
    return max(-LARGEST_BYTES, min(sum(sizes), LARGEST_BYTES))
