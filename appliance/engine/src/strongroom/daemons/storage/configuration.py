"""From the configuration of a storage daemon, in the Bareos language, to its settings.

The resource Storage says where it listens and what it puts up with; each Device is a repository,
whose Archive Device is the folder.
"""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

from strongroom.config.resolve import load
from strongroom.config.values.measures import size_bytes
from strongroom.daemons.storage.settings import Limits, StorageSettings
from strongroom.errors import ConfigurationError

if TYPE_CHECKING:
    from strongroom.config.model import Resource
    from strongroom.net.identities.peer import Peer

_EVERYWHERE = "0.0.0.0"  # noqa: S104 - what Bareos listens on where nothing is said


class StorageConfiguration:
    """What the files at `path` say. Raises ConfigurationError, UsageError."""

    def __init__(self, path: str) -> None:
        configuration = load(path, component="storage").storage
        daemon = None if configuration is None else configuration.daemon
        if configuration is None or daemon is None:
            raise ConfigurationError(f"{path} has no resource Storage; see strongroom config check")
        devices = tuple(
            (device.name, os.fsencode(device.archive_device))
            for device in configuration.devices.values()
        )
        if not devices:
            raise ConfigurationError(f"{path} has no resource Device, so there is nothing to serve")
        for name, folder in devices:
            if not folder.startswith(b"/"):
                raise ConfigurationError(f"Archive Device of {name} is no absolute path")
        self.settings = StorageSettings(
            name=daemon.name,
            repositories=devices,
            addresses=_addresses(daemon),
            socket_path=os.fsencode(daemon.maintenance_socket),
            maintenance_users=tuple(map(_user_id, daemon.maintenance_users)),
            identity_folder=os.fsencode(daemon.identity_directory),
            limits=_limits(daemon),
        )
        self.cipher_suites: str = daemon.tls_cipher_suites or ""
        self._plain_allowed = not daemon.tls_enable or not daemon.tls_require
        self._plain_clients = frozenset(daemon.plain_clients)
        self._directors = frozenset(configuration.directors)
        self._ktls_required = daemon.enable_ktls == "require"

    def differences(self, started: StorageConfiguration) -> tuple[str, ...]:
        """Directives that say other than when the daemon started, and are not followed until then.

        All others, the certificate and the limits among them, are.
        """
        now, then = self.settings, started.settings
        pairs = {
            "Name": (now.name, then.name),
            "Device": (now.repositories, then.repositories),
            "Address, Addresses or Port": (now.addresses, then.addresses),
            "Maintenance Socket": (now.socket_path, then.socket_path),
            "Maintenance Users": (now.maintenance_users, then.maintenance_users),
            "TLS Cipher Suites": (self.cipher_suites, started.cipher_suites),
        }
        return tuple(name for name, (one, other) in pairs.items() if one != other)

    def allows(self, peer: Peer, mode: str) -> bool:
        """Whether a peer may connect in a TLS mode; directors only if a Director names them."""
        if peer.role == "director" and peer.name not in self._directors:
            return False
        if mode == "off":
            return self._plain_allowed or peer.name in self._plain_clients
        return mode == "ktls" or not self._ktls_required


def _addresses(daemon: Resource) -> tuple[tuple[str, int], ...]:
    port = int(daemon.port)
    if daemon.addresses:
        return tuple((one.host or _EVERYWHERE, int(one.port or port)) for one in daemon.addresses)
    return ((daemon.address or _EVERYWHERE, port),)


def _user_id(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError as error:
        raise ConfigurationError(
            f"Maintenance Users: there is no user {name!r} on this machine"
        ) from error


def _limits(daemon: Resource) -> Limits:
    quotas = {}
    for text in daemon.quota_of:
        name, _, size = text.partition(" ")
        quota = size_bytes(size.strip())
        if quota is None:
            raise ConfigurationError(f'Quota Of = "{text}" has no size such as 500 GB')
        quotas[name] = quota
    return Limits(
        connections=daemon.maximum_connections,
        connections_each=daemon.maximum_connections_per_client,
        handshakes=daemon.maximum_handshakes,
        handshakes_of_an_address=daemon.maximum_handshakes_per_address,
        requests_per_second=float(daemon.maximum_requests_per_second),
        idle_seconds=float(daemon.idle_timeout_seconds),
        bytes_per_second=daemon.maximum_bandwidth_per_job_bytes_per_second or 0,
        quota_bytes=daemon.client_quota_bytes or 0,
        quotas=quotas,
        minimum_retention_seconds=daemon.minimum_retention_seconds or 0,
    )
