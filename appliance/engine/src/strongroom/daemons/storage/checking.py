"""Whether the storage daemon could start; see preflight."""

from __future__ import annotations

import os
import sqlite3
from typing import TYPE_CHECKING

from strongroom.daemons.preflight import Preflight, sqlite_value
from strongroom.daemons.storage.configuration import StorageConfiguration
from strongroom.daemons.storage.provenance import SCHEMA_VERSION, book_path
from strongroom.errors import PeerRefusedError, StoreError
from strongroom.stores.local_place import require_own_folder

if TYPE_CHECKING:
    from strongroom.daemons.storage.settings import StorageDaemonSettings


def check_storage(path: str) -> tuple[StorageDaemonSettings, Preflight]:
    """The settings at `path`, and the faults of what they name.

    Raises ConfigurationError and UsageError when the configuration itself is invalid.
    """
    configuration = StorageConfiguration(path)
    settings = configuration.settings
    look = Preflight()
    if os.path.exists(os.path.join(settings.identity_folder, b"certificate.pem")):
        from strongroom.net.channels.tls_contexts import server_context
        from strongroom.net.identities.identity import Identity
        from strongroom.net.renewal.certificates import require_living

        with look.part("Identity Directory"):
            identity = Identity.load(settings.identity_folder)
            require_living(identity)
            trust = identity.trust.revocations
            if trust is not None and trust.fault:
                raise PeerRefusedError(trust.fault)
            with look.part("TLS Cipher Suites"):
                server_context(identity, configuration.cipher_suites)
    else:
        folder_text = os.fsdecode(settings.identity_folder)
        look.warnings.append(f"{folder_text} holds no certificate: only the local socket works")
    if not settings.admission.clients:
        look.warnings.append('Clients names nobody: no agent may connect; "*all*" names them all')
    for name, folder in settings.repositories:
        look.writable(f"Archive Device of Device {name}", folder)
        look.changeable(f"Archive Device of Device {name}", book_path(folder))
        with look.part(f"Archive Device of Device {name}"):
            _look_at_book(book_path(folder))
            require_own_folder(folder)
    if settings.socket_path:
        look.writable("Maintenance Socket", os.path.dirname(settings.socket_path))
    look.addresses("Address, Port and Addresses of the Storage", settings.addresses)
    return settings, look


def _look_at_book(path: bytes) -> None:
    try:
        version = sqlite_value(path, "pragma user_version")
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{os.fsdecode(path)} is not a provenance database: {error}") from error
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise StoreError(f"{os.fsdecode(path)} was written by a newer version; update strongroom")
