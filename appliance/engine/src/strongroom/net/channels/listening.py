"""TCP sockets of a daemon that listens, on IPv4 and IPv6."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

from strongroom.base.errors import OperatingSystemError

# What a machine answers that has no IPv6, or no IPv4.
_NO_FAMILY: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
_ALL_IPV4: Final = "0.0.0.0"  # noqa: S104 - compared, and bound where everything is asked for
_ALL: Final = "::"


class _Candidate(NamedTuple):
    family: int
    host: str
    # Flow and scope, of IPv6.
    rest: tuple[int, ...] = ()
    # Whether an IPv6 socket takes connections over IPv4 too.
    takes_both: bool = False


def listen(
    places: Sequence[tuple[str, int]], backlog: int | None, hint: str = ""
) -> list[socket.socket]:
    """Sockets at all places, each an address or name ("" is every address) and a port.

    "::" includes IPv4, unless 0.0.0.0 has a place with the same port. A name has a socket for
    each of its addresses that this machine has. backlog: None only binds. Raises
    OperatingSystemError for a place that is not available; `hint` is where to fix it.
    """
    bound: list[socket.socket] = []
    ports_of_ipv4 = {port for host, port in places if host == _ALL_IPV4}
    try:
        for host, port in places:
            try:
                bound += _bound(host, port, backlog, port in ports_of_ipv4)
            except OSError as error:
                reason = error.strerror or os.strerror(error.errno or 0)
                raise OperatingSystemError(
                    f"cannot listen on {shown_place(host, port)}: {reason}{hint}"
                ) from error
    except BaseException:
        for one in bound:
            one.close()
        raise
    return bound


def _bound(host: str, port: int, backlog: int | None, is_ipv4_taken: bool) -> list[socket.socket]:
    bound: list[socket.socket] = []
    failure = OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
    for one in _candidates(host, is_ipv4_taken):
        try:
            bound.append(_bind(one, port, backlog))
        except OSError as error:
            failure = error
            if error.errno not in _NO_FAMILY:
                for earlier in bound:
                    earlier.close()
                raise
        else:
            if not host:
                break
    if not bound:
        raise failure
    return bound


def _candidates(host: str, is_ipv4_taken: bool) -> list[_Candidate]:
    if not host:
        return [
            _Candidate(socket.AF_INET6, _ALL, takes_both=not is_ipv4_taken),
            _Candidate(socket.AF_INET, _ALL_IPV4),
        ]
    both = host == _ALL and not is_ipv4_taken
    found = [
        _Candidate(family, str(address[0]), tuple(map(int, address[2:])), both)
        for family, _, _, _, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    ]
    return list(dict.fromkeys(found))


def _bind(one: _Candidate, port: int, backlog: int | None) -> socket.socket:
    made = socket.socket(one.family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if one.family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not one.takes_both))
        made.bind((one.host, port, *one.rest))
        if backlog is not None:
            made.listen(backlog)
    except BaseException:
        made.close()
        raise
    return made


def shown_place(host: str, port: int) -> str:
    """A place to listen on, for logs and messages."""
    if not host:
        return f"all addresses port {port}"
    return f"{host} port {port}"


def host_in_url(address: str) -> str:
    """An address or a name as a URL has it: an address of IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


def shown_socket(listening: socket.socket) -> str:
    """The place of a bound socket."""
    host, port = listening.getsockname()[:2]
    is_all = host == _ALL and not listening.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    return shown_place("" if is_all else host, port)


def peer_address(address: str) -> str:
    """The address of a peer as everybody writes it: one over IPv4 has none of IPv6."""
    try:
        mapped = ipaddress.IPv6Address(address).ipv4_mapped
    except ValueError:
        return address
    return address if mapped is None else str(mapped)
