"""Renews the storage daemon's certificate, and fetches the list of what was revoked.

Both come from a director that the configuration names: at its Address, or on this machine. Every
few minutes the list is fetched, and the certificate is renewed once two thirds of its life have
passed; what changed is in force at once. Without an Address a director that does not answer is
usual (it listens elsewhere, or copies the list into the identity folder), so only a renewal that
fails is reported then; whatever is reported is reported once a day.

One thread of its own, so that a director that hangs delays nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from strongroom.base.errors import DirectorError, StrongroomError
from strongroom.net.identities.identity import Identity, has_identity
from strongroom.net.renewal import (
    DirectorAddress,
    ended_text,
    fetch_revoked,
    is_of_no_use,
    renew_certificate,
)
from strongroom.service.log_lines import DailyLog
from strongroom.storage.configuration import StorageConfiguration

log = logging.getLogger("strongroom.storage")

_LOOK_SECONDS: Final = 300.0
# While nothing works without another certificate.
_SOON_SECONDS: Final = 15.0
# A director that starts with the machine, or is restarted, is no news.
_MISSED_LISTS: Final = 3
_RENEWAL: Final = "renewal"
_LIST: Final = "list"


class CertificateKeeper:
    """Keeps the certificate of `configuration()`; calls `changed` after a renewal."""

    def __init__(
        self, configuration: Callable[[], StorageConfiguration], changed: Callable[[], None]
    ) -> None:
        self._configuration = configuration
        self._changed = changed
        self._daily = DailyLog(log)
        self._missed: dict[str, int] = {}
        self._is_ended = False
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="certificate", daemon=True)

    def start(self) -> None:
        """Look now, and from now on."""
        self._thread.start()

    def look_now(self) -> None:
        """Look at once: the configuration or the certificate may have changed."""
        self._woken.set()

    def stop(self) -> None:
        """Look no more. A request under way ends by itself."""
        self._stopped.set()
        self._woken.set()

    def _keep(self) -> None:
        while not self._stopped.is_set():
            self._woken.clear()
            try:
                self._look()
            # Without this thread nothing would renew the certificate until the next start.
            except Exception:
                log.exception("the certificate cannot be kept, and this is tried again")
            self._woken.wait(_SOON_SECONDS if self._is_ended else _LOOK_SECONDS)

    def _look(self) -> None:
        configuration = self._configuration()
        folder = configuration.settings.identity_folder
        if not has_identity(folder):
            return
        identity: Identity | None = None
        try:
            identity = Identity.load(folder)
            if is_of_no_use(identity) or identity.renewal_due():
                identity = self._renewed(configuration, identity)
        except (StrongroomError, OSError) as error:
            text = f"the certificate could not be renewed: {error}"
            if identity is not None and is_of_no_use(identity):
                text = f"{text}; {ended_text(identity)}"
            self._daily.warn(_RENEWAL, text)
        else:
            self._daily.forget(_RENEWAL)
        self._is_ended = identity is not None and is_of_no_use(identity)
        if identity is None or self._is_ended:
            return
        self._fetch_list(configuration, identity)

    def _renewed(self, configuration: StorageConfiguration, old: Identity) -> Identity:
        """The identity after a renewal at the first director that answers."""
        failure: StrongroomError = DirectorError("no Director resource names one to ask")
        for director in configuration.directors:
            try:
                identity, _ = renew_certificate(_place(director), old.folder)
            except DirectorError as error:
                failure = DirectorError(
                    f"{error}; say its Address in the Director resource {director.name} of this "
                    f"daemon; the certificate ends on {old.not_after:%Y-%m-%d %H:%M} UTC"
                )
                continue
            log.info("the certificate was renewed until %s", identity.not_after)
            self._changed()
            return identity
        raise failure

    def _fetch_list(self, configuration: StorageConfiguration, identity: Identity) -> None:
        for director in configuration.directors:
            try:
                if fetch_revoked(_place(director), identity):
                    log.info("a newer list of revoked certificates is in force")
            except (StrongroomError, OSError) as error:
                missed = self._missed[director.name] = self._missed.get(director.name, 0) + 1
                if director.host and missed >= _MISSED_LISTS:
                    text = f"the list of revoked certificates could not be fetched: {error}"
                    self._daily.warn(f"{_LIST} {director.name}", text)
            else:
                self._missed.pop(director.name, None)
                self._daily.forget(f"{_LIST} {director.name}")
                return


def _place(director: DirectorAddress) -> DirectorAddress:
    return director if director.host else director._replace(host="localhost")
