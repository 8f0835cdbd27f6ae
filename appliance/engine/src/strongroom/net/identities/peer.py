"""The peer of a connection, or the signer of a statement.

A certificate names its holder by one URI among its alternative names, `strongroom://ROLE/NAME`,
with the name percent-encoded; the common name repeats it for display. The certificate of an agent
also says which client it is in each repository, `strongroom-client://REPOSITORY/CLIENT` (two ids in
hexadecimal): anyone who stores objects knows no keys, and compares the ids in them with these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args
from urllib.parse import quote, unquote

from strongroom.base import clock
from strongroom.base.errors import PeerRefusedError, UsageError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

Role = Literal["director", "storage", "agent", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)
# Roles that accept connections; only their certificates are valid for servers.
SERVER_ROLES: frozenset[str] = frozenset(("director", "storage"))
LOCAL_ROLE = "local"
# Of a peer that may only add: over ssh, where no certificate says anything.
APPEND_ONLY_ROLE = "append-only"
GREATEST_NAME_LENGTH = 127
# A certificate is valid from this long before its issue, so that a machine whose clock is days
# behind can use it at once.
BACKDATED = timedelta(days=8)

# The first byte of a serial number that holds an order; without one it is 0x40.
_ORDERED = b"\x41"
_ORDER_SIZE = 5
_SERIAL_BITS = 19 * 8 - 1

_SCHEME = "strongroom://"
_CLIENT_SCHEME = "strongroom-client://"
_CLIENT_URI = re.compile(_CLIENT_SCHEME + "([0-9a-f]{32})/([0-9a-f]{32})")


class ClientOf(NamedTuple):
    """The id of a client in a repository, and that of the repository: 16 bytes each."""

    repository: bytes
    client: bytes


@dataclass(frozen=True, slots=True)
class Peer:
    """`role`: of ROLES, or LOCAL_ROLE for a process of this machine at a Unix socket.

    `name`: as the certificate says, or the user's. `serial`: of the certificate, lower-case
    hexadecimal without leading zeros; "" for a local peer. `issued`: its place in the order of
    issue, see `order_of`. `clients`: which client an agent is.
    """

    name: str
    role: str
    serial: str
    issued: int = 0
    clients: tuple[ClientOf, ...] = ()

    def __str__(self) -> str:
        return f"{self.role} {self.name!r}"

    def client_of(self, repository_id: bytes) -> bytes:
        """The id of the client that it is in a repository; b"" where it is none."""
        return next((one.client for one in self.clients if one.repository == repository_id), b"")


def check_name(name: str) -> str:
    """`name` if it is valid in a certificate; UsageError otherwise."""
    if not 1 <= len(name) <= GREATEST_NAME_LENGTH or not name.isprintable() or name != name.strip():
        raise UsageError(
            f"{name!r} cannot be the name of a client or daemon: it takes 1 to "
            f"{GREATEST_NAME_LENGTH} printable characters, no blanks around them"
        )
    return name


def check_role(role: str) -> Role:
    """`role` if there is such a role; UsageError otherwise."""
    for known in ROLES:
        if role == known:
            return known
    raise UsageError(f"{role!r} is not a role; there are {', '.join(ROLES)}")


def holder_uri(role: Role, name: str) -> str:
    """The URI by which a certificate names its holder."""
    return f"{_SCHEME}{role}/{quote(name, safe='')}"


def client_uri(client: ClientOf) -> str:
    """The URI by which a certificate says which client its holder is in a repository."""
    return f"{_CLIENT_SCHEME}{client.repository.hex()}/{client.client.hex()}"


def common_name(name: str) -> str:
    """As much of a name as fits into the common name: 64 bytes."""
    return name.encode()[:64].decode("utf-8", "ignore")


def serial_text(serial: int) -> str:
    """A serial number in the form of Peer and of our lists."""
    return f"{serial:x}"


def peer_of(certificate: Certificate) -> Peer:
    """The peer that a certificate names; net.identities.trust decides whether it is trusted.

    Raises PeerRefusedError when it names no peer in our form.
    """
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except malformed() as error:
        raise PeerRefusedError("the certificate shown does not name a role and a name") from error
    ours = [uri.removeprefix(_SCHEME) for uri in uris if uri.startswith(_SCHEME)]
    if len(ours) != 1:
        raise PeerRefusedError("the certificate shown does not name one role and name")
    role, slash, quoted = ours[0].partition("/")
    try:
        name = unquote(quoted, errors="strict")
        if not slash or quote(name, safe="") != quoted:
            raise UsageError("not as we write it")
        return Peer(
            check_name(name),
            check_role(role),
            serial_text(certificate.serial_number),
            order_of(certificate),
            _clients_in(uris),
        )
    except (UsageError, UnicodeDecodeError) as error:
        raise PeerRefusedError(
            f"the certificate shown names its holder in an unknown way ({uris[0]!r})"
        ) from error


def _clients_in(uris: list[str]) -> tuple[ClientOf, ...]:
    found = []
    for uri in uris:
        if uri.startswith(_CLIENT_SCHEME):
            ids = _CLIENT_URI.fullmatch(uri)
            if ids is None:
                raise UsageError("not as we write it")
            found.append(ClientOf(bytes.fromhex(ids[1]), bytes.fromhex(ids[2])))
    return tuple(found)


def new_serial(order: int) -> int:
    """A serial number that is unique, unpredictable, and holds the order; see `order_of`."""
    return int.from_bytes(_ORDERED + order.to_bytes(_ORDER_SIZE) + clock.random_bytes(13))


def order_of(certificate: Certificate) -> int:
    """Which of two certificates of a name was issued later, whatever the clock showed: the greater.

    It is the second of the issue since 1970, or later where the clock had been ahead. The serial
    number holds it; certificates of earlier versions have it in their beginning alone.
    """
    serial = certificate.serial_number
    # A certificate that was changed on the way may show a negative one.
    if serial > 0 and serial.bit_length() == _SERIAL_BITS:
        data = serial.to_bytes(_SERIAL_BITS // 8 + 1)
        if data[:1] == _ORDERED:
            return int.from_bytes(data[1 : 1 + _ORDER_SIZE])
    return int(issued_at(certificate).timestamp())


def issued_at(certificate: Certificate) -> datetime:
    """When a certificate of ours was issued."""
    return certificate.not_valid_before_utc + BACKDATED


def renewal_due_at(certificate: Certificate) -> datetime:
    """When two thirds of a certificate's lifetime have passed."""
    issued = issued_at(certificate)
    return issued + (certificate.not_valid_after_utc - issued) * 2 / 3


def malformed() -> tuple[type[Exception], ...]:
    """What cryptography raises for a certificate, request or list that is not in our form."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    return (
        ValueError,
        UnsupportedAlgorithm,
        x509.InvalidVersion,
        x509.DuplicateExtension,
        x509.ExtensionNotFound,
        x509.UnsupportedGeneralNameType,
    )


def parse_certificate(der: bytes) -> Certificate:
    """A certificate from its bytes (DER); PeerRefusedError when they are invalid."""
    from cryptography import x509

    try:
        return x509.load_der_x509_certificate(der)
    except malformed() as error:
        raise PeerRefusedError(f"invalid certificate ({error})") from error
