"""The newest snapshot of each client that this machine knows of, to notice a store that shows less.

A store can be set back to the state of an earlier day, by mistake or by anyone who controls it, and
every object of that state is authentic. So anyone who lists snapshots remembers, outside the store,
the newest one of each client. The store shows less when that is gone and none newer is there: a
newest snapshot is removed by no rule of retention. Anyone who removes it on purpose says so here.

    newest/REPOSITORY    in the cache folder: msgpack of client id -> (snapshot, time, name)

It is not a secret, and it is only as good as the folder: without the file nothing is noticed. Times
are those at which the store got the snapshot, as its writer says, but none in the future counts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from strongroom.base import clock
from strongroom.base.clock import utc_text
from strongroom.base.decoding import decodable
from strongroom.base.printable import printable
from strongroom.engine.repository.snapshots import Snapshot

_Entries = dict[bytes, tuple[str, int, str]]


class Behind(NamedTuple):
    """A client of which the store shows less than is known: its newest snapshot is gone."""

    owner: bytes
    host: str
    snapshot_id: str
    time_ns: int

    def text(self) -> str:
        """For a warning, or an error."""
        return (
            f"the store does not show snapshot {self.snapshot_id[:8]} of {printable(self.host)} "
            f"({utc_text(self.time_ns)}), the newest known here, nor a newer one: it was "
            "deleted, or the storage was set back to an earlier state"
        )


class NewestKnown:
    """What is remembered of one repository in a folder; for one thread at a time."""

    def __init__(self, folder: bytes, repository_id: str) -> None:
        """Reads the file; one that is missing or damaged holds nothing. Raises OSError."""
        self.path = folder + b"/newest/" + repository_id.encode("ascii")
        self._entries: _Entries = {}
        unusable = (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError)
        with contextlib.suppress(*unusable), open(self.path, "rb") as file:
            self._entries = msgspec.msgpack.decode(file.read(), type=decodable(_Entries))

    def known(self, owner: bytes) -> str:
        """The id of the newest snapshot known of a client, "" where none is."""
        return self._entries.get(owner, ("", 0, ""))[0]

    def behind(self, snapshots: Iterable[Snapshot]) -> list[Behind]:
        """The clients of which a listing shows less; `snapshots`: all that the store shows."""
        newest = _newest(snapshots)
        return [
            Behind(owner, host, snapshot_id, time_ns)
            for owner, (snapshot_id, time_ns, host) in self._entries.items()
            if newest.get(owner, -1) < time_ns
        ]

    def note(self, snapshots: Iterable[Snapshot]) -> None:
        """Remember the newest of each client, unless one known is newer. Raises OSError."""
        entries = dict(self._entries)
        for one in snapshots:
            known = entries.get(one.owner)
            time_ns = _time_of(one)
            if known is None or time_ns >= known[1]:
                entries[one.owner] = (one.id, time_ns, one.host)
        self._replace(entries)

    def forget(self, removed: Iterable[str], left: Iterable[Snapshot]) -> None:
        """Snapshots were removed on purpose, others are left. Raises OSError."""
        gone = set(removed)
        entries = {owner: entry for owner, entry in self._entries.items() if entry[0] not in gone}
        dropped = self._entries.keys() - entries.keys()
        self._replace(entries)
        self.note(one for one in left if one.owner in dropped and one.id not in gone)

    def _replace(self, entries: _Entries) -> None:
        if entries == self._entries:
            return
        os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
        temporary = self.path + b"." + clock.random_bytes(8).hex().encode()
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                file.write(msgspec.msgpack.encode(entries))
            os.replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self._entries = entries


def _newest(snapshots: Iterable[Snapshot]) -> dict[bytes, int]:
    newest: dict[bytes, int] = {}
    for one in snapshots:
        newest[one.owner] = max(newest.get(one.owner, -1), _time_of(one))
    return newest


def _time_of(snapshot: Snapshot) -> int:
    """When it was stored; the future would be the newest forever."""
    return min(snapshot.server_ns or snapshot.end_ns, clock.now_ns())
