"""Writes the audit log: what was done and attempted, by whom. For the event loop only.

Of refused attempts of each caller a few a minute are recorded, then how many more there were. What
was done is always recorded one by one; what was refused costs its caller nothing, so that an agent
could fill the catalog with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from strongroom.base.errors import StrongroomError
from strongroom.director.catalog.access import add_audit
from strongroom.director.context import DirectorContext
from strongroom.director.results.access import Actor
from strongroom.net.channels.unauthenticated import network_of
from strongroom.service.log_lines import Throttle

ENTRIES_SECONDS: Final = 60.0


@dataclass(slots=True)
class AuditSubjects:
    """The names of the jobs and clients that an audited action is about."""

    jobs: set[str] = field(default_factory=set)
    clients: set[str] = field(default_factory=set)

    def note(self, job: str, *clients: str) -> None:
        """Add a job and clients."""
        self.jobs.add(job)
        self.clients.update(clients)


class AuditLog:
    """The audit log of one director."""

    def __init__(self, context: DirectorContext) -> None:
        self._context = context
        self._refusals = Throttle[tuple[Actor, str, str]]()
        self._noting: asyncio.TimerHandle | None = None
        self._notes: set[asyncio.Task[None]] = set()

    async def record(
        self,
        who: Actor,
        action: str,
        target: str,
        result: str = "done",
        about: AuditSubjects | None = None,
    ) -> None:
        """Record an action or attempt of an actor that `recording` does not record.

        Of refused attempts a few a minute are recorded, and how many more there were. about: the
        jobs and clients that it concerns; one without is shown only to those who may see
        everything, and to the actor.
        """
        await self.record_left_out()
        if result != "done" and not self._admits(who, action, result):
            if self._noting is None:
                loop = asyncio.get_running_loop()
                self._noting = loop.call_later(ENTRIES_SECONDS, self._note_later)
            return
        about = about or AuditSubjects()
        await self._context.ask(
            add_audit,
            who,
            action,
            target,
            result,
            about.jobs,
            about.clients,
        )

    async def record_of_agent(
        self, client: str, address: str, action: str, target: str, result: str = "done"
    ) -> None:
        """The same for what an agent did, or somebody who called himself one."""
        about = AuditSubjects(clients={client})
        await self.record(Actor(client, "agent", address), action, target, result, about)

    async def record_left_out(self, *, at_end: bool = False) -> None:
        """Record how many refused attempts were left out in minutes that are over, or in all."""
        for (who, action, result), number in self._refusals.over(at_end=at_end):
            text = f"{number} more like these"
            await self._context.ask(add_audit, who, action, text, result)

    @asynccontextmanager
    async def recording(self, who: Actor, action: str, target: str) -> AsyncIterator[AuditSubjects]:
        """Record an action with its result, whether it succeeds or not."""
        about = AuditSubjects()
        try:
            yield about
        except StrongroomError as error:
            await self.record(who, action, target, error.error_id, about)
            raise
        await self.record(who, action, target, about=about)

    def _admits(self, who: Actor, action: str, result: str) -> bool:
        key = (who.name, who.role, network_of(who.address), action, result)
        nobody = Actor("", "")
        return self._refusals.admit(key, (who, action, result), (nobody, action, result))

    def _note_later(self) -> None:
        self._noting = None
        task = asyncio.create_task(self.record_left_out())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)
