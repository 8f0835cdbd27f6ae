"""How fast the way to a server of iperf3 is: what the network carries without TLS and without us.

The server is the user's own (`iperf3 -s`); it serves one client at a time. A direction is named as
in measure.network: "send" is from this machine.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from strongroom.base.errors import UsageError
from strongroom.base.printable import printable
from strongroom.cli.measure.profile import Iperf3Profile, Transfer

USUAL_PORT: Final = 5201
STREAMS: Final = (1, 4, 16)

# Between two measurements the server listens anew, and for a moment it does not.
_NOT_NOW: Final = ("Connection refused", "busy")
_PAUSES_SECONDS: Final = (0.2, 0.5, 1.0)

_CONNECT_MILLISECONDS: Final = 10_000
# Beside the time of the measurement itself.
_PATIENCE_SECONDS: Final = 60.0


class Iperf3Server(NamedTuple):
    """Where a server of iperf3 listens; `text`: as the user wrote it, escaped."""

    text: str
    host: str
    port: int


def parse_server(text: str) -> Iperf3Server:
    """Parse HOST or HOST:PORT; an IPv6 address is in brackets. Raises UsageError."""
    shown = printable(text)
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port or USUAL_PORT
    except ValueError as error:
        raise UsageError(f"--iperf3 {shown}: {error}") from error
    # A word that begins with a dash would be an option.
    if parts.netloc != text or not parts.hostname or parts.username or text.startswith("-"):
        raise UsageError(f"--iperf3 {shown}: a server of iperf3 is named as HOST or HOST:PORT")
    return Iperf3Server(shown, parts.hostname, port)


def require_iperf3() -> None:
    """Raise UsageError when iperf3 is not installed."""
    try:
        subprocess.run(["iperf3", "--version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(
            "iperf3 is not installed, and --iperf3 runs it: `apt-get install iperf3`, or leave the "
            "option out"
        ) from error


def measure_iperf3(
    server: Iperf3Server, seconds: float, tell: Callable[[str], None]
) -> Iperf3Profile:
    """Measure both directions with some numbers of streams, each for `seconds`, at least one.

    Raises UsageError with what iperf3 says when it fails.
    """
    transfers = []
    resent: list[int | None] = []
    directions: tuple[Literal["send", "receive"], ...] = ("send", "receive")
    for direction in directions:
        for streams in STREAMS:
            tell(f"iperf3: {direction}, {streams} streams at once")
            end = _run(server, direction, streams, max(1, round(seconds)))
            rate = end["sum_received"]["bits_per_second"] / 8
            transfers.append(Transfer(direction, streams, rate))
            resent.append(end["sum_sent"].get("retransmits"))
    known = [one for one in resent if one is not None]
    retransmitted = sum(known) if len(known) == len(resent) else None
    return Iperf3Profile(server.text, retransmitted, tuple(transfers))


def _run(
    server: Iperf3Server, direction: Literal["send", "receive"], streams: int, seconds: int
) -> dict[str, Any]:
    """The part `end` of what the client of iperf3 writes. Raises UsageError."""
    for pause_seconds in _PAUSES_SECONDS:
        end, message = _ask(server, direction, streams, seconds)
        if end is not None:
            return end
        if not any(words in message for words in _NOT_NOW):
            break
        time.sleep(pause_seconds)
    raise UsageError(
        f"iperf3 with {server.text}, port {server.port}: {printable(message)}; is `iperf3 -s` "
        "running there, and not busy?"
    )


def _ask(
    server: Iperf3Server, direction: Literal["send", "receive"], streams: int, seconds: int
) -> tuple[dict[str, Any] | None, str]:
    """What one run has found, or what iperf3 says against it."""
    command = [
        "iperf3",
        f"--client={server.host}",
        f"--port={server.port}",
        f"--connect-timeout={_CONNECT_MILLISECONDS}",
        f"--time={seconds}",
        f"--parallel={streams}",
        "--json",
        *(["--reverse"] if direction == "receive" else []),
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=seconds + _PATIENCE_SECONDS,
        )
        found = json.loads(done.stdout)
        if "error" in found:
            return None, str(found["error"])
        return found["end"], ""
    except subprocess.TimeoutExpired:
        return None, "it does not end"
    except (ValueError, KeyError):
        message = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        return None, message or "it printed nothing"
