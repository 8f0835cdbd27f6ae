"""Limits log lines that agents cause: ten a minute for each agent, then only a count.

Even an authenticated agent may be compromised. One agent must neither fill the log nor hide the
lines of others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom.net.channels.unauthenticated import StrangersLog

if TYPE_CHECKING:
    import logging


class AgentLines:
    """Lines about agents, for one logger. For the event loop only."""

    def __init__(self, log: logging.Logger, subject: str) -> None:
        self._log = log
        self._subject = subject
        # Client -> the limit of its lines; there are as many clients as the configuration names.
        self._of_clients: dict[str, StrangersLog] = {}

    def log(
        self,
        client: str,
        level: int,
        message: str,
        *values: object,
        fault: BaseException | None = None,
    ) -> None:
        """Log a line, with the traceback of a `fault`, or count it."""
        self.flush()
        if client not in self._of_clients:
            about = f"{self._subject} of agent {client}".replace("%", "%%")
            self._of_clients[client] = StrangersLog(self._log, f"%d more lines about {about}")
        if self._of_clients[client].may_say():
            self._log.log(level, message, *values, exc_info=fault)

    def flush(self) -> None:
        """Log how many lines were left out when a minute is over; call it now and then."""
        for lines in self._of_clients.values():
            lines.flush()
