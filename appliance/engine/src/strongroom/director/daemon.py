"""The director as a process: configuration, identity, director, API, signals.

SIGTERM and SIGINT end it: active requests are answered, agents are disconnected, runs on agents
continue. SIGHUP reloads its configuration, as the API's `reload` does, and its certificate; what
stays as it was at the start is listed in `restart`. With a local authority the director renews its
own certificate in time; otherwise it loads a certificate that replaced the old file.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from strongroom.base import clock
from strongroom.base.errors import (
    CatalogUnavailableError,
    OperatingSystemError,
    PeerRefusedError,
    StrongroomError,
)
from strongroom.config.settings.director import DirectorSettings
from strongroom.director.configuration import LoadedConfiguration, load_configuration
from strongroom.director.context import RETRY_SECONDS
from strongroom.director.director import Director
from strongroom.director.http.agent_connections import AgentConnections
from strongroom.director.http.agent_dialling import AgentDialling
from strongroom.director.http.application import rest_application
from strongroom.director.http.callers import Callers
from strongroom.director.http.cross_site import OwnNames
from strongroom.director.http.limits import Attempts, ConnectionLimits
from strongroom.director.http.request_context import ApiContext, Enrolling
from strongroom.director.http.server import ApiServer, tls_context
from strongroom.director.notices.catalog_trouble import tell_at_start
from strongroom.director.own_certificate import (
    OwnCertificate,
    appliance_keys,
    authority_passphrase,
    renew_here,
)
from strongroom.director.results.access import Actor
from strongroom.director.web.application import web_pages
from strongroom.net.channels.tls_contexts import load_certificate
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import Identity
from strongroom.net.identities.revocations import Revocations
from strongroom.service.service_manager import notify

# Limits on wrong tokens, wrong enrolment tokens, and refused names, of one address.
WRONG_TOKENS = 20
WRONG_ENROLMENTS = 5
REFUSED_JOINS = 20
WINDOW_SECONDS = 300.0
LOOK_SECONDS = 60.0
# A certificate that a wrong clock made of no use is replaced as soon as that is seen.
CLOCK_LOOK_SECONDS = 2.0
# How long the director before, or a process that it left, may take to end.
ALONE_SECONDS = 3.0

_log = logging.getLogger(__name__)


def own_identity(settings: DirectorSettings) -> Identity:
    """The director's certificate. Raises UsageError, PeerRefusedError for another name."""
    identity = Identity.load(settings.identity_folder)
    if identity.role != "director" or identity.name != settings.name:
        raise PeerRefusedError(
            f"the certificate in {settings.identity_folder} is of {identity.peer}, but this "
            f"director is {settings.name!r}: issue it one of that name"
        )
    return identity


@asynccontextmanager
async def _alone_in(folder: str) -> AsyncIterator[None]:
    """Hold the working folder. Raises OperatingSystemError when another director has it.

    Two would take each other's runs for interrupted ones, and a run that one started by its
    schedule would wait for an agent that is connected to the other. The folder itself is locked:
    that takes no room on a full disk. Where it cannot be, what opens the catalog says why.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    until = clock.elapsed_seconds() + ALONE_SECONDS
    try:
        while not _is_locked(descriptor):
            if clock.elapsed_seconds() >= until:
                raise OperatingSystemError(
                    f"another director uses {folder}; end it first, or see Working Directory"
                )
            await asyncio.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Whether this process holds the lock of a folder, or its file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


class DirectorDaemon:
    """A director from its configuration at `path`. Raises what reading it raises."""

    def __init__(self, path: str) -> None:
        self._path = path
        loaded = load_configuration(path)
        self._loaded: LoadedConfiguration | None = loaded
        self.settings = loaded.settings.director
        identity = own_identity(self.settings)
        self._authority = self._open_authority()
        self._certificate = OwnCertificate(identity, self._authority)
        # One that ended while the machine was off is useless to a server.
        self._certificate.follow()
        self._identity = self._certificate.identity
        self._appliance_keys = appliance_keys(self.settings)
        self._tls_context: ssl.SSLContext
        self._director: Director
        self._dialling: AgentDialling
        # Set after a reload: a certificate may have been replaced along with the configuration.
        self._looking = asyncio.Event()
        self.limits = ConnectionLimits()
        self.ports: list[int] = []

    async def run(self) -> None:
        """Serve until a signal ends it. Raises StrongroomError."""
        stopping = asyncio.Event()
        reloading = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        loop.add_signal_handler(signal.SIGHUP, reloading.set)
        await self.serve(stopping, reloading, asyncio.Event())

    async def serve(
        self, stopping: asyncio.Event, reloading: asyncio.Event, ready: asyncio.Event
    ) -> None:
        """Serve until `stopping` is set; sets `ready` when it serves. Raises StrongroomError."""
        async with _alone_in(self.settings.working_folder):
            await self._serve(stopping, reloading, ready)

    async def _serve(
        self, stopping: asyncio.Event, reloading: asyncio.Event, ready: asyncio.Event
    ) -> None:
        loaded, self._loaded = self._loaded, None
        assert loaded is not None
        try:
            self._director = await Director.open(self._path, self._identity, loaded=loaded)
        except CatalogUnavailableError as error:
            await tell_at_start(loaded.settings, error)
            raise
        if self._authority is not None:
            self._authority.sure_ns = self._director.context.guard.sure_ns
        revocations = self._identity.trust.revocations
        assert revocations is not None
        agents = AgentConnections(self._director.agents, revocations)
        self._dialling = AgentDialling(self._director, agents, self._identity)
        self._names = OwnNames(self._identity)
        context = self._api_context(agents, revocations)
        self._tls_context = tls_context(self._identity, self.settings.cipher_suites)
        server = ApiServer(
            rest_application(context, web_pages(context)),
            agents,
            self._tls_context,
            self.settings.addresses,
            self.limits,
            self._names,
            context.closing.set,
        )
        try:
            self._director.use_link(agents)
            await self._director.start()
            agents.start()
            await server.start()
            self._dialling.follow()
            self._director.context.followers += (self._dialling.follow, self._looking.set)
            self.ports = server.ports
            for place in server.places:
                _log.info("director %s listens on %s", self.settings.name, place)
            ready.set()
            notify("READY=1")
            await self._watch(server, stopping, reloading)
        finally:
            await self._dialling.stop()
            await agents.stop()
            await server.stop()
            await self._director.stop()

    async def _watch(
        self, server: ApiServer, stopping: asyncio.Event, reloading: asyncio.Event
    ) -> None:
        """Reload on request and renew the certificate, until stopped."""
        ended = asyncio.create_task(server.wait())
        stop = asyncio.create_task(stopping.wait())
        reload = asyncio.create_task(reloading.wait())
        look = asyncio.create_task(self._looking.wait())
        try:
            await self._follow_identity()
            while not stop.done() and not ended.done():
                await self._wait_to_look((ended, stop, reload, look))
                if reload.done():
                    reloading.clear()
                    reload = asyncio.create_task(reloading.wait())
                    if not await self._reload():
                        loop = asyncio.get_running_loop()
                        loop.call_later(RETRY_SECONDS, reloading.set)
                if look.done():
                    self._looking.clear()
                    look = asyncio.create_task(self._looking.wait())
                await self._follow_identity()
                # `catalog recover` has put another one in its place: the service manager starts
                # the director anew.
                self._director.context.catalog.require_same_file()
            if ended.done():
                ended.result()
            _log.info("director %s is stopping", self.settings.name)
        finally:
            for task in (ended, stop, reload, look):
                task.cancel()

    async def _wait_to_look(self, events: tuple[asyncio.Task[Any], ...]) -> None:
        """Return when one of them is done, or it is time to look at the certificate."""
        was_of_no_use = self._certificate.is_of_no_use
        for _ in range(int(LOOK_SECONDS / CLOCK_LOOK_SECONDS)):
            done, _ = await asyncio.wait(
                events, timeout=CLOCK_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if done or self._certificate.is_of_no_use > was_of_no_use:
                return

    async def _reload(self) -> bool:
        """Reload; returns whether that is finished, with or without errors, or must be retried."""
        try:
            await self._director.commands.reload(Actor("root", "signal"))
        except CatalogUnavailableError as away:
            _log.error("reload failed and is retried: %s", away)
            return False
        return True

    async def _follow_identity(self) -> None:
        """Renew the certificate when it is time, and use a new one; others of this machine too."""
        is_new = await asyncio.to_thread(self._certificate.follow)
        if self._authority is not None:
            try:
                await asyncio.to_thread(renew_here, self._authority)
            except (StrongroomError, OSError) as error:
                _log.warning("certificates of this machine cannot be issued anew: %s", error)
        if not is_new:
            return
        found = self._identity = self._certificate.identity
        load_certificate(self._tls_context, found)
        self._names.follow(found)
        self._director.use_identity(found)
        self._dialling.identity = found

    def _api_context(self, agents: AgentConnections, revocations: Revocations) -> ApiContext:
        wrong_tokens = Attempts(WRONG_TOKENS, WINDOW_SECONDS)
        authority = self._authority
        return ApiContext(
            director=self._director,
            callers=Callers(self._director, revocations, wrong_tokens),
            agents=agents,
            enrolling=None if authority is None else Enrolling(authority, self._appliance_keys),
            wrong_enrolments=Attempts(WRONG_ENROLMENTS, WINDOW_SECONDS),
            refused_joins=Attempts(REFUSED_JOINS, WINDOW_SECONDS),
            names=self._names,
            limits=self.limits,
        )

    def _open_authority(self) -> Authority | None:
        folder = self.settings.authority_folder
        if not folder:
            return None
        return Authority(os.fsencode(folder), authority_passphrase(self.settings))
