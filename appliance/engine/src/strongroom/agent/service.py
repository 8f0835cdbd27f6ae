"""The agent as a daemon: runs until SIGTERM, reloads its configuration at SIGHUP.

After SIGHUP new runs use the new configuration, active runs are not disturbed, and connections of
unchanged directors stay. A configuration with errors changes nothing. SIGTERM and SIGINT stop the
jobs; their runs are resumed when the agent starts again. The certificate is renewed after two
thirds of its lifetime, and the list of revoked ones is fetched every few minutes.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
from contextlib import suppress
from typing import Final

from strongroom.agent.connections import DirectorLinks, require_own
from strongroom.agent.enrolment import address_of, renew
from strongroom.agent.metrics_file import MetricsFile
from strongroom.agent.put_keys import read_put_keys
from strongroom.agent.restore_authority import restore_authority_path
from strongroom.agent.settings import AgentSettings, load_settings
from strongroom.agent.status import StatusSocket, status
from strongroom.agent.supervisor import Supervisor
from strongroom.base import clock
from strongroom.base.errors import (
    DirectorError,
    KeyRightError,
    OperatingSystemError,
    StrongroomError,
    UsageError,
    os_errors,
)
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.identities.identity import Identity
from strongroom.net.renewal import fetch_revoked, require_living
from strongroom.service.log_lines import DailyLog
from strongroom.service.preflight import Preflight
from strongroom.service.service_manager import notify


def check_agent(path: str) -> tuple[AgentSettings, Preflight]:
    """The settings at `path`, and the faults of what they name.

    Raises ConfigurationError and UsageError when the configuration itself is invalid.
    """
    settings = load_settings(path)
    look = Preflight()
    with look.part("Identity Directory"):
        identity = Identity.load(settings.identity_folder)
        require_own(identity, settings)
        require_living(identity)
        client_context(identity, check_hostname=False)
        with look.part("put keys in the Identity Directory"):
            try:
                read_put_keys(settings.identity_folder)
            except KeyRightError as error:  # without a put key it restores, but cannot back up
                look.warnings.append(str(error))
    authority = restore_authority_path(path)
    if os.path.exists(settings.restore_socket) and not os.path.exists(authority):
        look.warnings.append(
            f"{authority} is missing, so nothing is restored through Restore Socket: enrol as "
            f"root, or as root copy {settings.identity_folder}/authority.pem there"
        )
    look.writable("Working Directory", settings.working_folder)
    look.changeable("Working Directory", os.path.join(settings.working_folder, "agent.lock"))
    look.addresses("Address, Port and Addresses of the Client", settings.listen_addresses)
    return settings, look


_LOOK_SECONDS: Final = 300.0
# While nothing works without another certificate.
_SOON_SECONDS: Final = 15.0
_RENEWAL: Final = "renewal"
_LIST: Final = "list"

_log = logging.getLogger(__name__)


def serve(path: str) -> None:
    """Run the agent that the configuration at `path` describes, until SIGTERM or SIGINT.

    Raises ConfigurationError, UsageError, OperatingSystemError.
    """
    asyncio.run(_Service(path).run())


class _Service:
    def __init__(self, path: str) -> None:
        self._path = path
        self._settings = load_settings(path)
        self._links = DirectorLinks(self._settings)
        self._stopped = asyncio.Event()
        self._daily = DailyLog(_log)
        self._woken = asyncio.Event()
        self._figures = MetricsFile(self._settings, self._links.is_welcome)
        self._started_ns = self._read_ns = self._tried_ns = clock.now_ns()
        self._refused = ""

    async def run(self) -> None:
        settings = self._settings
        lock = _lock_folder(settings)
        # Reports a fault of the certificate early.
        Identity.load(settings.identity_folder)
        supervisor = Supervisor(settings, self._links.news, self._figures.note)
        self._figures.active_count = lambda: supervisor.active_count
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        reloading: set[asyncio.Task[None]] = set()

        def reload() -> None:
            task = asyncio.create_task(self._reload(supervisor))
            reloading.add(task)
            task.add_done_callback(reloading.discard)

        loop.add_signal_handler(signal.SIGHUP, reload)
        try:
            await self._links.start(supervisor)
        except OSError as error:
            raise OperatingSystemError(f"cannot listen: {error.strerror or error}") from error
        telling = StatusSocket(lambda: self._status(supervisor))
        try:
            await telling.open(settings.working_folder)
        except OSError as error:
            _log.warning("`strongroom agent show` gets no answer: %s", error.strerror or error)
        supervisor.resume()
        renewing = asyncio.create_task(self._keep_certificate(), name="certificate")
        writing = asyncio.create_task(self._figures.keep_writing(), name="metrics file")
        notify("READY=1")
        _log.info("agent %s is ready", settings.name)
        await self._stopped.wait()
        notify("STOPPING=1")
        renewing.cancel()
        await supervisor.stop()
        await self._links.stop()
        telling.close()
        self._figures.stop()
        await writing
        os.close(lock)

    def _status(self, supervisor: Supervisor) -> dict[str, object]:
        shown = status(
            self._settings, supervisor, self._links.is_welcome, self._started_ns, self._read_ns
        )
        tried = clock.utc_text(self._tried_ns)
        return {**shown, "configuration_tried": tried, "configuration_refused": self._refused}

    async def _reload(self, supervisor: Supervisor) -> None:
        notify(f"RELOADING=1\nMONOTONIC_USEC={int(clock.service_manager_seconds() * 1e6)}")
        try:
            settings = load_settings(self._path)
            if settings.working_folder != self._settings.working_folder:
                raise UsageError(
                    "Working Directory has changed, which needs a restart of the agent"
                )
            # First what can fail: all of it is in force, or nothing.
            await self._links.reload(settings)
            supervisor.settings = settings
            self._settings = settings
            self._read_ns, self._refused = clock.now_ns(), ""
            self._figures.use(settings)
            self._woken.set()
            _log.info("the configuration was read again")
        except (StrongroomError, OSError) as error:
            self._refused = str(error)
            _log.error("the configuration stays as it was: %s", error)
        finally:
            self._tried_ns = clock.now_ns()
            notify("READY=1")

    async def _keep_certificate(self) -> None:
        """Renew the certificate when that is due, and fetch the list of revoked ones."""
        while True:
            try:
                identity = await self._renewed()
            except (StrongroomError, OSError) as error:
                self._daily.warn(_RENEWAL, f"the certificate could not be renewed: {error}")
            else:
                self._daily.forget(_RENEWAL)
                self._links.use_identity(identity)
                await self._fetch_list(identity)
            with suppress(TimeoutError):
                seconds = _SOON_SECONDS if self._links.is_ended else _LOOK_SECONDS
                await asyncio.wait_for(self._woken.wait(), seconds)
            self._woken.clear()

    async def _renewed(self) -> Identity:
        """The certificate, after a renewal if that was due."""
        settings = self._settings
        identity = Identity.load(settings.identity_folder)
        is_ended = self._links.tell_ended(identity)
        if not is_ended and not identity.renewal_due():
            return identity
        failure: StrongroomError = UsageError(
            "no Director has an Address to request a certificate from; the certificate ends on "
            f"{identity.not_after:%Y-%m-%d %H:%M} UTC"
        )
        for director in settings.directors.values():
            if director.address:
                try:
                    identity = await asyncio.to_thread(renew, director, settings.identity_folder)
                except DirectorError as error:
                    failure = error
                    continue
                _log.info("the certificate was renewed until %s", identity.not_after)
                return identity
        raise failure

    async def _fetch_list(self, identity: Identity) -> None:
        for director in self._settings.directors.values():
            if not director.address:
                continue
            try:
                await asyncio.to_thread(fetch_revoked, address_of(director), identity)
            except (StrongroomError, OSError) as error:
                text = f"the list of revoked certificates could not be fetched: {error}"
                self._daily.warn(f"{_LIST} {director.name}", text)
            else:
                self._daily.forget(f"{_LIST} {director.name}")
                return


def _lock_folder(settings: AgentSettings) -> int:
    """Ensure that no other agent uses the working folder."""
    with os_errors(
        settings.working_folder, then="; see Working Directory", kind=OperatingSystemError
    ):
        os.makedirs(settings.working_folder, 0o700, exist_ok=True)
        path = os.path.join(settings.working_folder, "agent.lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise OperatingSystemError(
            f"another agent uses {settings.working_folder}; see Working Directory"
        ) from error
    return descriptor
