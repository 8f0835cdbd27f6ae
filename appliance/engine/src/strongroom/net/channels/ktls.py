"""Whether the kernel does TLS on a socket (kTLS): queried from the kernel, never assumed.

Two sources. The socket itself: after the handshake OpenSSL hands keys to the kernel, separately for
each direction, and the kernel reports for each whether it has them (getsockopt at level SOL_TLS).
And the counters of /proc/net/tls_stat, which only grow: they must have grown since before the
handshake. Other connections raise them too, so the counters alone prove nothing; but if they can be
read and did not grow, the socket is not trusted either.

This matters because `sendfile` on a TLS socket whose sending is not in the kernel would send plain
text. So `proven` is false in case of doubt.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

# ssl.OP_ENABLE_KTLS exists from Python 3.12; the bit is OpenSSL's and the same in every version.
OP_ENABLE_KTLS = 1 << 3

COUNTERS_FILE = "/proc/self/net/tls_stat"
_PROVING = frozenset(("TlsTxSw", "TlsTxDevice", "TlsRxSw", "TlsRxDevice"))
_TCP_ULP = 31
_SOL_TLS = 282
_TLS_SEND = 1
_TLS_RECEIVE = 2
_CRYPTO_INFO = struct.Struct("=HH")
_TLS_1_3 = 0x0304
_CIPHERS = {51: "AES-128-GCM", 52: "AES-256-GCM", 53: "AES-128-CCM", 54: "CHACHA20-POLY1305"}


class TlsCounters(NamedTuple):
    """How many directions of sockets the kernel (or a network card) has ever done TLS for."""

    send: int
    receive: int


@dataclass(frozen=True, slots=True)
class KtlsProof:
    """The kernel's TLS state of one socket.

    `send`, `receive`: it has the keys of this direction. `counted`: its counters could be read and
    agree. `cipher`: as the kernel names it, "" without kTLS.
    """

    send: bool = False
    receive: bool = False
    counted: bool = False
    cipher: str = ""


def is_available() -> bool:
    """Whether this kernel's TLS module is loaded, and OpenSSL was built to use it."""
    return read_counters() is not None and ssl.OPENSSL_VERSION_INFO >= (3, 0)


def read_counters() -> TlsCounters | None:
    """The counters; None when the kernel has none (no TLS module) or hides them."""
    found = read_statistics()
    if found is None:
        return None
    return TlsCounters(
        send=found["TlsTxSw"] + found["TlsTxDevice"],
        receive=found["TlsRxSw"] + found["TlsRxDevice"],
    )


def read_statistics() -> dict[str, int] | None:
    """All that the kernel counts, 0 where it does not; None as for `read_counters`."""
    try:
        with open(COUNTERS_FILE, encoding="ascii") as file:
            lines = [line.split() for line in file]
        found = {words[0]: int(words[1]) for words in lines if len(words) >= 2}
    except (OSError, ValueError):
        return None
    return defaultdict(int, found) if found.keys() >= _PROVING else None


def prove(connection: socket.socket, before: TlsCounters | None) -> KtlsProof:
    """Ask the kernel about a socket whose handshake is done; `before`: counters before that."""
    if not _has_kernel_protocol(connection):
        return KtlsProof()
    send_cipher = _kernel_cipher(connection, _TLS_SEND)
    receive_cipher = _kernel_cipher(connection, _TLS_RECEIVE)
    send, receive = send_cipher is not None, receive_cipher is not None
    after = read_counters()
    # The module may have been loaded by this very handshake: then nothing was counted before.
    base = before or TlsCounters(0, 0)
    if after is not None:
        send = send and after.send > base.send
        receive = receive and after.receive > base.receive
    cipher = send_cipher or receive_cipher or ""
    return KtlsProof(send, receive, after is not None and (send or receive), cipher)


def _has_kernel_protocol(connection: socket.socket) -> bool:
    try:
        name = connection.getsockopt(socket.IPPROTO_TCP, _TCP_ULP, 16)
    except OSError:
        return False
    return name.rstrip(b"\0") == b"tls"


def _kernel_cipher(connection: socket.socket, direction: int) -> str | None:
    """What the kernel encrypts with in one direction; None when it has no keys for it."""
    try:
        answer = connection.getsockopt(_SOL_TLS, direction, _CRYPTO_INFO.size)
    except OSError:
        return None
    if len(answer) != _CRYPTO_INFO.size:
        return None
    version, cipher = _CRYPTO_INFO.unpack(answer)
    if version != _TLS_1_3:
        return None
    return _CIPHERS.get(cipher, f"cipher {cipher}")
