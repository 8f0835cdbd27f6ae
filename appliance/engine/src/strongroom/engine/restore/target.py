"""Where a restore may write: rules, and the target opened or created if they allow it.

The path is walked from / by descriptors, one name at a time, and every symbolic link on it is read
and followed here, never by the kernel. So the folder that rules judge is the one that is opened,
even if links are replaced meanwhile, and nothing is created before the rules have allowed it. Only
links of root and of our own user are followed: others may have planted theirs to lead us elsewhere.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from strongroom.base.errors import NotPermittedError, OperatingSystemError
from strongroom.base.printable import printable

# Where files may be restored to: entries of Where ACLs, judged by the director and the agent.
#
# The director judges the requested path, the agent the resolved one: a symbolic link on the client
# cannot bypass the entries. As elsewhere the first entry that matches decides, for or, with `!`
# before it, against; `*all*` matches everything. An entry matches the folder that it names and all
# below it. A regular expression matches whole paths, and with `!` all below them too.

ALL: Final = "*all*"


class WhereRules(msgspec.Struct, frozen=True):
    """Lists of entries (without any: no rules); every list must allow a folder.

    folders: of this machine; files may go there and below, () for everywhere.
    """

    layers: tuple[tuple[str, ...], ...]
    folders: tuple[str, ...] = ()

    def permits(self, folder: bytes) -> bool:
        """Whether files may go to this folder, an absolute, resolved path."""
        path = folder.decode("utf-8", "surrogateescape")
        if self.folders and not any(_lies_in(path, each) for each in self.folders):
            return False
        return all(where_verdict(layer, path) for layer in self.layers)

    def denied_below(self, folder: bytes) -> str:
        """A folder below this one that is denied by name, "" without any."""
        path = folder.decode("utf-8", "surrogateescape")
        found = (denied_below(layer, path) for layer in self.layers)
        return next(filter(None, found), "")

    def __str__(self) -> str:
        """In the notation of the configuration."""
        shown = [f"`Where ACL = {', '.join(layer)}` of anyone who asks" for layer in self.layers]
        if self.folders:
            shown.append(f"`Allowed Restore Dir = {', '.join(self.folders)}` of this agent")
        return " and ".join(shown)


def where_verdict(entries: Iterable[str], path: str) -> bool | None:
    """Whether a list allows a folder; None when no entry matches."""
    for entry in entries:
        pattern = entry.removeprefix("!")
        denies = entry.startswith("!")
        if pattern.lower() == ALL or _covers(pattern, path, with_below=denies):
            return not denies
    return None


def denied_below(entries: Sequence[str], path: str) -> str:
    """A folder below `path`, or an expression that may match one, that a list denies; else "".

    A restore creates whole trees, so what is denied below its target must be known beforehand.
    """
    above = path.rstrip("/") + "/"
    for entry in entries:
        pattern = entry.removeprefix("!")
        if pattern == entry:
            if pattern.lower() == ALL or _lies_in(path, pattern):
                # It decides about all below, so later entries do not count.
                return ""
        elif compiled_entry(pattern, minds_case=True) is not None:
            if _may_match_below(pattern, above):
                return pattern
        elif pattern.startswith(above) and where_verdict(entries, pattern.rstrip("/")) is False:
            return pattern.rstrip("/")
    return ""


@lru_cache(maxsize=4096)
def compiled_entry(pattern: str, *, minds_case: bool) -> re.Pattern[str] | None:
    """An entry of an ACL as a regular expression; None if it is not one."""
    # The configuration allows letters, digits and !()[]|+?*.:_-'/ in an entry; within these Python
    # reads a regular expression as POSIX does.
    if not set(pattern) & set("()[]|+?*."):
        return None
    try:
        return re.compile(pattern, 0 if minds_case else re.IGNORECASE)
    except re.error:
        return None


def _covers(pattern: str, path: str, *, with_below: bool) -> bool:
    if _lies_in(path, pattern):
        return True
    compiled = compiled_entry(pattern, minds_case=True)
    if compiled is None:
        return False
    folders = [path]
    while with_below and (path := path.rpartition("/")[0]):
        folders.append(path)
    return any(compiled.fullmatch(folder) for folder in folders)


def _lies_in(path: str, folder: str) -> bool:
    bare = folder.rstrip("/")
    return path == bare or path.startswith(bare + "/")


def _may_match_below(pattern: str, above: str) -> bool:
    """Whether a regular expression might match what begins with `above`; True if unsure."""
    if not set(pattern) & set("()[]|+?*\\"):
        # No operators but dots, as in names: it matches folders as deep as itself.
        depth = above.count("/")
        parts = pattern.split("/")
        head = re.compile("/".join(parts[:depth]))
        return len(parts) > depth and head.fullmatch(above[:-1]) is not None
    if "|" in pattern:
        return True
    plain = re.split(r"[()\[\].+?*\\]", pattern, maxsplit=1)[0]
    if pattern[len(plain) : len(plain) + 1] in tuple("+?*"):
        # It applies to the character before it.
        plain = plain[:-1]
    beginning = plain[: plain.rfind("/") + 1]
    return beginning.startswith(above) or above.startswith(beginning)


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
