"""The profile of our certificates and requests.

Every certificate has a P-256 key, CA:FALSE, its key usages, and the name of its holder.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.identities.peer import (
    BACKDATED,
    SERVER_ROLES,
    ClientOf,
    Role,
    check_name,
    client_uri,
    common_name,
    holder_uri,
    malformed,
    new_serial,
)

_ROOT_LIFETIME = timedelta(days=20 * 365)
# It is later than this, whatever a clock says on the day of the installation.
_THE_PAST = datetime(2026, 1, 1, tzinfo=UTC)
_GREATEST_REQUEST_BYTES = 16 << 10
_HOST_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9])?")


@dataclass(frozen=True)
class Holder:
    """Whose a certificate is. clients: which client an agent is."""

    role: Role
    name: str
    hosts: Sequence[str] = ()
    clients: Sequence[ClientOf] = ()


def build_certificate(
    root: x509.Certificate,
    public_key: ec.EllipticCurvePublicKey,
    holder: Holder,
    lifetime: timedelta,
    issued: datetime,
    order: int = 0,
) -> x509.CertificateBuilder:
    """A certificate without its signature, from `issued` on; it never outlives the root's.

    order: see `order_of`, 0 for the second of `issued`. Raises UsageError for an impossible name or
    host.
    """
    builder = (
        x509.CertificateBuilder()
        .subject_name(_common_name(check_name(holder.name)))
        .issuer_name(root.subject)
        .public_key(public_key)
        .serial_number(new_serial(order or int(issued.timestamp())))
        .not_valid_before(issued - BACKDATED)
        .not_valid_after(min(issued + lifetime, root.not_valid_after_utc))
    )
    return _with_extensions(builder, root, public_key, holder)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name(name))])


def requested_key(request_pem: bytes) -> ec.EllipticCurvePublicKey:
    """The key of a request whose sender has proven possession of the private key.

    Raises PeerRefusedError.
    """
    if len(request_pem) > _GREATEST_REQUEST_BYTES:
        raise PeerRefusedError("the certificate request is too large")
    try:
        request = x509.load_pem_x509_csr(request_pem)
        key = request.public_key()
        is_signed = request.is_signature_valid
    except malformed() as error:
        raise PeerRefusedError(f"the certificate request is damaged ({error})") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise PeerRefusedError("the certificate request is for a key of a kind that we do not use")
    if not is_signed:
        raise PeerRefusedError("the certificate request is not signed with its own key")
    return key


def _with_extensions(
    builder: x509.CertificateBuilder,
    root: x509.Certificate,
    public_key: ec.EllipticCurvePublicKey,
    holder: Holder,
) -> x509.CertificateBuilder:
    role, name = holder.role, holder.name
    uris = [holder_uri(role, name), *map(client_uri, holder.clients if role == "agent" else ())]
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
    known = list(dict.fromkeys(holder.hosts))
    if role in SERVER_ROLES and name not in known and _HOST_NAME.fullmatch(name):
        known.append(name)
    names += [_general_name(host) for host in known]
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if role != "operator":
        # An agent may have to listen. It has no DNS name unless the operator gave it one, so it
        # cannot impersonate a host that is dialled by name.
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    issuer = root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False
        )
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST_NAME.fullmatch(host):
        raise UsageError(f"{host!r} is neither a DNS name nor an address")
    return x509.DNSName(host)


def root_certificate(key: ec.EllipticCurvePrivateKey, name: str) -> x509.Certificate:
    """The certificate of a new authority, signed by itself."""
    # An authority cannot be replaced, so a clock that is wrong when it is made must not matter.
    now = max(datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC), _THE_PAST)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Strongroom"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name(name)),
        ]
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(new_serial(int(now.timestamp())))
        .not_valid_before(_THE_PAST - BACKDATED)
        .not_valid_after(now + _ROOT_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, SHA256())
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def pem_of(certificate: x509.Certificate) -> bytes:
    """A certificate as text."""
    return certificate.public_bytes(serialization.Encoding.PEM)
