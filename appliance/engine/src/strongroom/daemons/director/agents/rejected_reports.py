"""Reports that can never be processed, as opposed to transient errors.

An agent sends a report until it is acknowledged. One that the director can never decode or store
must be acknowledged too, or the agent repeats it for ever and never sends those that follow.
"""

from __future__ import annotations

import errno
from typing import Final, Self

import msgspec

from strongroom.errors import CatalogUnavailableError
from strongroom.net.control.messages import RunEnded, RunLog, RunStarted, decoded

# More than any number of reports, and less than the integer limit of databases.
MOST_REPORTED: Final = 1 << 62
_LONGEST_ID: Final = 64
# Errors that end by themselves, or after somebody has freed space.
_PASSING: Final = frozenset(
    (errno.EAGAIN, errno.EDQUOT, errno.EINTR, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
     errno.ENOSPC, errno.EROFS, errno.ESTALE)
)  # fmt: skip
_NUMBERED: Final = (RunStarted, RunLog, RunEnded)
_TYPES: Final = frozenset(str(kind.__struct_config__.tag) for kind in _NUMBERED)


class Undeliverable(msgspec.Struct, frozen=True):
    """The part of a report needed to end its run. `status`: of a run's end, else ""."""

    run_id: str
    sequence: int
    type: str
    status: str = ""

    @classmethod
    def of(cls, report: RunStarted | RunLog | RunEnded) -> Self:
        """Create it from a report that was decoded but cannot be stored."""
        status = report.status if isinstance(report, RunEnded) else ""
        return cls(report.run_id, report.sequence, str(report.__struct_config__.tag), status)

    @property
    def is_end(self) -> bool:
        """Whether the agent reported the end of the run."""
        return self.type == RunEnded.__struct_config__.tag


def read_undeliverable(text: bytes | str) -> Undeliverable | None:
    """What can be read from a message that cannot be decoded; None if it is no report."""
    try:
        found = decoded(_decoder, text)
    except msgspec.MsgspecError:
        return None
    is_report = found.type in _TYPES and 0 < found.sequence < MOST_REPORTED
    return found if is_report and 0 < len(found.run_id) <= _LONGEST_ID else None


def is_final(error: Exception) -> bool:
    """Whether a retry would always fail the same way."""
    if isinstance(error, OSError):
        return error.errno not in _PASSING and not isinstance(error, ConnectionError | TimeoutError)
    return not isinstance(error, CatalogUnavailableError | MemoryError)


_decoder = msgspec.json.Decoder(Undeliverable)
