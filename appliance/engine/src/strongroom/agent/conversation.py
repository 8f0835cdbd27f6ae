"""The messages of one connection with a director: Hello, Welcome, then both sides send.

Reports are sent in order, from the first that the director has not acknowledged; those sent over an
older connection may arrive twice, and the director recognizes them by number. At most WINDOW
reports of a run are sent ahead of their acknowledgement, so a long log never fills the connection.
"""

from __future__ import annotations

import asyncio
import functools
import os
import platform
from typing import Final, Protocol

import msgspec
from blake3 import blake3

import strongroom
from strongroom.agent.supervisor import Supervisor
from strongroom.base import clock
from strongroom.base.errors import PeerRefusedError
from strongroom.net.control.messages import (
    PROTOCOL_VERSION,
    Acknowledge,
    Cancel,
    Hello,
    SetBandwidth,
    StartBackup,
    StartEstimate,
    StartRestore,
    StartVerify,
    ToAgent,
    Welcome,
    decode_for_agent,
    encode,
)

WINDOW: Final = 256
WELCOME_SECONDS: Final = 30.0
_CLOSE_BAD_MESSAGE: Final = 1003
_ULP: Final = "/proc/sys/net/ipv4/tcp_available_ulp"


class MessageConnection(Protocol):
    """The methods that we use of a WebSocket of the websockets library, client or server."""

    async def send(self, message: str) -> None:
        """Send a text."""

    async def recv(self) -> str | bytes:
        """The next message; raises ConnectionClosed."""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close it."""


class Conversation:
    """One connection with one director, until it ends."""

    def __init__(
        self, connection: MessageConnection, director: str, supervisor: Supervisor, name: str
    ) -> None:
        self._connection = connection
        self._director = director
        self._supervisor = supervisor
        self._name = name
        self._wake = asyncio.Event()
        self._sent: dict[str, int] = {}
        self._answers: list[bytes] = []
        self.is_welcome = False

    def news(self) -> None:
        """There may be something to send."""
        self._wake.set()

    async def hold(self) -> None:
        """Until the connection ends. Raises ConnectionClosed, PeerRefusedError, TimeoutError."""
        await self._send(encode(self._hello()))
        async with asyncio.timeout(WELCOME_SECONDS):
            welcome = await self._receive()
        if not isinstance(welcome, Welcome):
            raise PeerRefusedError("the director's first message is not Welcome")
        if welcome.director != self._director or welcome.protocol != PROTOCOL_VERSION:
            raise PeerRefusedError(
                f"expected Director {self._director}, protocol {PROTOCOL_VERSION}; the peer "
                f"is {welcome.director}, protocol {welcome.protocol}"
            )
        self.is_welcome = True
        self._supervisor.allow(self._director, welcome.maximum_concurrent_runs)
        self._wake.set()
        sender = asyncio.create_task(self._send_news(), name=f"reports to {self._director}")
        try:
            while True:
                self._obey(await self._receive())
        finally:
            sender.cancel()
            # Not `await sender`: that would swallow our own cancellation with the sender's.
            await asyncio.wait((sender,))
            if not sender.cancelled():
                # Its failure is that of the connection, which is raised here anyway.
                sender.exception()

    def _hello(self) -> Hello:
        return Hello(
            name=self._name,
            protocol=PROTOCOL_VERSION,
            version=strongroom.__version__,
            platform=platform.platform(),
            clock_ns=clock.now_ns(),
            boot_id=clock.boot_id(),
            features=_features(),
            workers=self._supervisor.settings.processes,
            runs=tuple(self._supervisor.runs_of(self._director)),
            instance=_instance(),
            machine=machine_digest(),
        )

    async def _receive(self) -> ToAgent:
        try:
            return decode_for_agent(await self._connection.recv())
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            await self._refuse(f"invalid message: {error}")
            raise PeerRefusedError(f"invalid message from the director: {error}") from error

    async def _refuse(self, reason: str) -> None:
        # The protocol allows 123 bytes for the reason.
        await self._connection.close(
            _CLOSE_BAD_MESSAGE, reason.encode()[:120].decode("utf-8", "ignore")
        )

    def _obey(self, message: ToAgent) -> None:
        director, supervisor = self._director, self._supervisor
        answer = None
        if isinstance(message, StartBackup | StartRestore | StartVerify | StartEstimate):
            try:
                answer = supervisor.accept(director, message)
            except ValueError as error:
                raise PeerRefusedError(f"invalid message from the director: {error}") from error
        elif isinstance(message, Cancel):
            answer = supervisor.cancel(director, message.run_id)
        elif isinstance(message, SetBandwidth):
            supervisor.set_bandwidth(director, message.run_id, message.maximum_bytes_per_second)
        elif isinstance(message, Acknowledge):
            supervisor.acknowledge(director, message.run_id, message.sequence)
            self._wake.set()
        if answer is not None:
            self._answers.append(encode(answer))
            self._wake.set()

    async def _send_news(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._answers:
                await self._send(self._answers.pop(0))
            known = self._supervisor.runs_of(self._director)
            for run_id in known:
                await self._send_run(run_id)
            for run_id in self._sent.keys() - known:
                del self._sent[run_id]

    async def _send_run(self, run_id: str) -> None:
        while (journal := self._supervisor.journal(run_id)) is not None:
            following = max(self._sent.get(run_id, 0), journal.acknowledged) + 1
            if following > min(journal.last_sequence, journal.acknowledged + WINDOW):
                break
            self._sent[run_id] = following
            await self._send(journal.report(following))
        progress = self._supervisor.take_progress(run_id)
        if progress is not None:
            await self._send(encode(progress))

    async def _send(self, data: bytes) -> None:
        await self._connection.send(data.decode("utf-8"))


@functools.cache
def _instance() -> str:
    """Of this process alone, so that a copy of its machine says another."""
    return clock.random_bytes(8).hex()


def machine_digest() -> str:
    """A digest of the id of the installed system, which itself is no one's business."""
    machine_id = _first_line("/etc/machine-id")
    return blake3(b"strongroom agent " + machine_id.encode()).hexdigest(8) if machine_id else ""


def _features() -> tuple[str, ...]:
    found = ["backup", "restore", "verify", "estimate", "acl", "xattr"]
    if hasattr(os, "unshare") or os.path.exists("/proc/self/ns/mnt"):
        found.append("unshare")
    if "tls" in _first_line(_ULP).split():
        found.append("ktls")
    return tuple(found)


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""
