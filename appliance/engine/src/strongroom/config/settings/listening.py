"""Where a daemon listens: its Address, Port and Addresses."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from strongroom.config.values.forms import Address
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.model import Resource

# Of an entry of Addresses that says a family alone.
_ALL_OF_FAMILY: Final = {"ipv4": "0.0.0.0", "ipv6": "::"}  # noqa: S104 - asked for by name


def listening_addresses(daemon: Resource) -> list[tuple[str, int]]:
    """Address and port of each place; "" is every address, of IPv4 and IPv6.

    `Addresses` has precedence over `Address`. Raises UsageError for a service that is not known.
    """
    usual = port_number(daemon.value("port"))
    entries = daemon.value("addresses")
    if isinstance(entries, tuple) and entries:
        return [
            (one.host or _ALL_OF_FAMILY.get(one.family, ""), port_number(one.port or usual))
            for one in entries
            if isinstance(one, Address)
        ]
    return [(daemon.text("address"), usual)]


def port_number(port: object) -> int:
    """A port as a number; a name is that of a TCP service. Raises UsageError."""
    if isinstance(port, int):
        return port
    text = str(port)
    if text.isascii() and text.isdecimal():
        return int(text[:9])
    try:
        return socket.getservbyname(text, "tcp")
    except OSError as error:
        raise UsageError(f"there is no TCP service {text!r}; write its port") from error
