"""Files and directories of this machine as a source."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from strongroom.base.errors import SourceError, UsageError
from strongroom.base.printable import printable
from strongroom.base.text_marks import has_typographic_quotes
from strongroom.engine.scan.mounts import file_system_type, lies_below, mount_points_of
from strongroom.sources.source import Problem, SourceRequest, Stream

_KINDS: Final = {
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "block device",
    stat.S_IFCHR: "character device",
}


class FilesSource:
    """Files and directories of this machine.

    problems: those that are not there, of several; they make the backup incomplete. warnings: those
    that are links, pipes or devices, of which a backup holds only the name.
    """

    def __init__(self, request: SourceRequest) -> None:
        """Raises UsageError where nothing is named, SourceError where nothing named is there."""
        if not request.arguments:
            raise UsageError("name at least one file or directory to back up")
        found = set()
        failures: list[SourceError] = []
        problems = []
        real: dict[bytes, bytes] = {}
        for path in request.arguments:
            try:
                found.add(settled_path(path, real))
            except SourceError as error:
                failures.append(error)
                problems.append(missing_path(_absolute(path), error, typed=path))
        if not found:
            more = f", nor {len(failures) - 1:,} others that were named" if failures[1:] else ""
            raise SourceError(f"{failures[0]}{more}")
        self._found = found
        self.problems = tuple(problems)
        self._named = [path for path in request.arguments if path not in request.listed]

    def warnings(self) -> tuple[Problem, ...]:
        """What is wrong with paths that a person typed, not with those that a program listed."""
        held = self.paths()
        found = []
        for path in self._named:
            try:
                settled = settled_path(path)
                text = _doubt(path, settled, held)
            except (OSError, SourceError):
                continue  # it is reported elsewhere
            if text:
                found.append(Problem(settled, 0, text))
        return tuple(dict.fromkeys(found))

    def paths(self) -> tuple[bytes, ...]:
        """The arguments that are there, made absolute; see `settled_path`."""
        settled = sorted(self._found, key=lambda path: path.replace(b"/", b"\0"))
        outermost: list[bytes] = []
        for path in settled:
            above = outermost[-1] if outermost else None
            if above is None or not (above == b"" or path.startswith(above + b"/")):
                outermost.append(path)
        return tuple(outermost)

    def streams(self) -> Iterator[Stream]:
        """Files are scanned, none is a stream."""
        return iter(())


def _doubt(typed: bytes, settled: bytes, held: tuple[bytes, ...]) -> str:
    """Why a backup of a path hardly holds what was meant; "" if it does. Raises OSError."""
    place, shown = b"/" + settled, printable(typed)
    mode = os.lstat(place).st_mode
    kind = f"it is a {_KINDS.get(stat.S_IFMT(mode), 'special file')}"
    if stat.S_ISLNK(mode):
        leads_to = os.path.realpath(place).strip(b"/")
        if lies_below(leads_to, held):
            return ""
        kind = f"it is a link to {printable(os.readlink(place))}, and only the link is backed up"
        try:
            mode = os.stat(place).st_mode
        except OSError:
            return f"{kind}; what it leads to is not there"
        if stat.S_ISDIR(mode):
            return f"{kind}: name {shown}/ for what it leads to"
        if stat.S_ISREG(mode):
            return f"{kind}: name /{printable(leads_to)} for what it leads to"
    if stat.S_ISREG(mode):
        with open(place, "rb") as file:
            is_false = not os.fstat(file.fileno()).st_size and bool(file.read(1))
        kind = "its size is 0, but it has content"
        if not is_false or file_system_type(settled).startswith(b"fuse"):
            return ""
    elif stat.S_ISDIR(mode):
        return ""
    if stat.S_ISSOCK(mode):
        return f"{kind}, which cannot be backed up"
    return (
        f"{kind}, whose content is not read: strongroom backup --stdin --stdin-name NAME "
        f"< {shown}, or --source command -- COMMAND for what a command writes"
    )


def missing_path(
    path: bytes, error: Exception, named: str = "named", typed: bytes = b""
) -> Problem:
    """The problem of a path that a person named, and what says that nothing is there."""
    text = str(error).rpartition(": ")[2]
    reason = (error.strerror or text) if isinstance(error, OSError) else text
    if (hint := _hint_of_quotes(typed)) not in reason:
        reason += hint
    return Problem(path, 0, f"{named}, but nothing of it is backed up: {reason}")


def _hint_of_quotes(typed: bytes) -> str:
    """What to do where a path does not exist because of the quotes around it; or ""."""
    is_quoted = typed[:1] in (b"'", b'"') and typed[:1] == typed[-1:]
    if not is_quoted and not has_typographic_quotes(typed):
        return ""
    return "; write the path without quotes"


def settled_path(path: bytes, known: dict[bytes, bytes] | None = None) -> bytes:
    """`path` relative to "/", with links on the way resolved; a link at its end stays one.

    known: folders of other paths, resolved, for a list with many in each.

    A slash, "." or ".." at the end means the directory behind a link. Raises SourceError when
    there is nothing at the path.
    """
    above, name = os.path.split(path)
    try:
        if name in (b"", b".", b".."):
            settled = os.path.realpath(path or b".", strict=True)
        else:
            folder = None if known is None else known.get(above)
            if folder is None:
                folder = os.path.realpath(above or b".", strict=True)
                if known is not None:
                    known[above] = folder
            settled = os.path.join(folder, name)
            os.lstat(settled)
    except (OSError, ValueError) as error:
        shown = printable(path)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        hint = _hint_of_quotes(path)
        raise SourceError(f"cannot back up {shown}: {reason}{hint}") from error
    return settled.strip(b"/")


def _absolute(path: bytes) -> bytes:
    """For display; relative to "/"."""
    try:
        return os.path.abspath(path).strip(b"/")
    except OSError:  # the working directory is gone
        return path.strip(b"/")


# What a backup reports of the paths that were named: which are empty, and what is mounted there.
#
# A mount point without its disk is an empty directory, and a backup of it is a good one of nothing.
# Anyone who knows the last backup can tell (the director does, `snapshots.shortfalls`).

# A list of a FileSet may name any number of paths.
MOST_LOOKED_AT: Final = 1000
MOST_REPORTED: Final = 50


class NamedPaths(NamedTuple):
    """Relative to "/". mounts: path and mount point of the file system that holds it."""

    empty: frozenset[bytes] = frozenset()
    mounts: tuple[tuple[bytes, bytes], ...] = ()

    def and_later(self, later: NamedPaths) -> NamedPaths:
        """What holds of a backup: found empty at either end of it, mounted at both."""
        mounts = tuple(one for one in self.mounts if one in later.mounts)
        return NamedPaths(self.empty | later.empty, mounts)

    def summary(self) -> dict[str, Any]:
        """The fields of the JSON report."""
        mounts = sorted(self.mounts)[:MOST_REPORTED]
        return {
            "empty_paths": [_shown(path) for path in sorted(self.empty)[:MOST_REPORTED]],
            "mounts": {_shown(path): _shown(place) for path, place in mounts},
        }


def look_at(paths: Iterable[bytes]) -> NamedPaths:
    """How the paths are now; what cannot be checked is left out."""
    chosen = sorted(set(paths))[:MOST_LOOKED_AT]
    mounts = tuple(zip(chosen, mount_points_of(chosen), strict=True))
    return NamedPaths(frozenset(filter(_is_empty, chosen)), mounts)


def _is_empty(path: bytes) -> bool:
    try:
        with os.scandir(b"/" + path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _shown(path: bytes) -> str:
    return f"/{printable(path)}"
