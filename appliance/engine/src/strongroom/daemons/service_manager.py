"""What a daemon and the service manager that started it tell each other.

That it serves now, so that what is started after it finds it there (systemd's Type=notify), and its
log: where that is the journal every line bears its level, for `journalctl -p warning` to find.
Without a service manager none of it changes anything.
"""

from __future__ import annotations

import logging
import os
import socket
import sys

from strongroom.daemons.log_lines import JournalLines, PeopleLines

_log = logging.getLogger(__name__)


def begin_log(*, verbose: bool) -> None:
    """Have everything that is logged go to stderr; what is for debugging only if `verbose`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JournalLines() if _is_journal(sys.stderr.fileno()) else PeopleLines())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])


def notify(state: str) -> None:
    """Tell the service manager, if there is one: READY=1, STOPPING=1 and so on, a line each."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    # A name that begins with @ stands for one that is not in the file system.
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_manager:
            to_manager.sendto(state.encode(), address)
    except OSError as error:
        _log.warning("the service manager cannot be told %s: %s", state, error.strerror)


def _is_journal(descriptor: int) -> bool:
    """Whether what is written there goes to the journal, as it says itself."""
    found = os.fstat(descriptor)
    return os.environ.get("JOURNAL_STREAM", "") == f"{found.st_dev}:{found.st_ino}"
