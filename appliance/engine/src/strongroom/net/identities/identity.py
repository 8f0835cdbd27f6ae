"""The identity of a daemon, agent or operator: a folder with a certificate and its key.

    certificate.pem  key.pem  authority.pem  revoked.pem

The key may be read by its owner (and group) only. Without `revoked.pem`, the list of revoked
certificates, no peer is trusted.

A renewed certificate comes with a new key. The key is put beside the old one as `key.next.pem`
before the certificate is replaced, so after a crash at any point one of the two fits the
certificate. Writers hold a lock on the folder (flock); readers try again when a certificate and its
key do not fit, for they may have been replaced in between.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.identities.peer import Peer, common_name, malformed, peer_of, renewal_due_at
from strongroom.net.identities.private_files import (
    PUBLIC_MODE,
    SECRET_MODE,
    make_private_folder,
    read_bounded,
    sync_folder,
    write_file,
)
from strongroom.net.identities.revocations import Revocations
from strongroom.net.identities.trust import Trust, roots_of

_CERTIFICATE = b"certificate.pem"
_KEY = b"key.pem"
_NEXT_KEY = b"key.next.pem"
_AUTHORITY = b"authority.pem"
_REVOKED = b"revoked.pem"
_READ_ATTEMPTS = 10
_GREATEST_FILE_BYTES = 256 << 10
# Unless the director's Expiry Warning says otherwise.
WARNING_SECONDS: Final = 14 * 86400
# Of an authority, whose end every machine feels: so long before at least.
AUTHORITY_WARNING_SECONDS: Final = 180 * 86400


@dataclass(frozen=True)
class Identity:
    """Our certificate, key and trust, as `Identity.load` read them; later changes are not seen."""

    folder: bytes
    peer: Peer
    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    authority_pem: bytes

    @staticmethod
    def load(folder: bytes | str) -> Identity:
        """Read an identity folder. Raises UsageError when something is absent or does not fit."""
        place = os.path.abspath(os.fsencode(folder))
        faults: tuple[type[Exception], ...] = (PeerRefusedError, *malformed())
        for _ in range(_READ_ATTEMPTS):
            certificate_pem = _read(place, _CERTIFICATE)
            authority_pem = _read(place, _AUTHORITY)
            try:
                certificate = x509.load_pem_x509_certificate(certificate_pem)
                peer = peer_of(certificate)
                roots_of(authority_pem)
            except faults as error:
                raise UsageError(
                    f"the identity in {os.fsdecode(place)} is damaged: {error}"
                ) from error
            key_pem = _fitting_key(place, certificate)
            if key_pem is not None:
                return Identity(place, peer, certificate_pem, key_pem, authority_pem)
        raise UsageError(
            f"the key in {os.fsdecode(place)} is not that of the certificate there; enrol anew"
        )

    @property
    def name(self) -> str:
        """The name in the certificate."""
        return self.peer.name

    @property
    def role(self) -> str:
        """One of net.peer.ROLES."""
        return self.peer.role

    @property
    def serial(self) -> str:
        """Serial number of the certificate, as in Peer."""
        return self.peer.serial

    @property
    def not_before(self) -> datetime:
        """The start of the certificate's validity."""
        return self._certificate.not_valid_before_utc

    @property
    def not_after(self) -> datetime:
        """The end of the certificate's validity."""
        return self._certificate.not_valid_after_utc

    @property
    def certificate_der(self) -> bytes:
        """The certificate (DER)."""
        return self._certificate.public_bytes(serialization.Encoding.DER)

    @property
    def key_path(self) -> str:
        """The file of the key, for libraries that need files."""
        return os.fsdecode(os.path.join(self.folder, _KEY))

    @property
    def revoked_path(self) -> bytes:
        """The file of the list of revoked certificates."""
        return os.path.join(self.folder, _REVOKED)

    @cached_property
    def trust(self) -> Trust:
        """The trust of this identity, with the list of revoked certificates of its folder."""
        roots = roots_of(self.authority_pem)
        return Trust(self.authority_pem, Revocations(self.revoked_path, roots))

    def sign(self, data: bytes) -> bytes:
        """An ECDSA signature (P-256, SHA-256, DER) of `data` with the certificate's key."""
        return self._private_key.sign(data, ec.ECDSA(SHA256()))

    def renewal_due(self) -> bool:
        """Whether two thirds of the certificate's lifetime have passed."""
        now = datetime.fromtimestamp(clock.now_ns() // SECOND_NS, UTC)
        return now >= renewal_due_at(self._certificate)

    @cached_property
    def _certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate_pem)

    @cached_property
    def _private_key(self) -> ec.EllipticCurvePrivateKey:
        return _parse_key(self.key_pem)


def new_key() -> bytes:
    """A new private key (PEM, no passphrase)."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def certificate_request(key_pem: bytes, name: str) -> bytes:
    """A request (PEM) for a certificate of `name` on a key; it proves that we have the key."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name(name))])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = request.sign(_parse_key(key_pem), SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def verify_signature(certificate: x509.Certificate, signature: bytes, data: bytes) -> bool:
    """Whether `signature` is that of `data` by the certificate's holder (`Identity.sign`)."""
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        key.verify(signature, data, ec.ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def store_identity(
    folder: bytes | str, key_pem: bytes, certificate_pem: bytes, authority_pem: bytes
) -> Identity:
    """Write an identity, new or renewed, and load it; see the module's docstring for the order.

    Raises UsageError when certificate and key do not fit, OSError when the folder cannot be
    written.
    """
    place = os.path.abspath(os.fsencode(folder))
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
    except malformed() as error:
        raise UsageError(f"the new certificate is damaged: {error}") from error
    if not _fits(key_pem, certificate):
        raise UsageError("the new certificate is for another key; request it again")
    make_private_folder(place)
    with _locked(place):
        with contextlib.suppress(UsageError, *malformed()):
            # An earlier renewal may have been interrupted; its key is still in use then.
            _settle(place, x509.load_pem_x509_certificate(_read(place, _CERTIFICATE)))
        write_file(os.path.join(place, _NEXT_KEY), key_pem, SECRET_MODE)
        write_file(os.path.join(place, _AUTHORITY), authority_pem, PUBLIC_MODE)
        write_file(os.path.join(place, _CERTIFICATE), certificate_pem, PUBLIC_MODE)
        _settle(place, certificate)
    return Identity.load(place)


def has_identity(folder: bytes | str) -> bool:
    """Whether there is a certificate in a folder."""
    return os.path.exists(os.path.join(os.fsencode(folder), _CERTIFICATE))


def _read(folder: bytes, name: bytes) -> bytes:
    path = os.path.join(folder, name)
    try:
        return read_bounded(path, _GREATEST_FILE_BYTES)
    except OSError as error:
        raise UsageError(
            f"no identity in {os.fsdecode(folder)}: {name.decode()}: {error.strerror}; enrol "
            "this machine, or issue it a certificate with `strongroom ca issue`"
        ) from error


def _fitting_key(folder: bytes, certificate: x509.Certificate) -> bytes | None:
    """The private key of a certificate, None if it is not there (any more)."""
    next_path = os.path.join(folder, _NEXT_KEY)
    if os.path.exists(next_path):
        with _locked(folder):
            _settle(folder, certificate)
    key_path = os.path.join(folder, _KEY)
    key_pem = _read(folder, _KEY)
    if os.stat(key_path).st_mode & stat.S_IRWXO:
        shown = os.fsdecode(key_path)
        raise UsageError(f"anyone may read {shown}: run `chmod 600 {shown}` and renew it")
    return key_pem if _fits(key_pem, certificate) else None


def _settle(folder: bytes, certificate: x509.Certificate) -> None:
    """Finish a renewal that a crash interrupted; with the lock held."""
    try:
        next_key = read_bounded(os.path.join(folder, _NEXT_KEY), _GREATEST_FILE_BYTES)
    except FileNotFoundError:
        return
    if _fits(next_key, certificate):
        os.rename(os.path.join(folder, _NEXT_KEY), os.path.join(folder, _KEY))
        sync_folder(folder)


@contextlib.contextmanager
def _locked(folder: bytes) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _fits(key_pem: bytes, certificate: x509.Certificate) -> bool:
    return _parse_key(key_pem).public_key() == certificate.public_key()


def _parse_key(key_pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(key_pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError("the private key is damaged, or has a passphrase") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UsageError("the private key is of a kind that we do not use")
    return key


def ends_soon(
    begun_ns: int, ends_ns: int, now_ns: int, warning_seconds: int = WARNING_SECONDS
) -> bool:
    """Whether a certificate or token ends so soon that people are notified, or has ended.

    Certificates are renewed by their holders after two thirds of their life, and what lives only
    weeks would always end soon: so that is in the last quarter of a life at the earliest.
    """
    warning_ns = min(warning_seconds * SECOND_NS, (ends_ns - begun_ns) // 4)
    return ends_ns - warning_ns <= now_ns
