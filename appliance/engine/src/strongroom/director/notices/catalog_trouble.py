"""The catalog is not available or damaged: no notice can wait in it, so each is sent past it.

What was sent is in a file of the working directory, so that a director that starts again and again
sends one notice, and says that it is over once the catalog is back.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.decoding import decodable
from strongroom.base.errors import CatalogDamagedError, CatalogUnavailableError, NoticeError
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.director.catalog.incidents import (
    Condition,
    Delivered,
    Incident,
    add_ended,
    new_incident,
)
from strongroom.director.catalog.outbox import QueuedNotices
from strongroom.director.context import DirectorContext
from strongroom.director.notices.letters import Announcements
from strongroom.director.notices.targets import place_of
from strongroom.service.notices.letter import Letter, notice_letter
from strongroom.service.notices.senders import send_notice
from strongroom.service.notices.targets import NoticeTarget

Send = Callable[[NoticeTarget, Letter], Awaitable[None]]

# A restart of a database takes seconds, and concerns no one.
PATIENCE_SECONDS: Final = 60.0
FILE: Final = "catalog-trouble.json"
_START_SECONDS: Final = 45.0

_log = logging.getLogger(__name__)


class _Kept(msgspec.Struct):
    since_ns: int = 0
    incident: Incident | None = None
    told: dict[str, Delivered] = {}


class CatalogTrouble:
    """One incident at a time; belongs to the event loop."""

    def __init__(self, working_folder: str) -> None:
        self._file = os.path.join(working_folder, FILE)
        self._kept = _load(self._file)

    async def persists(
        self, configuration: DirectorConfiguration, send: Send, error: CatalogUnavailableError
    ) -> None:
        """The catalog is unavailable: tell every destination once, and once a week."""
        kept, now_ns = self._kept, clock.now_ns()
        before = msgspec.json.encode(kept)
        is_damaged = isinstance(error, CatalogDamagedError)
        if not 0 < kept.since_ns <= now_ns:
            kept.since_ns = now_ns
        is_other = kept.incident is not None and kept.incident.event != _event(is_damaged)
        if is_other and is_damaged:
            kept.incident, kept.told = None, {}
        if is_damaged or now_ns - kept.since_ns >= PATIENCE_SECONDS * SECOND_NS:
            kept.incident = kept.incident or _incident(is_damaged, str(error), kept.since_ns)
            await self._tell(configuration, send, kept.incident)
        if msgspec.json.encode(kept) != before:
            await asyncio.to_thread(_save, self._file, kept)

    async def is_over(self, context: DirectorContext) -> bool:
        """The catalog is available; returns whether messages say so. Raises CatalogError."""
        incident = self._kept.incident
        if not self._kept.since_ns:
            return False
        if incident is not None:
            ended = msgspec.structs.replace(
                incident, ended_ns=clock.now_ns(), told=dict(self._kept.told)
            )
            messages = Announcements(context.configuration).over(ended, QueuedNotices())
            await context.ask(add_ended, ended, messages)
        self._kept = _Kept()
        await asyncio.to_thread(_save, self._file, None)
        return incident is not None

    async def _tell(
        self, configuration: DirectorConfiguration, send: Send, incident: Incident
    ) -> None:
        told = self._kept.told
        announcements = Announcements(configuration)
        lasting = msgspec.structs.replace(incident, told=told)
        due = {one.destination: one for one in announcements.due([lasting], QueuedNotices())}
        for target in announcements.targets(incident):
            if target.key not in due:
                continue
            message = due[target.key]
            letter = notice_letter(message.id, configuration.director.name, [message.content])
            try:
                await send(target, letter)
            except NoticeError as failure:
                _log.warning("the notice of an unavailable catalog waits: %s", failure)
            else:
                told[target.key] = Delivered(clock.now_ns(), place_of(target))


async def tell_at_start(
    configuration: DirectorConfiguration, error: CatalogUnavailableError
) -> None:
    """A director cannot start without its catalog: tell people, as a running one does."""

    async def send(target: NoticeTarget, letter: Letter) -> None:
        await asyncio.to_thread(send_notice, target, letter)

    trouble = CatalogTrouble(configuration.director.working_folder)
    try:
        async with asyncio.timeout(_START_SECONDS):
            await trouble.persists(configuration, send, error)
    except TimeoutError:
        _log.warning("not every destination could be notified of the catalog")


def _event(is_damaged: bool) -> str:
    return "catalog-damaged" if is_damaged else "catalog-unavailable"


def _incident(is_damaged: bool, error: str, since_ns: int) -> Incident:
    what = "damaged" if is_damaged else "not available"
    return new_incident(
        Condition(
            event=_event(is_damaged),
            topic="catalog",
            title=f"the director's catalog is {what}; no job can start",
            detail=error,
            since_ns=since_ns,
        )
    )


def _load(file: str) -> _Kept:
    try:
        with open(file, "rb") as opened:
            return msgspec.json.decode(opened.read(), type=decodable(_Kept))
    except FileNotFoundError:
        return _Kept()
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("%s cannot be read: %s", file, error)
        return _Kept()


def _save(file: str, kept: _Kept | None) -> None:
    try:
        if kept is None:
            os.unlink(file)
            return
        with open(file + ".new", "wb") as opened:
            opened.write(msgspec.json.encode(kept))
        os.replace(file + ".new", file)
    except FileNotFoundError:
        return
    except OSError as error:
        # Its disk may be full; then a restart tells it again.
        _log.warning("%s cannot be written: %s", file, error)
