"""The only source of time and randomness, so that tests can control both; and UTC as text.

Ruff's banned-api (pyproject.toml) keeps everything else in the engine from calling `time.time`,
`time.monotonic`, `datetime.now`, `os.urandom`, `random`, `secrets` or `uuid4`.
"""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

SECOND_NS: Final = 1_000_000_000


def now_ns() -> int:
    """Wall clock, nanoseconds since 1970-01-01 UTC."""
    return time.time_ns()


def thread_seconds() -> float:
    """Processor time of the calling thread."""
    return time.thread_time()


def children_seconds() -> float:
    """Processor time of the processes that this one has started and waited for, and theirs."""
    spent = os.times()
    return spent.children_user + spent.children_system


def elapsed_seconds() -> float:
    """Seconds since boot, for durations; suspend is included, so that patience ends in time."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def service_manager_seconds() -> float:
    """Seconds of the clock by which systemd measures; it stands still during suspend."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def since_boot_ns() -> int:
    """Nanoseconds since boot, suspend included; monotonic, whatever sets the wall clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@functools.cache
def boot_id() -> str:
    """The boot id of the running kernel; "" where it is not available."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def random_bytes(size: int) -> bytes:
    """`size` bytes from the kernel's generator, fit for keys."""
    return os.urandom(size)


def random_choices() -> random.Random:
    """A generator for choices that need not be unpredictable (samples, places); not for keys."""
    import random

    return random.Random(random_bytes(16))  # noqa: S311 - nothing to guess here


def read_time_zone() -> None:
    """Use the system's time zone as it is now; a process reads it once otherwise."""
    time.tzset()


def utc_text(time_ns: int) -> str:
    """`2026-11-21T13:10:38.123456789Z`; `@seconds` where the calendar ends."""
    seconds, fraction = divmod(time_ns, SECOND_NS)
    try:
        utc = time.gmtime(seconds)
    except (OverflowError, ValueError, OSError):
        return f"@{seconds}"
    return (
        f"{utc.tm_year:04}-{utc.tm_mon:02}-{utc.tm_mday:02}"
        f"T{utc.tm_hour:02}:{utc.tm_min:02}:{utc.tm_sec:02}.{fraction:09}Z"
    )


def follow_time_zone() -> None:
    """Use the time zone that the system has now, for local times."""
    time.tzset()


def local_text(time_ns: int) -> str:
    """`2026-11-21 13:10:38`, local time; `@seconds` where the calendar ends."""
    seconds = time_ns // SECOND_NS
    try:
        local = time.localtime(seconds)
    except (OverflowError, ValueError, OSError):
        return f"@{seconds}"
    return (
        f"{local.tm_year:04}-{local.tm_mon:02}-{local.tm_mday:02} "
        f"{local.tm_hour:02}:{local.tm_min:02}:{local.tm_sec:02}"
    )


def local_zone_text() -> str:
    """`CET`: what the clocks of the system's time zone show now."""
    return time.strftime("%Z")
