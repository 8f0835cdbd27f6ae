"""Outlasting a catalog that cannot be used now, where nobody would do a thing again otherwise.

People who ask are told at once, agents keep what they report and dial again, the scheduler looks
again by itself. What the director does of its own accord has nobody behind it: the end of a run it
did itself, a line of a script, another attempt, a report. That is done again until it is kept.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from strongroom.errors import CatalogUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

RETRY_SECONDS: Final = 2.0

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


async def outlast(
    call: Callable[_Arguments, Awaitable[_Result]],
    *arguments: _Arguments.args,
    **named: _Arguments.kwargs,
) -> _Result:
    """Call until the catalog takes part; the result. Other errors are the caller's.

    A commit whose answer was lost is made again, so a line of a log may be there twice.
    """
    is_told = False
    while True:
        try:
            result = await call(*arguments, **named)
        except CatalogUnavailableError as error:
            if not is_told:
                _log.error("the director waits for the catalog: %s", error)
                is_told = True
            await asyncio.sleep(RETRY_SECONDS)
        else:
            if is_told:
                _log.info("the catalog is back, and the director goes on")
            return result
