"""Server-sent events: an iterator of the service as a stream that notices when either side ends."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from strongroom.errors import StrongroomError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from strongroom.daemons.director.api.answers import RunEvent
    from strongroom.daemons.director.results import RunEvent as ServiceEvent

SIGN_OF_LIFE_SECONDS = 15.0

_log = logging.getLogger(__name__)


async def event_stream(
    events: AsyncIterator[ServiceEvent],
    answer: Callable[[ServiceEvent], RunEvent],
    closing: asyncio.Event,
) -> AsyncIterator[str]:
    """The text of the stream; ends with `events`, and early when `closing` is set.

    While nothing happens a comment every SIGN_OF_LIFE_SECONDS keeps proxies from hanging up.
    """
    stop = asyncio.ensure_future(closing.wait())
    coming: asyncio.Future[ServiceEvent] | None = None
    try:
        while not stop.done():
            if coming is None:
                coming = asyncio.ensure_future(anext(events))
            await asyncio.wait(
                (coming, stop), timeout=SIGN_OF_LIFE_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if coming.done():
                event = coming.result()
                coming = None
                yield _written(answer(event))
            elif not stop.done():
                yield ": waiting\n\n"
    except StopAsyncIteration:
        yield "event: end\ndata: {}\n\n"
    except StrongroomError as error:
        _log.warning("a stream of events ends: %s", error)
    finally:
        stop.cancel()
        if coming is not None:
            coming.cancel()
            await asyncio.wait((coming,))
        if (close := getattr(events, "aclose", None)) is not None:
            await close()


def _written(event: RunEvent) -> str:
    number = f"id: {event.line.sequence}\n" if event.line is not None else ""
    absent = {name for name in ("run", "line") if getattr(event, name) is None}
    return f"event: {event.type}\n{number}data: {event.model_dump_json(exclude=absent)}\n\n"
