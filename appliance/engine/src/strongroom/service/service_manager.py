"""Integration with the service manager that started a daemon: readiness, and the log.

It reports when the daemon is ready, so that dependent services start afterwards (systemd's
Type=notify). When the log goes to the journal every line has its priority, for `journalctl -p
warning`. Without a service manager none of it has an effect.
"""

from __future__ import annotations

import logging
import os
import socket
import sys

from strongroom.service.log_lines import JournalLines, PeopleLines

_log = logging.getLogger(__name__)


def begin_log(*, verbose: bool) -> None:
    """Log everything to stderr; debug messages only if `verbose`."""
    messages = sys.stderr  # noqa: TID251 - log_lines makes all that goes there printable
    handler = logging.StreamHandler(messages)
    handler.setFormatter(JournalLines() if _is_journal(messages.fileno()) else PeopleLines())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])


def notify(state: str) -> None:
    """Notify the service manager, if there is one: READY=1, STOPPING=1 and so on, a line each."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    # A name that begins with @ is in the abstract namespace, not in the file system.
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_manager:
            to_manager.sendto(state.encode(), address)
    except OSError as error:
        _log.warning("the service manager cannot be notified of %s: %s", state, error.strerror)


def _is_journal(descriptor: int) -> bool:
    """Whether stderr is the journal, by the journal's own variable."""
    found = os.fstat(descriptor)
    return os.environ.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"
