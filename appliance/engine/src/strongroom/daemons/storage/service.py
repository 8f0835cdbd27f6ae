"""The storage daemon as a service: configuration, identity, signals.

SIGTERM and SIGINT end it. SIGHUP reloads its configuration: limits, who may connect and in which
TLS mode, certificate. Addresses and devices stay as they were at the start. The daemon renews its
certificate itself (see `certificate`); one that somebody else replaced is noticed within seconds.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from strongroom.daemons.service_manager import notify
from strongroom.daemons.storage.certificate import CertificateKeeper
from strongroom.daemons.storage.configuration import StorageConfiguration
from strongroom.daemons.storage.descriptors import raise_open_files, within_open_files
from strongroom.daemons.storage.server import StorageServer
from strongroom.errors import StrongroomError

if TYPE_CHECKING:
    from types import FrameType

    from strongroom.daemons.storage.settings import StorageLimits
    from strongroom.net.channels.connecting import Acceptor
    from strongroom.net.identities.peer import Peer

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
        from strongroom.net.channels.connecting import Acceptor
        from strongroom.net.identities.identity import Identity

        settings = replace(self._configuration.settings, limits=self._limits())
        folder = settings.identity_folder
        if not self._certificate_time():
            log.warning("%s holds no certificate: only the local socket works", os.fsdecode(folder))
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
        from strongroom.net.identities.identity import Identity
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
        from strongroom.net.identities.identity import Identity

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
