"""The catalog is away: this cannot wait in it, so it is sent from memory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom import clock
from strongroom.daemons.director.catalog.incidents import (
    Condition,
    Delivered,
    add_ended,
    new_incident,
)
from strongroom.daemons.director.catalog.outbox import QueuedNotices
from strongroom.daemons.director.notices.announcements import Announcements
from strongroom.daemons.director.notices.letters import notice_letter
from strongroom.daemons.director.runs.targets import place_of
from strongroom.errors import NoticeError

if TYPE_CHECKING:
    from strongroom.daemons.director.catalog.incidents import Incident
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.notices.delivery import Delivery

# A restart of a database takes seconds, and is nobody's business.
PATIENCE_SECONDS: Final = 60.0

_log = logging.getLogger(__name__)


class CatalogTrouble:
    """One incident at a time; belongs to the event loop."""

    def __init__(self, context: DirectorContext) -> None:
        self._context = context
        self._since: float | None = None
        self._since_ns = 0
        self._incident: Incident | None = None
        self._told: dict[str, Delivered] = {}

    async def persists(self, delivery: Delivery, error: str) -> None:
        """The catalog is unavailable: tell every destination once."""
        now = clock.elapsed_seconds()
        if self._since is None:
            self._since, self._since_ns = now, clock.now_ns()
        if now - self._since < PATIENCE_SECONDS:
            return
        if self._incident is None:
            self._incident = new_incident(
                Condition(
                    event="catalog-unavailable",
                    topic="catalog",
                    title="the director's catalog is not available; no job can start",
                    detail=error,
                    remedy="see whether the database runs and its disk has space",
                    since_ns=self._since_ns,
                )
            )
        announcements = Announcements(self._context.configuration)
        lasting = msgspec.structs.replace(self._incident, told=self._told)
        due = {one.destination: one for one in announcements.due([lasting], QueuedNotices())}
        for target in announcements.targets(self._incident):
            if target.key not in due:
                continue
            message = due[target.key]
            letter = notice_letter(message.id, self._context.name, [message.content])
            try:
                await delivery.send_now(target, letter)
            except NoticeError as failure:
                _log.warning("the notice that the catalog is away waits: %s", failure)
            else:
                self._told[target.key] = Delivered(clock.now_ns(), place_of(target))

    async def is_over(self) -> bool:
        """The catalog is available; returns whether that is told. Raises CatalogError."""
        self._since = None
        if self._incident is None:
            return False
        ended = msgspec.structs.replace(
            self._incident, ended_ns=clock.now_ns(), told=dict(self._told)
        )
        messages = Announcements(self._context.configuration).over(ended, QueuedNotices())
        await self._context.in_thread(add_ended, self._context.catalog, ended, messages)
        self._incident = None
        self._told.clear()
        return True
