"""Storage resources: storage daemons, and the director's own way to their repositories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.config.model import Resource


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """A storage daemon. devices: repositories there; the first is the one that is used.

    repository: how the director itself gets at the repository, a folder or the local socket of the
    daemon, "" where it has no way; passphrase_file: "" for a repository without a passphrase.
    maximum_concurrent_read_jobs: 0 for no limit of its own. share_chunks_from: how many clients
    must hold a chunk that they offer before it is shared; 0: none is. nearly_full_at, full_at: how
    many percent of the disk are used when a notice says so; 0: never.
    """

    name: str
    enabled: bool
    address: str
    port: int
    devices: tuple[str, ...]
    repository: str
    passphrase_file: str
    cipher_suites: str
    share_chunks_from: int
    maximum_concurrent_jobs: int
    maximum_concurrent_read_jobs: int
    maximum_bandwidth_per_job_bytes_per_second: int
    nearly_full_at: int
    full_at: int

    @classmethod
    def of(cls, storage: Resource) -> StorageSettings:
        """Those of a Storage resource."""
        return cls(
            name=storage.name,
            enabled=storage.switch("enabled"),
            address=storage.text("address"),
            port=storage.number("port"),
            devices=storage.texts("device"),
            repository=storage.text("repository"),
            passphrase_file=storage.text("passphrase_file"),
            cipher_suites=storage.text("tls_cipher_suites"),
            share_chunks_from=storage.number("share_chunks_from"),
            maximum_concurrent_jobs=storage.number("maximum_concurrent_jobs"),
            maximum_concurrent_read_jobs=storage.number("maximum_concurrent_read_jobs"),
            maximum_bandwidth_per_job_bytes_per_second=storage.number(
                "maximum_bandwidth_per_job_bytes_per_second"
            ),
            nearly_full_at=min(storage.number("nearly_full_at"), storage.number("full_at") or 100),
            full_at=storage.number("full_at"),
        )
