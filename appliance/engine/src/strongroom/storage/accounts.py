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
        """`bytes_per_second`: the daemon's limit; 0: no limit."""
        self._rate = bytes_per_second
        self._stopped = stopped
        self._lock = threading.Lock()
        self._free_at = clock.elapsed_seconds()
        self.users = 0
        # When the job last sent a request, on any connection.
        self.used_at = self._free_at

    def take(self, size_bytes: int) -> None:
        """Return when `size_bytes` may have passed, or when the daemon stops."""
        if not self._rate:
            return
        with self._lock:
            now = clock.elapsed_seconds()
            earliest = now - _BURST_SECONDS
            self._free_at = max(self._free_at, earliest) + size_bytes / self._rate
            wait_seconds = self._free_at - now
        # Outside the lock: each connection of the job waits for its own turn.
        if wait_seconds > 0:
            self._stopped.wait(wait_seconds)


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
