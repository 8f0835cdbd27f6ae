"""Settings of a storage daemon: addresses, repositories, and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strongroom.storage.admission import Admission


@dataclass(frozen=True, slots=True)
class StorageLimits:
    """Limits for clients. 0 is no limit where not stated otherwise.

    connections, connections_each: at once, of all peers and of one name. handshakes,
    handshakes_of_an_address: connections that are not authenticated yet.
    requests_per_second: of one connection. uploads: open at once on one connection; uploads_each,
    uploads_of_all: of one client and of all.
    object_bytes: of one object, which readers load whole: no more than LARGEST_ANSWER_BYTES of
    net.storage_client. small_object_bytes: of a lease or a tombstone.
    leases_each: of one agent at once.
    greeting_seconds: from connecting to the first request. idle_seconds: without a request of a
    client's job.
    slowest_bytes_per_second: a slower transfer of a frame ends the connection, after
    stall_seconds. bytes_per_second: of all connections of a job together.
    quota_bytes: of one agent; quotas: of agents by name, instead.
    minimum_retention_seconds: younger snapshots cannot be deleted.
    """

    connections: int = 2048
    connections_each: int = 64
    handshakes: int = 512
    handshakes_of_an_address: int = 128
    requests_per_second: float = 0.0
    uploads: int = 64
    uploads_each: int = 256
    uploads_of_all: int = 4096
    object_bytes: int = 1 << 30
    small_object_bytes: int = 1 << 20
    leases_each: int = 256
    greeting_seconds: float = 30.0
    idle_seconds: float = 600.0
    stall_seconds: float = 60.0
    slowest_bytes_per_second: int = 4096
    bytes_per_second: int = 0
    quota_bytes: int = 0
    quotas: Mapping[str, int] = field(default_factory=dict)
    minimum_retention_seconds: int = 0

    def quota_of(self, owner: str) -> int:
        """How many bytes an agent may have stored; 0 for any number."""
        return self.quotas.get(owner, self.quota_bytes)


@dataclass(frozen=True, slots=True)
class StorageDaemonSettings:
    """A storage daemon. addresses: host and port; repositories: name and folder, in order.

    buckets: by folder, where the objects of a repository are if not there; then the folder has the
    daemon's state for it.

    maintenance_users: uids that may use the local socket besides root and the daemon's own user.
    admission: who may connect over the network.
    """

    name: str
    repositories: tuple[tuple[str, bytes], ...]
    buckets: Mapping[bytes, str] = field(default_factory=dict)
    addresses: tuple[tuple[str, int], ...] = ()
    socket_path: bytes = b""
    maintenance_users: tuple[int, ...] = ()
    identity_folder: bytes = b""
    limits: StorageLimits = field(default_factory=StorageLimits)
    admission: Admission = field(default_factory=Admission)
