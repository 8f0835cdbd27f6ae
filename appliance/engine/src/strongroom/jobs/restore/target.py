"""Opens or creates the target of a restore at its resolved path, if rules allow it.

The path is walked from / by descriptors, one name at a time, and every symbolic link on it is read
and followed here, never by the kernel. So the folder that rules judge is the one that is opened,
even if links are replaced meanwhile, and nothing is created before the rules have allowed it. Only
links of root and of our own user are followed: others may have planted theirs to lead us elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from typing import TYPE_CHECKING, Final

from strongroom.errors import NotPermittedError, OperatingSystemError
from strongroom.printable import printable

if TYPE_CHECKING:
    from strongroom.jobs.restore.where_rules import WhereRules

_STEP: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = _STEP | os.O_DIRECTORY
_MOST_LINKS: Final = 40


def open_target(target: bytes, rules: WhereRules | None, *, dry_run: bool) -> tuple[int, bool]:
    """An O_PATH descriptor of `target`, an absolute path, and whether it was created.

    A missing path is created, the target itself with mode 0700; in a dry run it is not, and the
    descriptor is -1. Raises NotPermittedError when `rules` deny its resolved path,
    OperatingSystemError when it cannot be opened or created.
    """
    walk = _TargetWalk()
    try:
        missing = walk.go(target)
        if rules is not None:
            _judge(target, walk.path(missing), rules)
        if missing and dry_run:
            return -1, True
        for number, name in enumerate(missing, 1):
            walk.make(name, 0o700 if number == len(missing) else 0o777)
        return walk.taken(), bool(missing)
    except OSError as error:
        raise OperatingSystemError(
            f"{_shown(target)}: {error.strerror}; name a directory to restore into"
        ) from error
    finally:
        walk.close()


def _judge(target: bytes, real: bytes, rules: WhereRules) -> None:
    is_led = real != os.path.normpath(target)
    # The director, which knows what is restored, has checked below the requested target.
    denied = rules.denied_below(real) if is_led else ""
    if rules.permits(real) and not denied:
        return
    led = f": links lead from there to {_shown(real)}" if is_led else ""
    raise NotPermittedError(
        f"files may not be restored to {_shown(target)}{led}; {rules} would have to allow "
        f"{denied or _shown(real)}"
    )


class _TargetWalk:
    """The path down to a folder; all folders on it stay open, for `..` in links."""

    def __init__(self) -> None:
        self._fds = [os.open(b"/", _FOLDER)]
        self._names: list[bytes] = []

    def path(self, missing: list[bytes]) -> bytes:
        """The path reached so far, and what is missing from there on."""
        return b"/" + b"/".join([*self._names, *missing])

    def go(self, path: bytes) -> list[bytes]:
        """Walk as far as the path exists; returns the missing names. Raises OSError."""
        ahead = deque(path.split(b"/"))
        links = 0
        while ahead:
            name = ahead.popleft()
            if name in (b"", b"."):
                continue
            if name == b"..":
                self._back(len(self._names) - 1)
                continue
            try:
                fd = os.open(name, _STEP, dir_fd=self._fds[-1])
            except FileNotFoundError:
                missing = [one for one in (name, *ahead) if one not in (b"", b".")]
                if b".." in missing:
                    raise
                return missing
            status = os.fstat(fd)
            mode = status.st_mode
            if stat.S_ISDIR(mode):
                self._fds.append(fd)
                self._names.append(name)
                continue
            try:
                links += 1
                if not stat.S_ISLNK(mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
                if status.st_uid not in (0, os.geteuid()):
                    raise OSError(
                        errno.EPERM, f"{_shown(name)} is a link of user {status.st_uid}", name
                    )
                leads_to = os.readlink(b"", dir_fd=fd)
            finally:
                os.close(fd)
            if leads_to.startswith(b"/"):
                self._back(0)
            ahead.extendleft(reversed(leads_to.split(b"/")))
        return []

    def make(self, name: bytes, mode: int) -> None:
        """Create a directory and enter that inode. Raises OSError, also for a link there."""
        os.mkdir(name, mode, dir_fd=self._fds[-1])
        self._fds.append(os.open(name, _FOLDER, dir_fd=self._fds[-1]))
        self._names.append(name)

    def taken(self) -> int:
        """The descriptor of the folder reached, which the caller now owns."""
        return self._fds.pop()

    def close(self) -> None:
        """Close everything else."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    def _back(self, depth: int) -> None:
        for fd in self._fds[max(0, depth) + 1 :]:
            os.close(fd)
        del self._fds[max(0, depth) + 1 :], self._names[max(0, depth) :]


def _shown(path: bytes) -> str:
    return printable(path)
