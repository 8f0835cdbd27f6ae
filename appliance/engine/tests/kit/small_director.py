"""A small real director: a WebSocket server with a certificate that notes all it is told.

It runs an event loop in its own thread. `_changed` guards what was heard; everything else
belongs to the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from strongroom.base import clock
from strongroom.net.channels.tls_contexts import client_context, server_context
from strongroom.net.control.messages import (
    LARGEST_MESSAGE_BYTES,
    PROTOCOL_VERSION,
    Acknowledge,
    Hello,
    Message,
    RunEnded,
    RunLog,
    RunProgress,
    RunStarted,
    ToDirector,
    Welcome,
    decode_for_director,
    encode,
    encode_for_agent,
)
from strongroom.net.identities.identity import Identity

PATIENCE_SECONDS = 30.0
T = TypeVar("T")


class SmallDirector:
    """Listens at `port` (or dials an agent); acknowledges what it hears unless told otherwise."""

    def __init__(self, identity: Identity, name: str, *, port: int = 0) -> None:
        self.name = name
        self.acknowledges = True
        self.maximum_concurrent_runs = 0
        self.heard: list[ToDirector] = []
        self.connections = 0
        self.is_connected = False
        self._identity = identity
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._connection: Any = None
        self._server: Any = None
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = self._do(self._listen(port))

    def send(self, message: Message) -> None:
        """Tell the agent something."""
        self.send_raw(encode_for_agent(message).decode())

    def send_raw(self, text: str) -> None:
        """Tell the agent whatever."""
        self._do(self._send(text))

    def drop(self) -> None:
        """Cut the connection without a word."""
        self._do(self._drop())

    def close(self) -> None:
        """Stop listening and cut the connection; the port is free afterwards."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    def dial(self, port: int) -> None:
        """Dial an agent that listens."""
        self._do(self._dial(port))

    def await_connection(self, number: int = 1) -> None:
        """Until an agent is connected, for the `number`th time."""
        self.wait(lambda: True if self.is_connected and self.connections >= number else None)

    def wait(self, find: Callable[[], T | None], seconds: float = PATIENCE_SECONDS) -> T:
        """Until `find` gives something; it is asked whenever something changed."""
        with self._changed:
            found: list[T] = []

            def look() -> bool:
                value = find()
                if value is not None:
                    found.append(value)
                return value is not None

            assert self._changed.wait_for(look, seconds), self.heard
            return found[-1]

    def ended(self, run_id: str) -> RunEnded:
        """How a run ended; waits for it."""
        return self.wait(lambda: next(iter(self._of(RunEnded, run_id)), None))

    def started(self, run_id: str) -> RunStarted:
        """That a run is under way; waits for it."""
        return self.wait(lambda: next(iter(self._of(RunStarted, run_id)), None))

    def progress(self, run_id: str, least_stored_bytes: int = 1 << 10) -> RunProgress:
        """Progress of a backup that has stored so much; waits for it."""
        return self.wait(
            lambda: next(
                (
                    one
                    for one in self._of(RunProgress, run_id)
                    if one.stored_bytes >= least_stored_bytes
                ),
                None,
            )
        )

    def log(self, run_id: str) -> list[str]:
        """The lines of a run's log so far, each once, in order."""
        with self._changed:
            lines = {one.sequence: one.text for one in self._of(RunLog, run_id)}
        return [lines[sequence] for sequence in sorted(lines)]

    def await_log(self, run_id: str, part: str) -> str:
        """Until the log of a run has a line with `part`."""
        return self.wait(
            lambda: next((one.text for one in self._of(RunLog, run_id) if part in one.text), None)
        )

    def sequences(self, run_id: str) -> list[int]:
        """The numbers of all reports of a run, in the order they were heard."""
        with self._changed:
            return [
                one.sequence
                for one in self.heard
                if not isinstance(one, Hello | RunProgress) and one.run_id == run_id
            ]

    def hellos(self) -> list[Hello]:
        """What agents said first."""
        with self._changed:
            return [one for one in self.heard if isinstance(one, Hello)]

    def acknowledge_all(self, run_id: str) -> None:
        """Acknowledge all of a run."""
        self.send(Acknowledge(run_id=run_id, sequence=max(self.sequences(run_id))))

    def _of(self, kind: type[T], run_id: str) -> list[T]:
        return [
            one
            for one in self.heard
            if isinstance(one, kind) and getattr(one, "run_id", None) == run_id
        ]

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(PATIENCE_SECONDS)

    async def _listen(self, port: int) -> int:
        self._server = await serve(
            self._answer,
            "127.0.0.1",
            port,
            ssl=server_context(self._identity),
            max_size=LARGEST_MESSAGE_BYTES,
            close_timeout=1,
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def _dial(self, port: int) -> None:
        connection = await connect(
            f"wss://127.0.0.1:{port}/",
            ssl=client_context(self._identity, check_hostname=False),
            max_size=LARGEST_MESSAGE_BYTES,
            proxy=None,
            close_timeout=1,
        )
        self._listening = asyncio.create_task(self._answer(connection))

    async def _answer(self, connection: Any) -> None:
        self._connection = connection
        try:
            self._note(decode_for_director(await connection.recv()))
            await self._send(
                encode(
                    Welcome(
                        director=self.name,
                        protocol=PROTOCOL_VERSION,
                        server_time_ns=clock.now_ns(),
                        maximum_concurrent_runs=self.maximum_concurrent_runs,
                    )
                ).decode()
            )
            with self._changed:
                self.connections += 1
                self.is_connected = True
                self._changed.notify_all()
            async for data in connection:
                message = decode_for_director(data)
                self._note(message)
                if self.acknowledges and not isinstance(message, Hello | RunProgress):
                    await self._send(
                        encode(
                            Acknowledge(run_id=message.run_id, sequence=message.sequence)
                        ).decode()
                    )
        except ConnectionClosed:
            pass
        finally:
            with self._changed:
                self.is_connected = False
                self._changed.notify_all()

    def _note(self, message: ToDirector) -> None:
        with self._changed:
            self.heard.append(message)
            self._changed.notify_all()

    async def _send(self, text: str) -> None:
        await self._connection.send(text)

    async def _drop(self) -> None:
        self._connection.transport.abort()

    async def _close(self) -> None:
        self._server.close(close_connections=False)
        if self._connection is not None:
            with suppress(ConnectionClosed):
                self._connection.transport.abort()
        await self._server.wait_closed()
