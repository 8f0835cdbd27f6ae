"""The director's API on loopback in a thread of its own, with certificates of a House."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from strongroom.daemons.director.api.server import ApiServer, tls_context

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from kit.connections import House
    from strongroom.daemons.director.api.bodies import Application

# For waiting on what is certain to come; a busy machine takes its time.
PATIENCE_SECONDS = 30.0
Result = TypeVar("Result")


class LoopThread:
    """An event loop that runs in a thread; a context manager."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="loop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do it on the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)


class RunningServer:
    """`make` gives the application, on the loop, and is given the door's way to learn of the end.

    `port`: where it listens. A context manager.
    """

    def __init__(
        self,
        house: House,
        make: Callable[[], Awaitable[tuple[Application, Callable[[], None]]]],
        stop: Callable[[], Awaitable[None]],
    ) -> None:
        self.house = house
        self.thread = LoopThread()
        self.port = 0
        self._make = make
        self._stop = stop
        self._server: ApiServer | None = None

    @property
    def url(self) -> str:
        """Where the API is, as the certificate names it."""
        return f"https://localhost:{self.port}"

    def __enter__(self) -> Self:
        self.thread.__enter__()
        self.thread.run(self._start())
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            self.thread.run(self._end())
        finally:
            self.thread.__exit__(*failure)

    async def _start(self) -> None:
        application, on_stop = await self._make()
        identity = self.house.identity("boss", "director", "localhost", "127.0.0.1")
        context = tls_context(identity)
        self._server = ApiServer(application, context, [("127.0.0.1", 0)], on_stop)
        await self._server.start()
        self.port = self._server.ports[0]

    async def _end(self) -> None:
        assert self._server is not None
        await self._stop()
        await self._server.stop()
