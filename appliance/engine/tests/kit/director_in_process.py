"""A director in this process: its configuration in a folder, its time and agents simulated."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kit.agents_in_process import SimulatedAgent, SimulatedLink
from kit.made_catalog import put_catalog
from kit.virtual_time import VirtualTime
from strongroom.director.director import Director
from strongroom.director.results.access import Actor
from strongroom.director.results.runs import Run, RunFilter
from strongroom.director.runs.requests import Overrides, plan
from strongroom.net.identities.identity import Identity

OPERATOR = Actor("ann", "operator", "192.0.2.7")
SECOND_NS = 1_000_000_000
# A Saturday.
START_NS = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()) * SECOND_NS

MINIMAL = """
Director {{ Name = dir; Password = "x"; Messages = Standard; MaximumConcurrentJobs = {concurrent}
  WorkingDirectory = "{folder}/work"; TimeZone = "{zone}" }}
Messages {{ Name = Standard; Append = "{folder}/reports.log" = all }}
{catalog}
Storage {{ Name = main; Address = 192.0.2.3; Password = "x"; Device = disk; MediaType = File
  MaximumConcurrentJobs = 50; {storage} }}
Pool {{ Name = Default; {minimum}{pool} }}
FileSet {{ Name = Home; Include {{ File = /home }} }}
"""


CATALOG = "Catalog { Name = C; DbName = catalog; DbUser = none }"


def client(name: str, more: str = "") -> str:
    return f'Client {{ Name = {name}; Address = {name}.example; Password = "x"; {more} }}\n'


def job(name: str, client_name: str = "web1", more: str = "", kind: str = "Backup") -> str:
    return (
        f"Job {{ Name = {name}; Type = {kind}; Client = {client_name}; FileSet = Home; "
        f"Storage = main; Pool = Default; Messages = Standard\n {more}\n }}\n"
    )


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test; the director it was given is closed after it."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        async def whole() -> None:
            try:
                await asyncio.wait_for(test(**fixtures), 60)
            finally:
                director = fixtures.get("director")
                if isinstance(director, TestDirector) and hasattr(director, "service"):
                    await director.close()

        asyncio.run(whole())

    return run


class TestDirector:
    """One director and its agents; `restart` makes another over the same catalog."""

    __test__ = False

    def __init__(self, folder: Path, time: VirtualTime, identity: Identity | None = None) -> None:
        self.folder = folder
        self.time = time
        self.identity = identity
        self.link = SimulatedLink()
        self.service: Director
        self._settings = {
            "folder": str(folder),
            "concurrent": "20",
            "zone": "UTC",
            "storage": "",
            "pool": "",
            "catalog": CATALOG,
        }

    def configure(self, text: str, **settings: Any) -> None:
        self._settings |= {name: str(value) for name, value in settings.items()}
        # Tests of rules do not wait for a week.
        is_set = "MinimumRetention" in self._settings["pool"]
        self._settings["minimum"] = "" if is_set else "MinimumRetention = 0; "
        configuration = self.folder / "etc" / "director.d" / "all"
        configuration.mkdir(parents=True, exist_ok=True)
        (configuration / "all.conf").write_text(MINIMAL.format(**self._settings) + text)

    async def open(self, text: str | None = None, **settings: Any) -> None:
        """Open the director, with this configuration if one is given, see `configure`."""
        if text is not None:
            self.configure(text, **settings)
        if self._settings["catalog"] == CATALOG and not hasattr(self, "service"):
            put_catalog(self.folder / "work" / "catalog.sqlite")
        self.service = await Director.open(str(self.folder / "etc"), self.identity, self.link)
        # The scheduler does not run by itself: `go` checks the time.
        await self.service.runs.resume()
        await self.service.scheduler.load()
        await self.settle()

    async def close(self) -> None:
        await self.service.stop()

    async def restart(self) -> None:
        """As after a crash: no agent is told, nothing is finished."""
        await self.service.stop()
        for agent in list(self.link.agents.values()):
            self.link.agents.pop(agent.name)
        await self.open()

    async def agent(self, name: str) -> SimulatedAgent:
        agent = SimulatedAgent(self.service, self.link, name)
        await agent.connect()
        await self.settle()
        return agent

    async def with_agent(self, text: str | None = None, **settings: Any) -> SimulatedAgent:
        """Open it, and connect the agent of web1."""
        await self.open(text, **settings)
        return await self.agent("web1")

    async def running(self, more: str = "") -> tuple[SimulatedAgent, Run]:
        """The agent of web1 is connected, and its one job `nightly` was started."""
        agent = await self.with_agent(client("web1") + job("nightly", more=more))
        return agent, await self.start("nightly")

    async def settle(self) -> None:
        await asyncio.wait_for(self.service.runs.settle(), 30)

    async def go(self, seconds: float = 0.0) -> None:
        """Let time go by and the director look at it."""
        self.time.pass_by(seconds)
        await self.service.scheduler.tick()
        await self.settle()

    def plan(self, name: str, **options: Any) -> Run:
        """What a run of a job is to be."""
        return plan(self.service.configuration, name, Overrides(**options))

    async def queue(self, name: str, **options: Any) -> Run:
        """Have a run of a job entered."""
        return await self.service.commands.start_run(self.plan(name, **options), OPERATOR)

    async def start(self, name: str, **options: Any) -> Run:
        run = await self.queue(name, **options)
        await self.settle()
        return await self.service.queries.run(run.id)

    async def run(self, run_id: str) -> Run:
        return await self.service.queries.run(run_id)

    async def state(self, run_id: str) -> str:
        return (await self.service.queries.run(run_id)).state

    async def runs(self, **wanted: Any) -> list[Run]:
        return await self.service.queries.runs(RunFilter(**wanted))

    async def texts(self, run_id: str) -> str:
        return "\n".join(line.text for line in await self.service.queries.log(run_id))

    async def until_said(self, run_id: str, text: str) -> None:
        """Wait for a line of a run's log."""
        async for event in self.service.queries.watch(run_id):
            if event.line is not None and text in event.line.text:
                return

    async def end(
        self, agent: SimulatedAgent, run_id: str, status: str = "done", **more: Any
    ) -> None:
        await agent.end(run_id, status, **more)
        await self.settle()

    async def backed_up(self, agent: SimulatedAgent, run_id: str, number: int, **more: Any) -> str:
        """The run's backup went well; the id of its snapshot."""
        snapshot = f"{number:064x}"
        await agent.start(run_id)
        summary = {"files": 3, "size_bytes": 100, "stored_bytes": 10, "problems": 0}
        await self.end(agent, run_id, snapshot=snapshot, summary=summary, **more)
        return snapshot
