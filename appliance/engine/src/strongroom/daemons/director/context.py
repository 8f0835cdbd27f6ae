"""What all parts of the director share: configuration, catalog, repositories, identity, agents."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from strongroom.errors import CatalogUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strongroom.config.model import ComponentConfiguration
    from strongroom.config.settings.configuration import DirectorConfiguration
    from strongroom.daemons.director.catalog.database import Catalog
    from strongroom.daemons.director.repositories.access import Repositories
    from strongroom.net.control.messages import Hello, ToAgent
    from strongroom.net.identities.identity import Identity

_Result = TypeVar("_Result")

# Of the catalog, and as many of repositories; most of it is waiting for a disk or a network.
THREADS = 16


class AgentLink(Protocol):
    """The way to agents; api.agent_connections is one."""

    def is_connected(self, client: str) -> bool:
        """Whether the agent of this client can be spoken to now."""

    async def send(self, client: str, message: ToAgent) -> bool:
        """Queue a message for an agent; False when it is not connected."""

    async def disconnect(self, client: str, reason: str) -> None:
        """End the connection of an agent that is no longer welcome."""


class NoAgents:
    """A link to nobody, until there is one."""

    def is_connected(self, client: str) -> bool:
        """Nobody is."""
        return False

    async def send(self, client: str, message: ToAgent) -> bool:
        """Nobody takes it."""
        return False

    async def disconnect(self, client: str, reason: str) -> None:
        """Nobody is there."""


@dataclass(eq=False, slots=True)
class DirectorContext:
    """Shared; `configuration`, `resources` and `link` are replaced while the director runs.

    resources: the configuration as it was parsed, which is what is shown of it.
    hellos: what the agents that are connected said of themselves. backup_errors: of all backups of
    a job and client since the start. repository_bytes: what packs take up at a Storage, as seen
    last.
    """

    configuration: DirectorConfiguration
    resources: ComponentConfiguration
    catalog: Catalog
    repositories: Repositories
    working_directory: str
    identity: Identity | None = None
    link: AgentLink = field(default_factory=NoAgents)
    hellos: dict[str, Hello] = field(default_factory=dict)
    backup_errors: dict[tuple[str, str], int] = field(default_factory=dict)
    repository_bytes: dict[str, int] = field(default_factory=dict)
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="director")
    )
    is_closed: bool = False
    # A storage daemon that hangs may take all of these, and the catalog still answers.
    repository_threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="repositories")
    )

    @property
    def name(self) -> str:
        """The director's name."""
        return self.configuration.director.name

    def features(self, client: str) -> tuple[str, ...]:
        """What the agent of a client can do, as far as it is connected."""
        hello = self.hellos.get(client)
        return () if hello is None else hello.features

    async def in_thread(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call something that blocks, and opens no repository; its exceptions are ours."""
        return await self._call(self.threads, function, *arguments)

    async def with_repository(
        self, function: Callable[..., _Result], *arguments: object
    ) -> _Result:
        """The same for what opens a repository, and may wait for it for long."""
        return await self._call(self.repository_threads, function, *arguments)

    async def _call(
        self, threads: ThreadPoolExecutor, function: Callable[..., _Result], *arguments: object
    ) -> _Result:
        if self.is_closed:
            raise CatalogUnavailableError("the director is stopping; it takes this up again later")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, function, *arguments)

    def close(self) -> None:
        """Let go of the catalog and the threads. Blocks."""
        self.is_closed = True
        self.repository_threads.shutdown(cancel_futures=True)
        self.threads.shutdown()
        self.catalog.close()
