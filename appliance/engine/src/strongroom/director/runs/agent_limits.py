"""Limits on data in agents' messages, so that it can be stored and shown, and on lines about them.

A compromised agent may send anything: a text may be megabytes or contain forged log lines, data may
be nested so deep that the API cannot serialize it. Everything from an agent that is stored, shown
or logged goes through here. One agent must neither fill the log nor hide the lines of others: of
each ten lines a minute are logged, then only a count.

An agent sends a report until it is acknowledged. One that the director can never decode or store,
as opposed to transient errors, must be acknowledged too, or the agent repeats it forever and never
sends those that follow.

An agent may send lines of a run's log without end, and faster than a disk takes them. What is above
a limit of lines, bytes, or bytes a second is left out and counted, and a line of the log says so.
"""

from __future__ import annotations

import errno
import re
from typing import Any, Final, Self

import msgspec

from strongroom.base import clock
from strongroom.base.errors import CatalogUnavailableError
from strongroom.director.catalog.storable import left_out, shallow
from strongroom.director.shown_text import shown
from strongroom.net.control.messages import (
    Hello,
    RunEnded,
    RunLog,
    RunProgress,
    RunStarted,
    decoded,
)

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
MOST_LINES: Final = 20_000
MOST_BYTES: Final = 4 << 20
# A burst is kept, such as the names of a folder's unreadable files.
BYTES_PER_SECOND: Final = 64 << 10
BURST_BYTES: Final = 1 << 20
# What a line takes besides its text.
_LINE_BYTES: Final = 64
# How many runs and features an agent can name at once; normally a few.
MOST_NAMED: Final = 4096
_MOST_DATA_BYTES: Final = 64 << 10
_MOST_FEATURES: Final = 100
_MOST_WORKERS: Final = 1 << 16
# What an agent of ours says of itself. Nothing else is kept: these texts reach templates of
# Ansible, labels of metrics and scripts of administrators.
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+~-]{0,99}")
_PLATFORM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~@:,=-]{0,199}")
_BOOT_ID: Final = re.compile(r"[0-9A-Fa-f-]{1,64}")
_FEATURE: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,49}")
_RUN_ID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")


def bounded_data(data: dict[str, Any]) -> dict[str, Any]:
    """The summary or the security of a report, unless it is too large to store."""
    try:
        is_long = len(msgspec.json.encode(data)) > _MOST_DATA_BYTES
    except RecursionError:
        return left_out()
    return left_out() if is_long else shallow(data)


def bounded_hello(hello: Hello) -> Hello:
    """A Hello, limited so that it can be kept while its agent is connected.

    A text that no agent of ours sends is "", that is unknown; such a feature or run is left out.
    """
    return msgspec.structs.replace(
        hello,
        version=_matching(_VERSION, hello.version),
        platform=_matching(_PLATFORM, hello.platform),
        boot_id=_matching(_BOOT_ID, hello.boot_id),
        instance=_matching(_BOOT_ID, hello.instance),
        machine=_matching(_BOOT_ID, hello.machine),
        features=tuple(filter(_FEATURE.fullmatch, hello.features[:_MOST_FEATURES])),
        workers=max(0, min(hello.workers, _MOST_WORKERS)),
        runs=tuple(filter(_RUN_ID.fullmatch, hello.runs[:MOST_NAMED])),
    )


def bounded_progress(progress: RunProgress) -> RunProgress:
    """Progress, limited so that it can be kept until the next one."""
    return msgspec.structs.replace(progress, message=shown(progress.message))


def _matching(pattern: re.Pattern[str], text: str) -> str:
    return text if pattern.fullmatch(text) else ""


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
    """What can be read from a message that cannot be decoded; None if it is not a report."""
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


class AgentLog:
    """The allowance of one run. `sequence`: the agent's last report that was handled."""

    def __init__(self) -> None:
        self.sequence = 0
        self._bytes = 0
        self._free_bytes = float(BURST_BYTES)
        self._counted_at = clock.elapsed_seconds()
        self._left_out = 0
        self._is_full = False

    def admit(self, text: str, lines_before: int) -> list[str]:
        """The lines to keep when the agent sends one; `lines_before`: that the run has already.

        Empty when it is left out.
        """
        if self._is_full:
            return []
        size = _LINE_BYTES + len(text)
        if lines_before >= MOST_LINES or self._bytes + size > MOST_BYTES:
            self._is_full = True
            return [*self.unsaid(), "the log of this run is full: further lines are left out"]
        now = clock.elapsed_seconds()
        regained = (now - self._counted_at) * BYTES_PER_SECOND
        self._free_bytes = min(float(BURST_BYTES), self._free_bytes + regained)
        self._counted_at = now
        if self._free_bytes < size:
            self._left_out += 1
            return []
        self._free_bytes -= size
        self._bytes += size
        return [*self.unsaid(), text]

    def unsaid(self) -> list[str]:
        """The line for what was left out since the last one, if anything was."""
        count, self._left_out = self._left_out, 0
        return [f"{count} more lines like these, which came too fast"] if count else []
