"""Storage resources: storage daemons, and the director's own way to their repositories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strongroom.base.errors import UsageError
from strongroom.config.model import ComponentConfiguration, Resource
from strongroom.config.settings.findings import Findings
from strongroom.config.settings.reading import settings_of


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """A storage daemon. devices: repositories there; the first is the one that is used.

    repository: how the director itself gets at the repository, a folder or the local socket of the
    daemon, "" where it has no way; passphrase_file: "" for a repository without a passphrase.
    maximum_concurrent_read_jobs: 0 for no limit of its own. share_chunks_from: how many clients
    must hold a chunk that they offer before it is shared; 0: none is. prune_memory_bytes: bytes for
    blocks that are counted at once. nearly_full_at, full_at: how many percent of the disk are used
    when a notice says so; 0: never.
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
    prune_memory_bytes: int
    maximum_concurrent_jobs: int
    maximum_concurrent_read_jobs: int
    maximum_bandwidth_per_job_bytes_per_second: int
    nearly_full_at: int
    full_at: int

    @classmethod
    def of(cls, storage: Resource) -> StorageSettings:
        """Those of a Storage resource."""
        return settings_of(
            cls,
            storage,
            devices=storage.texts("device"),
            cipher_suites=storage.text("tls_cipher_suites"),
            nearly_full_at=min(storage.number("nearly_full_at"), storage.number("full_at") or 100),
        )


def check_storage(findings: Findings, settings: StorageSettings, clients: int) -> None:
    """Report a repository, thresholds and sharing that cannot be; `clients`: how many there are."""
    storage = findings.resource("Storage", settings.name)
    if fault := _repository_fault(settings.repository):
        findings.error("repository", fault, storage, "repository")
    holders = settings.share_chunks_from
    if storage.is_set("share_chunks_from") and holders > clients:
        message = (
            f"Storage {storage.name} never shares a chunk: Share Chunks From is {holders}, and the "
            f"configuration has {clients} Clients"
        )
        findings.warning("limit", message, storage, "share_chunks_from")
    nearly, full = storage.number("nearly_full_at"), storage.number("full_at")
    if max(nearly, full) > 100:
        message = "Nearly Full At and Full At are percent: 100 is the most"
        findings.error("threshold", message, storage, "full_at", "nearly_full_at")
    elif full and storage.is_set("nearly_full_at") and nearly > full:
        message = f"Nearly Full At ({nearly} percent) is above Full At ({full} percent)"
        findings.error("threshold", message, storage, "nearly_full_at", "full_at")


def check_devices(
    findings: Findings, storages: Mapping[str, StorageSettings], storage: ComponentConfiguration
) -> None:
    """Warn of Devices that the storage daemon of the same tree does not serve.

    Where a Storage has the name of that daemon, others at another address are other daemons.
    """
    daemon = storage.daemon
    if daemon is None:
        return
    served = {*storage.of_type("Device"), *storage.of_type("Autochanger")}
    namesake = storages.get(daemon.name)
    for name, one in storages.items():
        if namesake is not None and (one.address, one.port) != (namesake.address, namesake.port):
            continue
        if missing := next((device for device in one.devices if device not in served), ""):
            known = ", ".join(sorted(served)) or "none"
            message = f"the storage daemon {daemon.name} serves no Device {missing}; it has {known}"
            findings.warning("device", message, findings.resource("Storage", name), "device")


def _repository_fault(place: str) -> str:
    if not place or place.startswith("/"):
        return ""
    if place.startswith("unix:"):
        from strongroom.net.storage.place import parse_place

        try:
            parse_place(place)
        except UsageError as error:
            return str(error)
        return ""
    return (
        f"{place}: a Repository is the absolute path of a folder, or unix:PATH of the storage "
        "daemon's socket"
    )
