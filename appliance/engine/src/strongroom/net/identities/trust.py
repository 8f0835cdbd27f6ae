"""Which certificates to trust: of our own authority, valid now, not revoked, of an accepted role.

TLS verifies the chain too; everything is verified here once more, so that the modes "off" and "tls"
and signed statements accept exactly the same peers.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import PeerRefusedError
from strongroom.net.identities.peer import SERVER_ROLES, Peer, malformed, parse_certificate, peer_of
from strongroom.net.identities.revocations import Revocations

# Our certificates have about 700 bytes; those from the network may not be much larger.
GREATEST_CERTIFICATE_BYTES = 8 << 10


class Trust:
    """Verifies certificates against the roots in `authority_pem`; UsageError if those are bad.

    `revocations`: consulted at every verification, where given; no one is trusted while its list
    cannot be used.
    """

    def __init__(self, authority_pem: bytes, revocations: Revocations | None = None) -> None:
        self.roots = roots_of(authority_pem)
        self.revocations = revocations

    def judge(
        self, certificate_der: bytes, roles: Collection[str], *, at_any_time: bool = False
    ) -> Peer:
        """The peer of a valid certificate of one of `roles`; PeerRefusedError otherwise.

        at_any_time: it may have ended, or begin later.
        """
        if len(certificate_der) > GREATEST_CERTIFICATE_BYTES:
            raise PeerRefusedError("the certificate shown is too large to be one of ours")
        certificate = parse_certificate(certificate_der)
        self._check_issuer(certificate)
        peer = peer_of(certificate)
        if not at_any_time:
            _check_moment(certificate, peer)
        if self.revocations is not None and (refusal := self.revocations.refusal(peer)):
            raise PeerRefusedError(refusal)
        if peer.role not in roles:
            raise PeerRefusedError(
                f"{peer} may not do this: it takes the certificate of {' or '.join(sorted(roles))}"
            )
        if peer.role in SERVER_ROLES and not _is_for_servers(certificate):
            raise PeerRefusedError(f"the certificate of {peer} is not made for a server")
        return peer

    def judge_server(
        self, certificate_der: bytes, server_name: str, roles: Collection[str] = SERVER_ROLES
    ) -> Peer:
        """The same for a server that we dialled, which must have the name that we meant.

        `server_name`: its name, or one of the DNS names and addresses of its certificate.
        """
        peer = self.judge(certificate_der, roles)
        names = {peer.name, *host_names(parse_certificate(certificate_der))}
        if server_name.lower() not in {name.lower() for name in names}:
            raise PeerRefusedError(
                f"we meant to reach {server_name!r}, but who answers is {peer}, known as "
                f"{', '.join(sorted(names))}"
            )
        return peer

    def _check_issuer(self, certificate: x509.Certificate) -> None:
        refusals: tuple[type[Exception], ...] = (TypeError, InvalidSignature, *malformed())
        for root in self.roots:
            try:
                certificate.verify_directly_issued_by(root)
            except refusals:
                continue
            _check_form(certificate)
            return
        raise PeerRefusedError(
            "the certificate shown was not issued by our authority; enrol this machine, or give "
            "it the authority's new certificate"
        )


def roots_of(authority_pem: bytes) -> tuple[x509.Certificate, ...]:
    """The authorities' certificates in a file's bytes; PeerRefusedError when they are invalid."""
    try:
        roots = tuple(x509.load_pem_x509_certificates(authority_pem))
        are_ours = all(map(_is_authority, roots))
    except malformed() as error:
        raise PeerRefusedError(f"the authority's certificate is damaged ({error})") from error
    if not are_ours:
        raise PeerRefusedError("what should be the authority's certificate is another's")
    return roots


def host_names(certificate: x509.Certificate) -> list[str]:
    """The DNS names and addresses of a certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except malformed():
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate in hexadecimal: the authority's fingerprint."""
    return certificate.fingerprint(SHA256()).hex()


def authority_with_fingerprint(pem: bytes, expected: str) -> bytes:
    """`pem` if its first certificate has the fingerprint that the operator stated.

    Colons, blanks and capitals in `expected` do not matter. Raises PeerRefusedError.
    """
    wanted = "".join(expected.split()).replace(":", "").lower()
    found = fingerprint(roots_of(pem)[0])
    if len(roots_of(pem)) != 1 or found != wanted:
        raise PeerRefusedError(
            f"the authority's fingerprint is {found}, not {wanted or 'stated'}: this is another "
            "director, or the connection is intercepted"
        )
    return pem


def _is_authority(certificate: x509.Certificate) -> bool:
    limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    return limits.ca and isinstance(certificate.public_key(), EllipticCurvePublicKey)


def _check_form(certificate: x509.Certificate) -> None:
    """Refuse what our authority never issues to a peer: authorities, other kinds of key."""
    key = certificate.public_key()
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise PeerRefusedError("the certificate shown has a key of a kind that we do not use")
    try:
        limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except malformed() as error:
        raise PeerRefusedError("the certificate has no role") from error
    if limits.ca:
        raise PeerRefusedError("the peer sent an authority's certificate, not a daemon's")


def _check_moment(certificate: x509.Certificate, peer: Peer) -> None:
    now = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC)
    if now > certificate.not_valid_after_utc:
        raise PeerRefusedError(
            f"the certificate of {peer} ended on {certificate.not_valid_after_utc:%Y-%m-%d}; enrol "
            "it anew (and check both clocks)"
        )
    if now < certificate.not_valid_before_utc:
        raise PeerRefusedError(f"the certificate of {peer} is not valid yet: check the clock")


def _is_for_servers(certificate: x509.Certificate) -> bool:
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except malformed():
        return False
    return ExtendedKeyUsageOID.SERVER_AUTH in usage
