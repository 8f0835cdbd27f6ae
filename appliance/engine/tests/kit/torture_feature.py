"""A feature of the torture tree: a function that fills one directory, or says why it cannot.

A feature raises `FeatureRefusedError` (or lets an OSError of the refusing kind through) only when
the kernel, the file system or the lack of root refuses; all else is a failure of the test.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

REFUSALS = frozenset(
    {
        errno.EPERM,
        errno.EACCES,
        errno.EOPNOTSUPP,
        errno.ENOTTY,
        errno.EINVAL,
        errno.ENOSYS,
        errno.EFBIG,
        errno.EOVERFLOW,
    }
)


class FeatureRefusedError(Exception):
    """This place does not keep the feature; the message says what refused."""


@dataclass(frozen=True)
class Feature:
    """`fill(directory)` makes the feature's entries in an empty directory, by its descriptor."""

    name: str
    fill: Callable[[int], None]
