"""Whether a file is what root made it: who could have changed it, or put another in its place.

A process with more rights than others must not believe a file that they could write. All folders on
the way count, and every symbolic link: anyone who may write in one of them can exchange what is
below.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from typing import Final

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS: Final = 40


def require_trusted(path: str, what: str, *, is_listed: bool = False) -> None:
    """Raise UsageError unless only root, or our own user, can change what is at `path`.

    what: for the message. is_listed: a folder of which every file counts, so that no one else may
    add one, as they may in a sticky folder.
    """
    if reason := distrust(path, is_listed=is_listed):
        raise UsageError(f"{what}: {reason}; only root may be able to change it")


def distrust(path: str, *, is_listed: bool = False) -> str:
    """Why others could change what is at `path`, an absolute path; "" if they cannot."""
    ahead = deque(path.split("/"))
    here, links = "/", 0
    reason = _reason(here, os.lstat(here), is_listed=False)
    while ahead and not reason:
        name = ahead.popleft()
        if name in ("", "."):
            continue
        if name == "..":
            here = os.path.dirname(here)
            continue
        beyond = os.path.join(here, name)
        try:
            status = os.lstat(beyond)
            target = os.readlink(beyond) if stat.S_ISLNK(status.st_mode) else ""
        except OSError as error:
            return f"{printable(beyond)}: {error.strerror}"
        reason = _reason(beyond, status, is_listed=is_listed and not any(ahead))
        if not target:
            here = beyond
            continue
        links += 1
        if links > _MOST_LINKS:
            return f"{printable(path)}: too many symbolic links"
        if target.startswith("/"):
            here = "/"
        ahead.extendleft(reversed(target.split("/")))
    return reason


def _reason(path: str, status: os.stat_result, *, is_listed: bool) -> str:
    if status.st_uid not in (0, os.geteuid()):
        return f"{printable(path)} belongs to user {status.st_uid}"
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & _OTHERS_WRITE:
        return ""
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and not is_listed:
        # Others may add to it, but neither remove nor rename what is ours.
        return ""
    return f"others may write to {printable(path)} (mode {stat.S_IMODE(status.st_mode):04o})"
