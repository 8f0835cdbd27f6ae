"""Where a daemon listens: its Address, Port and Addresses."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from strongroom.config.values.forms import Address
from strongroom.errors import UsageError

if TYPE_CHECKING:
    from strongroom.config.model import Resource

_EVERYWHERE = "0.0.0.0"  # noqa: S104 - what Bareos listens on where nothing is said


def listening_addresses(daemon: Resource, everywhere: str = _EVERYWHERE) -> list[tuple[str, int]]:
    """Address and port of each place; `everywhere` stands for all addresses.

    `Addresses` has precedence over `Address`. Raises UsageError for a service that is not known.
    """
    usual = port_number(daemon.value("port"))
    entries = daemon.value("addresses")
    if isinstance(entries, tuple) and entries:
        return [
            (one.host or everywhere, port_number(one.port or usual))
            for one in entries
            if isinstance(one, Address)
        ]
    return [(daemon.text("address") or everywhere, usual)]


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
