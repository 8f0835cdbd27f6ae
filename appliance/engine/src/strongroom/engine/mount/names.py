"""The names above the snapshots of a mounted repository.

    latest                 a link to the newest snapshot, where all are of one client
    ids/ID                 every snapshot by the first 8 digits of its id
    hosts/HOST/TIME        every snapshot by its host and the time it began (local time)
    hosts/HOST/latest      a link to the newest of them
    tags/TAG/TIME, tags/TAG/latest (the link as above)

A slash in a host's or tag's name becomes `%2F` (and `%` becomes `%25`). If snapshots began in the
same second, all but the first have their id appended to the time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from strongroom.base.clock import SECOND_NS
from strongroom.engine.repository.snapshots import Snapshot

LATEST: Final = b"latest"
_SHORT_ID_DIGITS: Final = 8
_LATEST_SECOND: Final = 253_402_214_400


class Folder(NamedTuple):
    """A directory above the snapshots."""

    time_ns: int
    names: dict[bytes, Folder | Link | Inside]


class Link(NamedTuple):
    """A symbolic link to a snapshot."""

    target: bytes
    time_ns: int


class Inside(NamedTuple):
    """A path inside a snapshot, b"" for its root."""

    snapshot: Snapshot
    path: bytes


Place = Folder | Link | Inside


class NameTree:
    """Resolves paths of the mounted file system."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        """`snapshots`: the oldest first."""
        by_host: dict[bytes, list[Snapshot]] = {}
        by_tag: dict[bytes, list[Snapshot]] = {}
        for snapshot in snapshots:
            by_host.setdefault(_as_name(snapshot.host), []).append(snapshot)
            for tag in snapshot.tags:
                by_tag.setdefault(_as_name(tag), []).append(snapshot)
        by_id = _unique((snapshot.id.encode(), snapshot) for snapshot in snapshots)
        newest_ns = snapshots[-1].start_ns if snapshots else 0
        self.root = Folder(
            newest_ns,
            {
                b"hosts": _shelves(by_host, newest_ns),
                b"ids": Folder(
                    newest_ns, {name: Inside(snapshot, b"") for name, snapshot in by_id.items()}
                ),
                b"tags": _shelves(by_tag, newest_ns),
            },
        )
        for name, snapshot in by_id.items():
            # Of several clients it would be whose clock is ahead.
            if snapshot is snapshots[-1] and len(by_host) == 1:
                self.root.names[LATEST] = Link(b"ids/" + name, newest_ns)

    def place(self, path: bytes) -> Place | None:
        """Resolve `path` (no slashes around it); whether the snapshot has it is not checked."""
        found: Place = self.root
        rest = path
        while rest:
            if isinstance(found, Inside):
                return Inside(found.snapshot, rest)
            if isinstance(found, Link):
                return None
            name, _, rest = rest.partition(b"/")
            following = found.names.get(name)
            if following is None:
                return None
            found = following
        return found


def _shelves(by_name: dict[bytes, list[Snapshot]], newest_ns: int) -> Folder:
    """A folder of folders that hold snapshots by time."""
    shelves: dict[bytes, Place] = {}
    for name, snapshots in by_name.items():
        by_time: dict[bytes, Place] = {}
        last_name = b""
        for snapshot in snapshots:
            last_name = _time_name(snapshot.start_ns)
            if last_name in by_time:
                last_name += b"_" + snapshot.id[:_SHORT_ID_DIGITS].encode()
            by_time[last_name] = Inside(snapshot, b"")
        if len({snapshot.host for snapshot in snapshots}) == 1:
            by_time[LATEST] = Link(last_name, snapshots[-1].start_ns)
        shelves[name] = Folder(snapshots[-1].start_ns, by_time)
    return Folder(newest_ns, shelves)


def _unique(ids: Iterable[tuple[bytes, Snapshot]]) -> dict[bytes, Snapshot]:
    """Snapshots by their short id, or by the whole id where the short one is taken."""
    named: dict[bytes, Snapshot] = {}
    for an_id, snapshot in ids:
        short = an_id[:_SHORT_ID_DIGITS]
        named[an_id if short in named else short] = snapshot
    return named


def _as_name(text: str) -> bytes:
    """Any text as a file name."""
    name = text.encode("utf-8", "surrogateescape").replace(b"%", b"%25").replace(b"/", b"%2F")
    name = name.replace(b"\0", b"%00")
    if name in (b"", b".", b".."):
        return b"%" + name
    return name[:255]


def _time_name(time_ns: int) -> bytes:
    seconds = min(max(time_ns // SECOND_NS, -_LATEST_SECOND // 10), _LATEST_SECOND)
    return time.strftime("%Y-%m-%d_%H.%M.%S", time.localtime(seconds)).encode()
