"""Limits on connections that are not authenticated yet, in all and from one address.

Anybody can open those, so they must be bounded. `network_of` defines what counts as one address.
Used from any thread; `_lock` is held briefly.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter


class UnauthenticatedConnections:
    """At most `most` at once, and `most_of_an_address` of those from one address."""

    def __init__(self, most: int, most_of_an_address: int) -> None:
        self._lock = threading.Lock()
        self._of_networks: Counter[str] = Counter()
        self._count = 0
        self.limit(most, most_of_an_address)

    def limit(self, most: int, most_of_an_address: int) -> None:
        """Other limits from now on; present connections stay."""
        self._most = most
        self._most_of_an_address = most_of_an_address

    @property
    def count(self) -> int:
        """How many there are."""
        return self._count

    def enter(self, address: str) -> str:
        """Count one more, which `leave` takes back; or give the reason for refusal."""
        network = network_of(address)
        with self._lock:
            if self._of_networks.get(network, 0) >= self._most_of_an_address:
                return f"{network} has {self._most_of_an_address} handshakes under way already"
            if self._count >= self._most:
                return f"there are {self._most} handshakes under way already"
            self._of_networks[network] += 1
            self._count += 1
            return ""

    def leave(self, address: str) -> None:
        """It is authenticated, or gone."""
        network = network_of(address)
        with self._lock:
            self._count -= 1
            self._of_networks[network] -= 1
            if not self._of_networks[network]:
                del self._of_networks[network]


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 that an IPv6 host owns."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address
