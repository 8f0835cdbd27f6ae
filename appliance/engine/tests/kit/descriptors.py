"""Descriptors of the test's own process."""

from __future__ import annotations

import os
import resource
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# What select of the C library refuses.
ABOVE_SELECT: Final = 1100


@contextmanager
def many_descriptors() -> Iterator[None]:
    """Have so many descriptors open that the next is above 1023."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    opened = [os.open(os.devnull, os.O_RDONLY)]
    try:
        opened.extend(os.dup(opened[0]) for _ in range(ABOVE_SELECT))
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def is_readable(descriptor: int, seconds: float | None = None) -> bool:
    """Wait until it can be read, so long at most; unlike select, also above 1023."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def open_as(name: str) -> str:
    """What a descriptor of this process, as /proc/self/fd lists it, is open on; "" if closed."""
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""
