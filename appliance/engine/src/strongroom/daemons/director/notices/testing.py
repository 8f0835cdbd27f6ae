"""Tests of destinations, asked for by an operator: sent at once, past the outbox."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from strongroom import clock
from strongroom.daemons.director.catalog.outbox import note_working
from strongroom.daemons.director.notices.letters import Letter
from strongroom.daemons.director.results.notices import NoticeTest
from strongroom.daemons.director.runs.targets import NoticeTarget, targets_of
from strongroom.errors import NoticeError, UnknownNameError
from strongroom.printable import printable

if TYPE_CHECKING:
    from strongroom.daemons.director.context import DirectorContext
    from strongroom.daemons.director.notices.delivery import Delivery


async def send_tests(
    context: DirectorContext, delivery: Delivery, name: str, who: str
) -> list[NoticeTest]:
    """Send a test to the destinations of a name, "" for all. Raises UnknownNameError."""
    targets = [
        one for one in targets_of(context.configuration).values() if isinstance(one, NoticeTarget)
    ]
    wanted = [one for one in targets if name in ("", one.notify.name, shown_name(one))]
    if not wanted:
        known = ", ".join(sorted({shown_name(one) for one in targets}))
        if not known:
            raise UnknownNameError("no Messages resource has a Notify block")
        raise UnknownNameError(f"there is no destination {name!r}; there are {known}")

    async def test(target: NoticeTarget) -> NoticeTest:
        letter = Letter(
            id=clock.random_bytes(16).hex(),
            director=context.name,
            subject=f"[{printable(context.name)}] test",
            text=f"A test of the notices, asked for by {printable(who, 200)}. Nothing is wrong.\n",
        )
        try:
            await delivery.send_now(target, letter)
        except NoticeError as error:
            return NoticeTest(shown_name(target), str(error))
        await context.in_thread(note_working, context.catalog, target.key)
        return NoticeTest(shown_name(target), "")

    return list(await asyncio.gather(*map(test, wanted)))


def shown_name(target: NoticeTarget) -> str:
    """Messages and Notify block: `Standard/ops`."""
    return target.key.partition(":")[0]
