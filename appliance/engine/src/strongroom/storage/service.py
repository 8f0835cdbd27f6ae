"""The storage daemon as a service: configuration, identity, signals.

SIGTERM and SIGINT end it. SIGHUP reloads its configuration: limits, who may connect and in which
TLS mode, certificate. Addresses and devices stay as they were at the start. The daemon renews its
certificate itself (see `certificate`); one that somebody else replaced is noticed within seconds.
"""

from __future__ import annotations

import logging
import os
import queue
import resource
import signal
import sqlite3
from contextlib import suppress
from dataclasses import replace
from types import FrameType
from typing import Final

from strongroom.base.errors import (
    ObjectMissingError,
    PeerRefusedError,
    RepositoryNotFoundError,
    StoreError,
    StrongroomError,
)
from strongroom.engine.stores.local_place import require_own_folder
from strongroom.net.channels.connecting import Acceptor
from strongroom.net.channels.tls_contexts import server_context
from strongroom.net.identities.identity import Identity
from strongroom.net.identities.peer import Peer
from strongroom.net.renewal import require_living
from strongroom.service.preflight import Preflight, sqlite_value
from strongroom.service.service_manager import notify
from strongroom.storage.bucket import Bucket
from strongroom.storage.certificate import CertificateKeeper
from strongroom.storage.configuration import StorageConfiguration
from strongroom.storage.owner_list import SCHEMA_VERSION, owner_list_path
from strongroom.storage.server import StorageServer
from strongroom.storage.settings import StorageDaemonSettings, StorageLimits


def check_storage(path: str) -> tuple[StorageDaemonSettings, Preflight]:
    """The settings at `path`, and the faults of what they name.

    Raises ConfigurationError and UsageError when the configuration itself is invalid.
    """
    configuration = StorageConfiguration(path)
    settings = configuration.settings
    look = Preflight()
    if os.path.exists(os.path.join(settings.identity_folder, b"certificate.pem")):
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
        look.warnings.append(f"{folder_text} holds no certificate: only the socket is served")
    if not (settings.admission.clients or settings.admission.restoring):
        look.warnings.append('Clients is empty: no agent may connect; "*all*" allows all')
    for name, folder in settings.repositories:
        if place := settings.buckets.get(folder):
            look.writable("Working Directory", folder)
            with look.part(f"Archive Device of Device {name}"):
                _look_at_book(owner_list_path(folder))
                # Nothing is stored for a check; the start tries what the store promises.
                with suppress(ObjectMissingError, RepositoryNotFoundError):
                    Bucket(place, folder).open().info("config", "config")
            continue
        look.writable(f"Archive Device of Device {name}", folder)
        look.changeable(f"Archive Device of Device {name}", owner_list_path(folder))
        with look.part(f"Archive Device of Device {name}"):
            _look_at_book(owner_list_path(folder))
            require_own_folder(folder)
    if settings.socket_path:
        look.writable("Maintenance Socket", os.path.dirname(settings.socket_path))
    look.addresses("Address, Port and Addresses of the Storage", settings.addresses)
    return settings, look


def _look_at_book(path: bytes) -> None:
    try:
        version = sqlite_value(path, "pragma user_version")
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{os.fsdecode(path)} is not an owner list: {error}") from error
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise StoreError(f"{os.fsdecode(path)} was written by a newer version; update strongroom")


# Open files: how many connections and uploads the daemon can have, and how many one client.
#
# The limit of the process (RLIMIT_NOFILE) is raised as far as it may be, and divided: some are kept
# for the daemon itself and for handshakes, half of the rest are for connections, half for uploads,
# and no client gets more than a quarter of either.

# More are of no use to the daemon.
_MOST: Final = 65536
# Databases, sockets that listen, logs, files that are opened for a moment.
_OWN: Final = 64
# The socket, the folder of the repository, and the file that is being sent.
_OF_A_CONNECTION: Final = 3
_PART_OF_A_CLIENT: Final = 4


def raise_open_files() -> int:
    """Raise this process's limit on open files; returns what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def within_open_files(limits: StorageLimits, open_files: int) -> StorageLimits:
    """The limits, reduced to what a limit on open files permits."""
    handshakes = max(8, min(limits.handshakes, open_files // 8))
    rest = max(8 * _OF_A_CONNECTION, open_files - _OWN - handshakes)
    connections = min(limits.connections, rest // 2 // _OF_A_CONNECTION)
    uploads = min(limits.uploads_of_all, rest // 2)
    return replace(
        limits,
        handshakes=handshakes,
        connections=connections,
        connections_each=max(1, min(limits.connections_each, connections // _PART_OF_A_CLIENT)),
        uploads_of_all=uploads,
        uploads_each=max(1, min(limits.uploads_each, uploads // _PART_OF_A_CLIENT)),
    )


log = logging.getLogger("strongroom.storage")

_LOOK_SECONDS: Final = 5.0
# Beside signals in their queue: the certificate may have changed.
_RENEWED: Final = 0
_GRANT_PURPOSE: Final = "restore"


class StorageService:
    """A storage daemon from its configuration at `path`. Raises what reading it raises."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._started = self._configuration = StorageConfiguration(path)
        self._acceptor: Acceptor | None = None
        self._seen = 0
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._keeper = CertificateKeeper(
            lambda: self._configuration, lambda: self._signals.put(_RENEWED)
        )

    def run(self) -> None:
        """Serve until a signal ends it. Raises StoreError, OSError, PeerRefusedError."""
        signals = self._signals

        def note(number: int, _frame: FrameType | None) -> None:
            signals.put(number)

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, note)
        server = self._server()
        server.start()
        notify("READY=1")
        self._keeper.start()
        try:
            while True:
                try:
                    received = signals.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    received = _RENEWED
                if received == _RENEWED:
                    self._follow_identity()
                    continue
                if received != signal.SIGHUP:
                    log.info("ending")
                    return
                self._reload(server)
        finally:
            self._keeper.stop()
            server.stop()
            if self._acceptor is not None:
                self._acceptor.close()

    def _server(self) -> StorageServer:
        settings = replace(self._configuration.settings, limits=self._limits())
        folder = settings.identity_folder
        if not self._certificate_time():
            log.warning("%s holds no certificate: only the socket is served", os.fsdecode(folder))
            return StorageServer(settings)
        self._acceptor = Acceptor(
            Identity.load(folder), self._allow, cipher_suites=self._configuration.cipher_suites
        )
        self._seen = self._certificate_time()
        return StorageServer(settings, self._acceptor.accept, self._read_grant)

    def _limits(self) -> StorageLimits:
        configured = self._configuration.settings.limits
        limits = within_open_files(configured, raise_open_files())
        if limits != configured:
            log.warning(
                "the limit on open files permits %d connections (%d of a client) and %d uploads "
                "(%d of a client); raise LimitNOFILE for more",
                limits.connections,
                limits.connections_each,
                limits.uploads_of_all,
                limits.uploads_each,
            )
        return limits

    def _allow(self, peer: Peer, mode: str) -> bool:
        return self._configuration.allows(peer, mode)

    def _read_grant(self, text: str) -> dict[str, object]:
        from strongroom.net.identities.statements import verify_statement

        identity = Identity.load(self._configuration.settings.identity_folder)
        return verify_statement(text, identity.trust, _GRANT_PURPOSE, ("director",))[1]

    def _reload(self, server: StorageServer) -> None:
        try:
            self._configuration = StorageConfiguration(self._path)
        except StrongroomError as error:
            log.error("the configuration stays as it was: %s", error)  # noqa: TRY400 - it says enough
            return
        server.set_limits(self._limits())
        server.set_admission(self._configuration.settings.admission)
        self._follow_identity()
        self._keeper.look_now()
        log.info("the configuration was read again")
        waiting = self._configuration.differences(self._started)
        server.serving.restart_needed = waiting
        if waiting:
            log.warning(
                "%s: changed, but in force only after a restart of the daemon", "; ".join(waiting)
            )

    def _follow_identity(self) -> None:
        changed = self._certificate_time()
        if self._acceptor is None or changed == self._seen:
            return
        try:
            self._acceptor.replace_identity(
                Identity.load(self._configuration.settings.identity_folder)
            )
        except (StrongroomError, OSError) as error:
            log.error("the renewed certificate is invalid: %s", error)  # noqa: TRY400
        else:
            log.info("a new certificate is in force")
        self._seen = changed

    def _certificate_time(self) -> int:
        path = os.path.join(self._configuration.settings.identity_folder, b"certificate.pem")
        try:
            return os.stat(path).st_mtime_ns
        except FileNotFoundError:
            return 0
