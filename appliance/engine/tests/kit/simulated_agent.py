"""An agent that speaks the real protocol and does no work: tests say what it reports."""

from __future__ import annotations

import contextlib
from typing import Any, Self, TypeVar

from websockets.sync.client import connect

from kit.director_server import RunningDirector
from strongroom.base import clock
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import (
    OWN_HEADERS,
    Acknowledge,
    Hello,
    Message,
    RunEnded,
    RunLog,
    RunProgress,
    RunStarted,
    Welcome,
    decode_for_agent,
    encode,
)

PATIENCE_SECONDS = 30.0
Wanted = TypeVar("Wanted", bound=Message)


class SimulatedAgent:
    """Connected and welcomed within its `with` block; `version`: of program and platform."""

    def __init__(self, director: RunningDirector, name: str, version: str = "0.0.1") -> None:
        self._version = version
        self._director = director
        self._name = name
        self._sequence = 0

    def __enter__(self) -> Self:
        identity = self._director.identity(self._name, "agent")
        self._open = contextlib.ExitStack()
        connection = connect(
            f"wss://localhost:{self._director.port}/api/v1/agents/connect",
            ssl=client_context(identity),
            additional_headers=OWN_HEADERS,
            compression=None,
            open_timeout=PATIENCE_SECONDS,
        )
        self._socket = self._open.enter_context(connection)
        self.say(
            Hello(
                name=self._name,
                protocol=1,
                version=self._version,
                platform=self._version,
                clock_ns=clock.now_ns(),
            )
        )
        self.expect(Welcome)
        return self

    def __exit__(self, *failure: object) -> None:
        self._open.close()

    def say(self, message: Message) -> None:
        """Send a message."""
        self._socket.send(encode(message).decode())

    def say_raw(self, text: str) -> None:
        """Send whatever."""
        self._socket.send(text)

    def expect(self, kind: type[Wanted]) -> Wanted:
        """The next message of a kind; acknowledgements on the way are passed over."""
        while True:
            said = decode_for_agent(self._socket.recv(PATIENCE_SECONDS))
            if isinstance(said, kind):
                return said
            assert isinstance(said, Acknowledge), said

    def started(self, run_id: str) -> None:
        """Report that a run is under way."""
        self.say(RunStarted(run_id=run_id, sequence=self._next(), time_ns=clock.now_ns()))

    def progress(self, run_id: str, **counts: Any) -> None:
        """Report counts."""
        self.say(RunProgress(run_id=run_id, **counts))

    def log(self, run_id: str, text: str) -> None:
        """Report a line."""
        self.say(
            RunLog(
                run_id=run_id,
                sequence=self._next(),
                time_ns=clock.now_ns(),
                level="info",
                text=text,
            )
        )

    def ended(self, run_id: str, status: str = "done", **fields: Any) -> None:
        """Report the end of a run."""
        self.say(
            RunEnded(
                **{
                    "run_id": run_id,
                    "sequence": self._next(),
                    "time_ns": clock.now_ns(),
                    "status": status,
                    "exit_code": 0,
                    **fields,
                }
            )
        )

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence
