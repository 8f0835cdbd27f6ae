"""What uvicorn logs, so that nobody fills the director's log by it.

Each request that is no HTTP makes a line, each WebSocket several. Warnings and errors are ten a
minute each, and how many more there would have been; the rest says nothing that ours does not.
"""

from __future__ import annotations

import logging
from typing import Final

from strongroom.net.channels.unauthenticated import StrangersLog

# Where uvicorn logs all that is no access, and the WebSockets that it serves as well.
LOGGER: Final = logging.getLogger("uvicorn.error")

_log = logging.getLogger(__name__)


class UvicornLines(logging.Filter):
    """Decides which lines of LOGGER are logged."""

    def __init__(self) -> None:
        super().__init__()
        self._warnings = StrangersLog(_log, "%d more warnings of uvicorn")
        self._errors = StrangersLog(_log, "%d more errors of uvicorn")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is logged."""
        if record.levelno < logging.WARNING:
            return False
        return (self._errors if record.levelno >= logging.ERROR else self._warnings).may_say()

    def flush(self) -> None:
        """Say how many were left out where a minute is over."""
        self._warnings.flush()
        self._errors.flush()
