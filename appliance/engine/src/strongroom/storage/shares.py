"""What each client holds of the daemon: connections, uploads, bytes, and its turns.

A client is a role and a name, whatever certificate it shows. Its connections and uploads have a
limit, and those of all together another, which the limit on open files decides (see `descriptors`).
Requests that take memory wait until the client holds less; while others want something too, so do
requests of a client that uses more than its part of the interpreter.

Local peers have no limits. One lock, held for moments; waiting is done without it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from strongroom.base import clock
from strongroom.base.errors import QuotaError
from strongroom.net.identities.peer import LOCAL_ROLE, Peer
from strongroom.storage.settings import StorageLimits

# An upload has two buffers of this size, or of the small one where its client has many uploads, or
# all clients together have.
LARGE_BUFFER_BYTES: Final = 512 << 10
SMALL_BUFFER_BYTES: Final = 64 << 10
# What the large buffers of one client, and those of all, may take.
_LARGE_OF_A_CLIENT_BYTES: Final = 64 << 20
_LARGE_OF_ALL_BYTES: Final = 512 << 20
# What requests under way of one client may take.
_HELD_BYTES: Final = 64 << 20
# How much of one processor's time the short requests of a client may take while others work.
_PART_OF_TIME: Final = 0.3
_AHEAD_SECONDS: Final = 0.5
# Others work when they have done so within this time.
_RECENTLY_SECONDS: Final = 1.0


@dataclass(eq=False, slots=True)
class ClientShare:
    """What one client holds."""

    peer: Peer
    connections: int = 0
    uploads: int = 0
    large_bytes: int = 0
    held_bytes: int = 0
    free_at: float = 0.0
    active_at: float = field(default=float("-inf"))

    @property
    def is_limited(self) -> bool:
        """Whether it is a client over the network."""
        return self.peer.role != LOCAL_ROLE

    @property
    def shown(self) -> str:
        """The client, for messages."""
        return f"{self.peer.role} {self.peer.name}"


class Shares:
    """Divides places among clients, so that one that asks for many leaves some to others."""

    def __init__(self, limits: StorageLimits, stopped: threading.Event) -> None:
        self.limits = limits
        self._stopped = stopped
        self._condition = threading.Condition()
        self._of_clients: dict[tuple[str, str], ClientShare] = {}
        self._connections = 0
        self._uploads = 0
        self._large_bytes = 0

    @property
    def uploads(self) -> int:
        """How many uploads are under way."""
        return self._uploads

    def enter(self, peer: Peer) -> ClientShare | str:
        """One more connection of a peer, to be given back by `leave`; or why there is no place."""
        limits = self.limits
        with self._condition:
            if self._connections >= limits.connections:
                return f"there are {self._connections} connections already"
            key = (peer.role, peer.name)
            share = self._of_clients.get(key) or ClientShare(peer)
            if share.is_limited and share.connections >= limits.connections_each:
                return f"{peer} has {share.connections} connections already"
            self._of_clients[key] = share
            share.connections += 1
            self._connections += 1
            return share

    def leave(self, share: ClientShare) -> None:
        """A connection has ended."""
        with self._condition:
            self._connections -= 1
            share.connections -= 1
            if not share.connections:
                del self._of_clients[share.peer.role, share.peer.name]

    def begin_upload(self, share: ClientShare) -> int:
        """One more upload, to be given back by `end_upload`; returns the size of its buffers.

        Raises QuotaError.
        """
        limits = self.limits
        with self._condition:
            if share.is_limited and share.uploads >= limits.uploads_each:
                raise QuotaError(
                    f"{share.shown} has {share.uploads} uploads under way already (Maximum Uploads "
                    "Per Client)"
                )
            if share.is_limited and self._uploads >= limits.uploads_of_all:
                raise QuotaError(f"there are {self._uploads} uploads under way already")
            share.uploads += 1
            self._uploads += 1
            wanted = 2 * LARGE_BUFFER_BYTES
            if (
                share.large_bytes + wanted > _LARGE_OF_A_CLIENT_BYTES
                or self._large_bytes + wanted > _LARGE_OF_ALL_BYTES
            ):
                return SMALL_BUFFER_BYTES
            share.large_bytes += wanted
            self._large_bytes += wanted
            return LARGE_BUFFER_BYTES

    def end_upload(self, share: ClientShare, buffer_bytes: int) -> None:
        """An upload has ended, whose buffers had this size."""
        with self._condition:
            share.uploads -= 1
            self._uploads -= 1
            if buffer_bytes == LARGE_BUFFER_BYTES:
                share.large_bytes -= 2 * buffer_bytes
                self._large_bytes -= 2 * buffer_bytes

    @contextmanager
    def holding(self, share: ClientShare, size_bytes: int) -> Iterator[None]:
        """Wait until a client may hold so much more, and count it inside the block."""
        if not share.is_limited or not size_bytes:
            yield
            return
        with self._condition:
            while (
                share.held_bytes
                and share.held_bytes + size_bytes > _HELD_BYTES
                and not self._stopped.is_set()
            ):
                self._condition.wait(1.0)
            share.held_bytes += size_bytes
        try:
            yield
        finally:
            with self._condition:
                share.held_bytes -= size_bytes
                self._condition.notify_all()

    def charge(self, share: ClientShare, seconds: float) -> None:
        """Count processor time of a client; waits where it is too much and others work."""
        now = clock.elapsed_seconds()
        with self._condition:
            share.active_at = now
            share.free_at = max(share.free_at, now - _AHEAD_SECONDS) + seconds / _PART_OF_TIME
        while share.is_limited and (wait_seconds := self._wait_seconds(share)):
            if self._stopped.wait(min(wait_seconds, _RECENTLY_SECONDS)):
                return

    def _wait_seconds(self, share: ClientShare) -> float:
        """How long a client has to wait, unless others stop working."""
        now = clock.elapsed_seconds()
        with self._condition:
            wait_seconds = share.free_at - now
            if wait_seconds <= 0:
                return 0.0
            others_work = any(
                one is not share and now - one.active_at < _RECENTLY_SECONDS
                for one in self._of_clients.values()
            )
            if not others_work:
                share.free_at = now
                return 0.0
            return wait_seconds
