"""From the configuration of a storage daemon, in the Bareos language, to its settings.

The Storage resource sets addresses and limits; each Device is a repository, whose Archive Device
is the folder, or a place in an object store.
"""

from __future__ import annotations

import os
import pwd

from strongroom.base.errors import ConfigurationError
from strongroom.config.model import Resource
from strongroom.config.resolve import load
from strongroom.config.settings.daemons import (
    is_in_bucket,
    listening_addresses,
    parse_operator,
    parse_quota,
)
from strongroom.net.identities.peer import Peer
from strongroom.net.renewal import DirectorAddress
from strongroom.storage.admission import Admission
from strongroom.storage.settings import StorageDaemonSettings, StorageLimits


class StorageConfiguration:
    """What the files at `path` say. Raises ConfigurationError, UsageError."""

    def __init__(self, path: str) -> None:
        configuration = load(path, component="storage").storage
        daemon = None if configuration is None else configuration.daemon
        if configuration is None or daemon is None:
            raise ConfigurationError(f"{path} has no resource Storage; see strongroom config check")
        state_folder = daemon.text("working_directory")
        devices: list[tuple[str, bytes]] = []
        buckets: dict[bytes, str] = {}
        for name, device in configuration.of_type("Device").items():
            place = device.text("archive_device")
            folder = os.fsencode(place)
            if is_in_bucket(place):
                folder = os.fsencode(os.path.join(state_folder, "devices", name))
                buckets[folder] = place
            devices.append((name, folder))
        self.settings = StorageDaemonSettings(
            name=daemon.name,
            repositories=tuple(devices),
            buckets=buckets,
            addresses=tuple(listening_addresses(daemon)),
            socket_path=os.fsencode(daemon.text("maintenance_socket")),
            maintenance_users=tuple(map(_user_id, daemon.texts("maintenance_users"))),
            identity_folder=os.fsencode(daemon.text("identity_directory")),
            limits=_limits(daemon),
            admission=Admission(
                clients=frozenset(daemon.texts("clients")),
                restoring=frozenset(daemon.texts("restore_clients")),
                directors=frozenset(configuration.of_type("Director")),
                operators=dict(map(parse_operator, daemon.texts("operators"))),
            ),
        )
        # Where each may be asked for a certificate; a host of "" is this machine.
        self.directors = tuple(
            DirectorAddress(director.text("address"), director.number("port"), director.name)
            for director in configuration.of_type("Director").values()
            if not director.switch("monitor")
        )
        self.cipher_suites = daemon.text("tls_cipher_suites")
        self._plain_allowed = not daemon.switch("tls_enable") or not daemon.switch("tls_require")
        self._plain_clients = frozenset(daemon.texts("plain_clients"))
        self._ktls_required = daemon.text("enable_ktls") == "require"

    def differences(self, started: StorageConfiguration) -> tuple[str, ...]:
        """Directives that have changed since the start and take effect only after a restart.

        All others, including the certificate and the limits, take effect at a reload.
        """
        now, then = self.settings, started.settings
        pairs = {
            "Name": (now.name, then.name),
            "Device": ((now.repositories, now.buckets), (then.repositories, then.buckets)),
            "Address, Addresses or Port": (now.addresses, then.addresses),
            "Maintenance Socket": (now.socket_path, then.socket_path),
            "Maintenance Users": (now.maintenance_users, then.maintenance_users),
            "TLS Cipher Suites": (self.cipher_suites, started.cipher_suites),
        }
        return tuple(name for name, (one, other) in pairs.items() if one != other)

    def allows(self, peer: Peer, mode: str) -> bool:
        """Whether a peer may connect in a TLS mode: only if the configuration names it."""
        if not self.settings.admission.verbs(peer):
            return False
        if mode == "off":
            return self._plain_allowed or peer.name in self._plain_clients
        return mode == "ktls" or not self._ktls_required


def _user_id(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError as error:
        raise ConfigurationError(
            f"Maintenance Users: there is no user {name!r} on this machine"
        ) from error


def _limits(daemon: Resource) -> StorageLimits:
    return StorageLimits(
        connections=daemon.number("maximum_connections"),
        connections_each=daemon.number("maximum_connections_per_client"),
        uploads_each=daemon.number("maximum_uploads_per_client"),
        handshakes=daemon.number("maximum_handshakes"),
        handshakes_of_an_address=daemon.number("maximum_handshakes_per_address"),
        requests_per_second=float(daemon.number("maximum_requests_per_second")),
        idle_seconds=float(daemon.number("idle_timeout_seconds")),
        bytes_per_second=daemon.number("maximum_bandwidth_per_job_bytes_per_second"),
        quota_bytes=daemon.number("client_quota_bytes"),
        quotas=dict(map(parse_quota, daemon.texts("quota_of"))),
        minimum_retention_seconds=daemon.number("minimum_retention_seconds"),
    )
