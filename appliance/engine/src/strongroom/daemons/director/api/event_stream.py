"""Server-sent events: an iterator of the queries as a stream that notices when either side ends.

The reader's rights are checked again every RECHECK_SECONDS: a stream ends when its token expires,
its certificate is revoked, or the rights it was opened with are withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from strongroom import clock
from strongroom.daemons.director.api.models.responses import StreamDenied
from strongroom.daemons.director.results.runs import RunEvent
from strongroom.errors import NotAuthenticatedError, NotPermittedError, StrongroomError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


SIGN_OF_LIFE_SECONDS = 15.0
RECHECK_SECONDS = 2.0

_log = logging.getLogger(__name__)
_EVENT = TypeAdapter(RunEvent)


async def event_stream(
    events: AsyncIterator[RunEvent],
    closing: asyncio.Event,
    still_allowed: Callable[[], Awaitable[None]],
) -> AsyncIterator[str]:
    """The text of the stream; ends with `events`, and early when `closing` is set.

    `still_allowed`: raises NotAuthenticatedError or NotPermittedError when the reader lost its
    rights; the last event, `denied`, says so. Without events a comment every
    SIGN_OF_LIFE_SECONDS keeps proxies from closing the connection.
    """
    stop = asyncio.ensure_future(closing.wait())
    coming: asyncio.Future[RunEvent] | None = None
    said_seconds = checked_seconds = clock.elapsed_seconds()
    try:
        while not stop.done():
            if coming is None:
                coming = asyncio.ensure_future(anext(events))
            await asyncio.wait(
                (coming, stop), timeout=RECHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            now_seconds = clock.elapsed_seconds()
            if now_seconds - checked_seconds >= RECHECK_SECONDS:
                await still_allowed()
                checked_seconds = now_seconds
            if coming.done():
                event = coming.result()
                coming = None
                said_seconds = now_seconds
                yield _written(event)
            elif not stop.done() and now_seconds - said_seconds >= SIGN_OF_LIFE_SECONDS:
                said_seconds = now_seconds
                yield ": waiting\n\n"
    except StopAsyncIteration:
        yield "event: end\ndata: {}\n\n"
    except (NotAuthenticatedError, NotPermittedError) as error:
        denied = StreamDenied(type="denied", error_id=error.error_id, message=str(error))
        yield f"event: denied\ndata: {denied.model_dump_json()}\n\n"
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
    data = _EVENT.dump_json(event, by_alias=True, exclude=absent).decode("utf-8")
    return f"event: {event.kind}\n{number}data: {data}\n\n"
