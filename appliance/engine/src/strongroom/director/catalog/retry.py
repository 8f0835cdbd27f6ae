"""Retries until the catalog is available, for operations that no caller would repeat.

API callers get the error at once, agents keep their reports and reconnect, the scheduler retries by
itself. What the director does on its own has no such caller: the end of its own jobs, a line of a
script, another attempt, a report. That is retried until it is stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar

from strongroom.base.errors import CatalogUnavailableError

RETRY_SECONDS: Final = 2.0

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)


async def survive(
    call: Callable[_Arguments, Awaitable[_Result]],
    *arguments: _Arguments.args,
    **named: _Arguments.kwargs,
) -> _Result:
    """Call until the catalog is available; returns the result. Other errors are raised.

    A commit whose answer was lost is repeated, so a line of a log may appear twice.
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
