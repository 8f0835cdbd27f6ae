"""The agent as a daemon: runs until SIGTERM, reloads its configuration at SIGHUP.

After SIGHUP new runs use the new configuration, active runs are not disturbed, and connections of
unchanged directors stay. A configuration with errors changes nothing. SIGTERM and SIGINT stop the
jobs; their runs are resumed when the agent starts again. The certificate is renewed after two
thirds of its lifetime.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
from typing import TYPE_CHECKING, Final

from strongroom import clock
from strongroom.daemons.agent.connections import DirectorLinks
from strongroom.daemons.agent.enrolment import renew
from strongroom.daemons.agent.metrics_file import MetricsFile
from strongroom.daemons.agent.settings import load_settings
from strongroom.daemons.agent.supervisor import Supervisor
from strongroom.daemons.service_manager import notify
from strongroom.errors import OperatingSystemError, StrongroomError, UsageError
from strongroom.net.identities.identity import Identity

if TYPE_CHECKING:
    from strongroom.daemons.agent.settings import AgentSettings

_RENEWAL_LOOK_SECONDS: Final = 3600.0
_RENEWAL_RETRY_SECONDS: Final = 300.0

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
        self._figures = MetricsFile(self._settings, self._links.is_welcome)

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
        supervisor.resume()
        renewing = asyncio.create_task(self._keep_renewing(), name="renewal")
        writing = asyncio.create_task(self._figures.keep_writing(), name="metrics file")
        notify("READY=1")
        _log.info("agent %s is ready", settings.name)
        await self._stopped.wait()
        notify("STOPPING=1")
        renewing.cancel()
        await supervisor.stop()
        await self._links.stop()
        self._figures.stop()
        await writing
        os.close(lock)

    async def _reload(self, supervisor: Supervisor) -> None:
        notify(f"RELOADING=1\nMONOTONIC_USEC={int(clock.elapsed_seconds() * 1e6)}")
        try:
            settings = load_settings(self._path)
            if settings.working_folder != self._settings.working_folder:
                raise UsageError("Working Directory changes only with a restart")
            supervisor.settings = settings
            await self._links.reload(settings)
            self._settings = settings
            self._figures.use(settings)
            _log.info("the configuration was read again")
        except (StrongroomError, OSError) as error:
            _log.error("the configuration stays as it was: %s", error)
        finally:
            notify("READY=1")

    async def _keep_renewing(self) -> None:
        while True:
            pause_seconds = _RENEWAL_LOOK_SECONDS
            try:
                await self._renew()
            except (StrongroomError, OSError) as error:
                _log.error("the certificate could not be renewed: %s", error)
                pause_seconds = _RENEWAL_RETRY_SECONDS
            await asyncio.sleep(pause_seconds)

    async def _renew(self) -> None:
        settings = self._settings
        if not Identity.load(settings.identity_folder).renewal_due():
            return
        for director in settings.directors.values():
            if director.address:
                renewed = await asyncio.to_thread(renew, director, settings.identity_folder)
                _log.info("the certificate was renewed until %s", renewed.not_after)
                return
        raise UsageError("no Director has an Address to request a certificate from")


def _lock_folder(settings: AgentSettings) -> int:
    """Ensure that no other agent uses the working folder."""
    try:
        os.makedirs(settings.working_folder, 0o700, exist_ok=True)
        path = os.path.join(settings.working_folder, "agent.lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OperatingSystemError(
            f"{settings.working_folder}: {error.strerror}; see Working Directory"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise OperatingSystemError(
            f"another agent uses {settings.working_folder}; see Working Directory"
        ) from error
    return descriptor
