"""Agents without a network: the link of the director in this process, speaking real messages.

Every message goes through its JSON form both ways. An agent keeps what it reports until it is
acknowledged, as a real one does, and forgets it only when it is told to (`lose_journal`).
"""

from __future__ import annotations

from typing import Any

from strongroom.base import clock
from strongroom.director.director import Director
from strongroom.net.control.messages import (
    PROTOCOL_VERSION,
    Acknowledge,
    Cancel,
    Hello,
    RunEnded,
    RunLog,
    RunProgress,
    RunStarted,
    StartBackup,
    StartEstimate,
    StartRestore,
    StartVerify,
    ToAgent,
    Welcome,
    decode_for_agent,
    decode_for_director,
    encode,
)

Order = StartBackup | StartRestore | StartVerify | StartEstimate


class SimulatedLink:
    """The AgentLink; agents plug themselves in."""

    def __init__(self) -> None:
        self.agents: dict[str, SimulatedAgent] = {}

    def is_connected(self, client: str) -> bool:
        return client in self.agents

    async def send(self, client: str, message: ToAgent) -> bool:
        agent = self.agents.get(client)
        if agent is None:
            return False
        if agent.goes_before_next_order and isinstance(message, Order):
            agent.goes_before_next_order = False
            await agent.disconnect()
            return False
        agent.take(decode_for_agent(encode(message)))
        return True

    async def disconnect(self, client: str, reason: str) -> None:
        agent = self.agents.get(client)
        if agent is not None:
            agent.refusals.append(reason)
            await agent.disconnect()


class SimulatedAgent:
    """One agent. It does nothing by itself: a test says what happens."""

    def __init__(self, service: Director, link: SimulatedLink, name: str) -> None:
        self.name = name
        self.orders: dict[str, Order] = {}
        self.given: list[str] = []
        self.cancelled: list[str] = []
        self.welcomes: list[Welcome] = []
        self.refusals: list[str] = []
        self.others: list[ToAgent] = []
        self.goes_before_next_order = False
        self._service = service
        self._link = link
        self._sequence: dict[str, int] = {}
        self._unacknowledged: dict[str, list[RunStarted | RunLog | RunEnded]] = {}

    async def connect(self, service: Director | None = None, *, ahead_seconds: float = 0) -> None:
        """Say Hello, and again what was not acknowledged."""
        self._service = service or self._service
        self._link.agents[self.name] = self
        known = {*self.orders, *self._unacknowledged}
        hello = Hello(
            name=self.name,
            protocol=PROTOCOL_VERSION,
            version="1.0",
            platform="test",
            clock_ns=clock.now_ns() + int(ahead_seconds * 1e9),
            features=("ktls",),
            workers=2,
            runs=tuple(sorted(known)),
        )
        await self._service.agents.on_connected(self.name, hello, "192.0.2.1")
        for waiting in list(self._unacknowledged.values()):
            for message in list(waiting):
                await self._tell(message)

    async def disconnect(self) -> None:
        if self._link.agents.pop(self.name, None) is not None:
            await self._service.agents.on_disconnected(self.name)

    def lose_journal(self) -> None:
        self.orders.clear()
        self._unacknowledged.clear()

    def take(self, message: ToAgent) -> None:
        if isinstance(message, Order):
            self.orders[message.run_id] = message
            self.given.append(message.run_id)
            self._sequence.setdefault(message.run_id, 0)
        elif isinstance(message, Acknowledge):
            waiting = self._unacknowledged.get(message.run_id, [])
            waiting[:] = [one for one in waiting if one.sequence > message.sequence]
            if not waiting:
                self._unacknowledged.pop(message.run_id, None)
        elif isinstance(message, Cancel):
            self.cancelled.append(message.run_id)
        elif isinstance(message, Welcome):
            self.welcomes.append(message)
        else:
            self.others.append(message)

    @property
    def unacknowledged(self) -> list[Any]:
        return [one for waiting in self._unacknowledged.values() for one in waiting]

    def order(self, kind: type | None = None) -> Any:
        """The one order it has (of a kind)."""
        fitting = [one for one in self.orders.values() if kind is None or isinstance(one, kind)]
        assert len(fitting) == 1, fitting
        return fitting[0]

    async def start(self, run_id: str) -> None:
        await self.report(
            RunStarted(run_id=run_id, sequence=self._next(run_id), time_ns=clock.now_ns())
        )

    async def log(self, run_id: str, text: str, level: Any = "info") -> None:
        await self.report(
            RunLog(
                run_id=run_id,
                sequence=self._next(run_id),
                time_ns=clock.now_ns(),
                level=level,
                text=text,
            )
        )

    async def progress(self, run_id: str, **counts: Any) -> None:
        await self._tell(RunProgress(run_id=run_id, **counts))

    async def end(self, run_id: str, status: Any = "done", **fields: Any) -> None:
        self.orders.pop(run_id, None)
        await self.report(
            RunEnded(
                run_id=run_id,
                sequence=self._next(run_id),
                time_ns=clock.now_ns(),
                status=status,
                exit_code=fields.pop("exit_code", 0),
                **fields,
            )
        )

    def number_anew(self, run_id: str) -> None:
        """What it reports next of a run is numbered as if it had reported nothing."""
        self._sequence[run_id] = 0

    def _next(self, run_id: str) -> int:
        self._sequence[run_id] = self._sequence.get(run_id, 0) + 1
        return self._sequence[run_id]

    async def report(self, message: RunStarted | RunLog | RunEnded) -> None:
        """Tell the director, now or when it is connected, until it has acknowledged it."""
        self._unacknowledged.setdefault(message.run_id, []).append(message)
        if self.name in self._link.agents:
            await self._tell(message)

    async def _tell(self, message: Any) -> None:
        await self._service.agents.on_message(self.name, decode_for_director(encode(message)))
