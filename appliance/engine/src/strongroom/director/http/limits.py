"""What one peer may cost: connections, failed attempts, and the size and time of a body.

At most MOST_HANDSHAKES TLS handshakes are active at once, and MOST_HANDSHAKES_OF_AN_ADDRESS from
one address. Without a certificate an address has at most MOST_OF_AN_ADDRESS connections; an
agent has at most MOST_OF_AN_AGENT, another certified peer MOST_OF_A_NAME, by role and name,
WebSockets included. Connections above a limit are closed at once.

Failed attempts (wrong tokens and enrolment secrets, refused names) are counted by address within a
sliding window; IPv6 addresses by their /64, as a host has 2^64 of those. That table is bounded:
when it is full the address that failed longest ago is removed, so a flood of addresses costs no
memory.

All of it is used from the event loop only.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Final, NamedTuple

from strongroom.base import clock
from strongroom.base.errors import PeerRefusedError, TooManyAttemptsError
from strongroom.net.channels.unauthenticated import UnauthenticatedConnections, network_of
from strongroom.net.identities.peer import Peer, parse_certificate, peer_of
from strongroom.service.log_lines import LimitedLines

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

MOST_HANDSHAKES: Final = 1024
MOST_HANDSHAKES_OF_AN_ADDRESS: Final = 256
MOST_OF_AN_ADDRESS = 64
MOST_OF_AN_AGENT = 16
MOST_OF_A_NAME = 256

_log = logging.getLogger(__name__)
_nameless = LimitedLines(_log, "{count} more certificates name no peer")


class CertifiedPeer(NamedTuple):
    """The peer of a connection.

    `expires_at`: the end of the certificate, unix time in seconds. `certificate`: the whole, DER.
    """

    peer: Peer
    expires_at: float
    certificate: bytes


class ConnectionLimits:
    """Counts connections of one server. For its event loop only."""

    def __init__(self) -> None:
        self.handshakes = UnauthenticatedConnections(MOST_HANDSHAKES, MOST_HANDSHAKES_OF_AN_ADDRESS)
        self.refused_handshakes = 0
        self._strangers_log = LimitedLines(_log)
        self._too_many_log = LimitedLines(_log)
        # Address, or role and name of a certificate -> number of connections.
        self._open: Counter[str] = Counter()

    def begin_handshake(self, address: str) -> bool:
        """Count a handshake until `end_handshake`; False when there are too many."""
        if reason := self.handshakes.enter(address):
            self.refused_handshakes += 1
            self._strangers_log.warn("%s: refused: %s", address, reason)
            return False
        return True

    def end_handshake(self, address: str) -> None:
        """The handshake is done, or the connection is closed."""
        self.handshakes.leave(address)

    def enter(self, certified: CertifiedPeer | None, address: str) -> bool:
        """Count a connection after its handshake until `leave`; False when there are too many."""
        if certified is None:
            most = MOST_OF_AN_ADDRESS
        else:
            most = MOST_OF_AN_AGENT if certified.peer.role == "agent" else MOST_OF_A_NAME
        counted = _counted_as(certified, address)
        if self._open[counted] >= most:
            self._too_many_log.warn("%s has %d connections already", counted, most)
            return False
        self._open[counted] += 1
        return True

    def leave(self, certified: CertifiedPeer | None, address: str) -> None:
        """A connection that was counted by `enter` is closed."""
        counted = _counted_as(certified, address)
        self._open[counted] -= 1
        if not self._open[counted]:
            del self._open[counted]

    def open_connections(self) -> Iterator[tuple[str, int]]:
        """Number of connections by address, or by role and name of a certificate."""
        yield from self._open.items()

    def flush(self) -> None:
        """Log how many lines were suppressed; call it now and then."""
        self._strangers_log.flush()
        self._too_many_log.flush()


def _counted_as(certified: CertifiedPeer | None, address: str) -> str:
    return network_of(address) if certified is None else str(certified.peer)


def certified_peer(certificate: bytes | None) -> CertifiedPeer | None:
    """The peer named in the certificate (DER) of a TLS connection; None without one."""
    if not certificate:
        return None
    try:
        # TLS has checked that our authority issued it and that it is valid now.
        parsed = parse_certificate(certificate)
        expires_at = parsed.not_valid_after_utc.timestamp()
        return CertifiedPeer(peer_of(parsed), expires_at, certificate)
    except PeerRefusedError as error:
        _nameless.warn("a certificate names no peer: %s", error)
        return None


MOST_ADDRESSES: Final = 4096


class Attempts:
    """Allows `limit` failures an address in `window_seconds`; remembers `most_addresses`."""

    def __init__(
        self,
        limit: int,
        window_seconds: float,
        elapsed: Callable[[], float] = clock.elapsed_seconds,
        most_addresses: int = MOST_ADDRESSES,
    ) -> None:
        self._limit = limit
        self._window_seconds = window_seconds
        self._elapsed = elapsed
        self._most_addresses = most_addresses
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise TooManyAttemptsError when `address` has failed too often."""
        times = self._current(network_of(address))
        if times and len(times) >= self._limit:
            wait_seconds = int(times[0] + self._window_seconds - self._elapsed()) + 1
            raise TooManyAttemptsError(
                f"too many failed attempts from {address}; wait {wait_seconds} s"
            )

    def failed(self, address: str) -> None:
        """Count a failure."""
        network = network_of(address)
        times = self._current(network)
        if times is None:
            times = deque(maxlen=self._limit)
            self._failures[network] = times
        times.append(self._elapsed())
        self._failures.move_to_end(network)
        while len(self._failures) > self._most_addresses:
            self._failures.popitem(last=False)

    def _current(self, network: str) -> deque[float] | None:
        times = self._failures.get(network)
        if times is None:
            return None
        oldest = self._elapsed() - self._window_seconds
        while times and times[0] <= oldest:
            times.popleft()
        if not times:
            del self._failures[network]
            return None
        return times


LARGEST_BODY_BYTES = 1 << 20
BODY_TIMEOUT_SECONDS = 30.0


class BoundedBodies:
    """ASGI middleware: refuses bodies above LARGEST_BODY_BYTES, and those that arrive too late.

    Reads the whole body before it forwards the request: none is large, and a handler then never
    waits for a slow peer.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            body = await asyncio.wait_for(_whole_body(receive), BODY_TIMEOUT_SECONDS)
        except TimeoutError:
            await refuse(send, 408, "the request's body did not arrive in time")
            return
        if body is None:
            return
        if len(body) > LARGEST_BODY_BYTES:
            await refuse(send, 413, f"a body has at most {LARGEST_BODY_BYTES} bytes")
            return
        given = False

        async def receive_again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._application(scope, receive_again, send)


async def _whole_body(receive: Receive) -> bytes | None:
    """The body, truncated soon after it exceeds the limit; None when the peer disconnected."""
    body = bytearray()
    while len(body) <= LARGEST_BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return bytes(body)


async def refuse(send: Send, status: int, reason: str) -> None:
    """Answer with an error that the caller caused, and close the connection."""
    body = json.dumps({"error_id": "usage", "message": reason}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
