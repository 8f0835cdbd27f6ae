"""Per-client accounting: bytes of each client, and bandwidth of each job.

Each class has one lock, held for moments.
"""

from __future__ import annotations

import threading

from strongroom.base import clock
from strongroom.base.errors import QuotaError
from strongroom.storage.settings import StorageLimits

# A job may be this far ahead of its bandwidth: makes up for short pauses.
_BURST_SECONDS = 0.25
# The lowest limit a client may set: a lower one would block the connection's thread for days.
_LEAST_BYTES_PER_SECOND = 4096
# How soon waiting threads notice a changed limit.
_LOOK_SECONDS = 0.5
# File systems are made with one inode for this many bytes, so a quota of bytes is one of objects
# too; however small it is, some objects may be there.
_OBJECT_BYTES = 16 << 10
_LEAST_OBJECTS = 1024


class Quotas:
    """Bytes of each client: stored by its agent or for it, under way, and its charge.

    Objects too: any number of small ones would take the disk's inodes from all.
    """

    def __init__(
        self,
        limits: StorageLimits,
        used: dict[bytes, int],
        objects: dict[bytes, int] | None = None,
    ) -> None:
        """`used`, `objects`: bytes and objects by the client's id."""
        self.limits = limits
        self._used = dict(used)
        self._objects = dict(objects or {})
        self._lock = threading.Lock()

    def reserve(self, client: bytes, name: str, size_bytes: int) -> None:
        """Count bytes that an agent sends. QuotaError when they exceed its quota.

        `name`: of the agent, "" for the appliance, which no quota stops.
        """
        with self._lock:
            used = self._used.get(client, 0) + size_bytes
            quota = self.limits.quota_of(name) if name else 0
            if quota and used > quota:
                raise QuotaError(
                    f"{name} may store {quota} bytes and has {used - size_bytes}: remove "
                    "snapshots and prune, or raise the quota"
                )
            self._used[client] = used

    def count(self, client: bytes, size_bytes: int) -> None:
        """Count bytes whose client was not known when they came, or another charge."""
        with self._lock:
            self._used[client] = max(0, self._used.get(client, 0) + size_bytes)

    def require_place(self, client: bytes, name: str) -> None:
        """QuotaError when an agent has as many objects as its quota of bytes permits."""
        quota = self.limits.quota_of(name)
        with self._lock:
            count = self._objects.get(client, 0)
        if quota and count >= max(_LEAST_OBJECTS, quota // _OBJECT_BYTES):
            raise QuotaError(
                f"{name} may store {quota} bytes, which is room for no more than the {count} "
                "objects that it has: remove snapshots and prune, or raise the quota"
            )

    def objects(self, client: bytes) -> int:
        """How many objects a client has."""
        with self._lock:
            return self._objects.get(client, 0)

    def count_objects(self, client: bytes, more: int) -> None:
        """Count objects that were entered, or with a negative number removed."""
        with self._lock:
            self._objects[client] = max(0, self._objects.get(client, 0) + more)

    def release(self, client: bytes, size_bytes: int) -> None:
        """Subtract bytes: deleted, aborted, or stored before."""
        self.count(client, -size_bytes)

    def used(self) -> dict[bytes, int]:
        """Bytes by client."""
        with self._lock:
            return dict(self._used)


class JobBandwidth:
    """A token bucket, shared by the connections of one job."""

    def __init__(self, bytes_per_second: int, stopped: threading.Event) -> None:
        """`bytes_per_second`: the daemon's limit, which clients cannot exceed; 0: no limit."""
        self._greatest = bytes_per_second
        self._rate = bytes_per_second
        self._stopped = stopped
        self._lock = threading.Lock()
        self._free_at = clock.elapsed_seconds()
        self.users = 0
        # When the job last sent a request, on any connection.
        self.used_at = self._free_at

    def limit(self, bytes_per_second: int) -> None:
        """Change the limit, up to the daemon's; 0: to the daemon's."""
        with self._lock:
            wanted = bytes_per_second
            wanted = max(wanted, _LEAST_BYTES_PER_SECOND) if wanted > 0 else 0
            if wanted and self._greatest:
                wanted = min(wanted, self._greatest)
            now = clock.elapsed_seconds()
            # The debt stays: otherwise a client could evade the daemon's limit by changing its own.
            owed_bytes = max(0.0, self._free_at - now) * self._rate
            self._rate = wanted or self._greatest
            self._free_at = now + (owed_bytes / self._rate if self._rate else 0.0)

    def take(self, size_bytes: int) -> None:
        """Return when `size_bytes` may have passed under the current limit, or at the end."""
        with self._lock:
            if not self._rate:
                return
            now = clock.elapsed_seconds()
            rate = self._rate
            self._free_at = max(self._free_at, now - _BURST_SECONDS) + size_bytes / rate
            until = self._free_at
        while (wait_seconds := until - clock.elapsed_seconds()) > 0:
            if self._stopped.wait(min(wait_seconds, _LOOK_SECONDS)):
                return
            with self._lock:
                if not self._rate:
                    return
                if self._rate != rate:
                    now = clock.elapsed_seconds()
                    until = now + (until - now) * rate / self._rate
                    rate = self._rate


class Bandwidths:
    """The buckets of the jobs that have connections."""

    def __init__(self, bytes_per_second: int, stopped: threading.Event) -> None:
        self.bytes_per_second = bytes_per_second
        self._stopped = stopped
        self._lock = threading.Lock()
        self._of_jobs: dict[tuple[str, str], JobBandwidth] = {}

    def enter(self, peer_name: str, job: str) -> JobBandwidth:
        """The bucket of a job; give it back with `leave`."""
        with self._lock:
            bucket = self._of_jobs.get((peer_name, job))
            if bucket is None:
                bucket = JobBandwidth(self.bytes_per_second, self._stopped)
                self._of_jobs[peer_name, job] = bucket
            bucket.users += 1
            return bucket

    def leave(self, peer_name: str, job: str) -> None:
        """Count one connection of the job less."""
        with self._lock:
            bucket = self._of_jobs[peer_name, job]
            bucket.users -= 1
            if not bucket.users:
                del self._of_jobs[peer_name, job]
