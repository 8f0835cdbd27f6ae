"""What all parts of the director share: configuration, catalog, repositories, identity, agents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from strongroom.base.errors import CatalogUnavailableError, StrongroomError
from strongroom.config.model import ComponentConfiguration
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.director.catalog.database import Catalog
from strongroom.director.catalog.rivals import Rivalry
from strongroom.director.clock_guard import ClockGuard
from strongroom.director.repositories.access import Repositories
from strongroom.director.repositories.walking import PROCESSES, Walks
from strongroom.net.control.messages import Hello, ToAgent

if TYPE_CHECKING:
    from strongroom.director.results.status import Expiry, PoolCopies
    from strongroom.engine.stores.servable import Space
    from strongroom.net.identities.identity import Identity

_log = logging.getLogger(__name__)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

# Threads for the catalog, and as many for repositories; they mostly wait for disk or network.
THREADS = 16
RETRY_SECONDS: Final = 2.0


class AgentLink(Protocol):
    """Connections to agents; http.agent_connections implements it."""

    def is_connected(self, client: str) -> bool:
        """Whether the agent of this client is connected."""

    async def send(self, client: str, message: ToAgent) -> bool:
        """Queue a message for an agent; False when it is not connected."""

    async def disconnect(self, client: str, reason: str) -> None:
        """Disconnect an agent that is not accepted any more."""


class NoAgents:
    """A link without agents, used until there is a real one."""

    def is_connected(self, client: str) -> bool:
        """Always False."""
        return False

    async def send(self, client: str, message: ToAgent) -> bool:
        """Always False."""
        return False

    async def disconnect(self, client: str, reason: str) -> None:
        """No effect."""


@dataclass(eq=False, slots=True)
class DirectorContext:
    """Shared; `configuration`, `resources` and `link` are replaced while the director runs.

    resources: the configuration as parsed, for display. hellos: the Hello of each connected
    agent. rivals: clients in whose name two agents connect. backup_errors: of all backups of a job
    and client since the start. repository_bytes: the size of all packs at a Storage, as last
    measured. repository_spaces: size and free space of its file system, likewise. copies: of each
    Pool with Copy To, as last seen. followers: called after each reload. guard: of the clock.
    restart_needed: directives that were changed and wait for a restart.
    reload_errors: why the last reload left the configuration as it was.
    """

    configuration: DirectorConfiguration
    resources: ComponentConfiguration
    catalog: Catalog
    repositories: Repositories
    working_directory: str
    guard: ClockGuard = field(default_factory=ClockGuard)
    identity: Identity | None = None
    link: AgentLink = field(default_factory=NoAgents)
    hellos: dict[str, Hello] = field(default_factory=dict)
    rivals: dict[str, Rivalry] = field(default_factory=dict)
    backup_errors: dict[tuple[str, str], int] = field(default_factory=dict)
    repository_bytes: dict[str, int] = field(default_factory=dict)
    repository_spaces: dict[str, Space] = field(default_factory=dict)
    copies: tuple[PoolCopies, ...] = ()
    followers: list[Callable[[], None]] = field(default_factory=list)
    # What was stored at each Storage, and until when that is kept: see notices.watch_storage.
    stored: tuple[float, dict[str, tuple[int, int]]] | None = None
    # What ends by a configuration, and of which state that is: see notices.expiries.
    expiries: tuple[DirectorConfiguration, Hashable, list[Expiry]] | None = None
    restart_needed: tuple[str, ...] = ()
    reload_errors: tuple[str, ...] = ()
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="director")
    )
    is_closed: bool = False
    # A storage daemon that hangs may block all of these, and the catalog still answers.
    repository_threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="repositories")
    )

    walks: Walks = field(default_factory=Walks)
    walking_turns: dict[str, asyncio.Lock] = field(default_factory=dict)
    walking_threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(PROCESSES, thread_name_prefix="walks")
    )

    @property
    def name(self) -> str:
        """The director's name."""
        return self.configuration.director.name

    def features(self, client: str) -> tuple[str, ...]:
        """The features of a client's agent, if it is connected."""
        hello = self.hellos.get(client)
        return () if hello is None else hello.features

    async def in_thread(
        self,
        function: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Result:
        """Call a blocking function that opens no repository; raises its exceptions."""
        return await self._call(self.threads, partial(function, *arguments, **options))

    async def ask(
        self,
        function: Callable[Concatenate[Catalog, _Arguments], _Result],
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Result:
        """The same for a function of the catalog, which is its first argument."""
        return await self.in_thread(function, self.catalog, *arguments, **options)

    def walk(self, storage: str, ids: Sequence[str]) -> dict[str, str]:
        """What is wrong with snapshots of a storage; see `Walks.walk`. Blocks, perhaps for long."""
        place = self.repositories.place(storage)
        return self.walks.walk(place, self.repositories.cache_folder, ids)

    async def in_walk(
        self,
        client: str,
        function: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Result:
        """Call a blocking function that walks a snapshot of a client; raises its exceptions.

        A client has one walk at a time: others wait for one of each client at most.
        """
        turn = self.walking_turns.setdefault(client, asyncio.Lock())
        async with turn:
            return await self._call(self.walking_threads, partial(function, *arguments, **options))

    async def with_repository(
        self,
        function: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **options: _Arguments.kwargs,
    ) -> _Result:
        """The same for a function that opens a repository, and may block for long."""
        return await self._call(self.repository_threads, partial(function, *arguments, **options))

    async def _call(self, threads: ThreadPoolExecutor, function: Callable[[], _Result]) -> _Result:
        if self.is_closed:
            raise CatalogUnavailableError("the director is stopping; it resumes this later")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, function)

    def close(self) -> None:
        """Close the catalog and the threads. Blocks."""
        self.is_closed = True
        self.walks.close()
        self.walking_threads.shutdown(cancel_futures=True)
        self.repository_threads.shutdown(cancel_futures=True)
        self.threads.shutdown()
        self.catalog.close()


async def survive(
    call: Callable[_Arguments, Awaitable[_Result]],
    *arguments: _Arguments.args,
    **named: _Arguments.kwargs,
) -> _Result:
    """Call until the catalog is available; returns the result. Other errors are raised.

    For what the director does on its own, which no caller would repeat: the end of its own jobs, a
    line of a script, another attempt, a report. A commit whose answer was lost is repeated, so a
    line of a log may appear twice.
    """
    is_logged = False
    while True:
        try:
            result = await call(*arguments, **named)
        except CatalogUnavailableError as error:
            if not is_logged:
                _log.error("the director waits for the catalog: %s", error)
                is_logged = True
            await asyncio.sleep(RETRY_SECONDS)
        else:
            if is_logged:
                _log.info("the catalog is available again")
            return result


async def repeat(
    what: str, activity: Callable[[], Awaitable[None]], seconds: float, first_seconds: float = 0.0
) -> None:
    """Do something again and again until cancelled, with a pause; what fails is only logged."""
    await asyncio.sleep(first_seconds)
    while True:
        try:
            await activity()
        except (StrongroomError, OSError) as error:
            _log.warning("%s: %s", what, error)
        except Exception:  # noqa: BLE001 - it must continue
            _log.exception("%s: a fault of the director", what)
        await asyncio.sleep(seconds)


class Background:
    """The tasks of one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, activity: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start an activity; `settle` waits for it, its failure is logged."""
        task = asyncio.create_task(activity)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def settle(self) -> None:
        """Wait until no activity is left."""
        while pending := [task for task in self._tasks if task is not asyncio.current_task()]:
            await asyncio.wait(pending)

    async def shut_down(self) -> None:
        """Cancel everything, and wait for its end."""
        for task in list(self._tasks):
            task.cancel()
        await self.settle()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("an activity of the director failed: %s", error, exc_info=error)
