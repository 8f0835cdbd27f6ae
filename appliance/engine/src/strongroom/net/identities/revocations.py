"""Revoked certificates: the authority's signed list (CRL) in a file, kept current.

The file is checked again when the last check is more than a second old, so a daemon knows of a
revocation soon after the file was replaced. A list without the authority's signature, or older than
the one known, is ignored and reported in `fault`; so is a missing file. A running daemon thus never
forgets a revocation.

Used from any thread; `_lock` guards the check.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from strongroom import clock
from strongroom.errors import PeerRefusedError, UsageError
from strongroom.net.identities.peer import malformed, serial_text
from strongroom.net.identities.private_files import PUBLIC_MODE, read_bounded, write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.x509 import Certificate, CertificateRevocationList

# A line takes 37 bytes: room for four hundred thousand.
GREATEST_LIST_BYTES = 16 << 20
LOOK_EVERY_SECONDS = 1.0


class Revocations:
    """The revoked serials of the list in file `path`, which may be missing at first.

    `roots`: the authorities whose signature is accepted. The first list must be valid: a daemon
    does not start with one it cannot read. Raises PeerRefusedError, UsageError or OSError.
    """

    def __init__(self, path: bytes, roots: Sequence[Certificate]) -> None:
        self._path = path
        self._roots = tuple(roots)
        self._lock = threading.Lock()
        self._serials: frozenset[str] = frozenset()
        self._number = -1
        self._seen: tuple[int, int, int] | None = None
        self._looked_seconds = clock.elapsed_seconds()
        self.fault = ""
        self._read()

    def is_revoked(self, serial: str) -> bool:
        """Whether the certificate of this serial (as in Peer) was revoked."""
        return serial in self.serials()

    def serials(self) -> frozenset[str]:
        """Every revoked serial, at most a second old."""
        with self._lock:
            now = clock.elapsed_seconds()
            if now - self._looked_seconds >= LOOK_EVERY_SECONDS:
                self._looked_seconds = now
                self._look_again()
        return self._serials

    def _look_again(self) -> None:
        try:
            if self._seen != _marks(self._path):
                self._read()
            self.fault = ""
        except (OSError, PeerRefusedError, UsageError) as error:
            self.fault = f"the list of revoked certificates stays as it was: {error}"

    def _read(self) -> None:
        marks = _marks(self._path)
        if marks is None:
            if self._seen is not None:
                raise UsageError(f"{os.fsdecode(self._path)} has gone")
            return
        revoked = parse_list(read_bounded(self._path, GREATEST_LIST_BYTES), self._roots)
        number = list_number(revoked)
        if number < self._number:
            raise PeerRefusedError(f"{os.fsdecode(self._path)} is older than the list known")
        self._serials = frozenset(serial_text(entry.serial_number) for entry in revoked)
        self._number = number
        self._seen = marks


def parse_list(pem: bytes, roots: Sequence[Certificate]) -> CertificateRevocationList:
    """A list that one of `roots` has signed; PeerRefusedError otherwise."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

    try:
        revoked = x509.load_pem_x509_crl(pem)
    except malformed() as error:
        raise PeerRefusedError(f"this is no list of revoked certificates ({error})") from error
    for root in roots:
        key = root.public_key()
        with contextlib.suppress(*malformed()):
            if isinstance(key, EllipticCurvePublicKey) and revoked.is_signature_valid(key):
                return revoked
    raise PeerRefusedError("the list of revoked certificates is not signed by our authority")


def list_number(revoked: CertificateRevocationList) -> int:
    """The number of a list; a later list has a higher one."""
    from cryptography import x509

    try:
        return revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        return 0


def install_list(path: bytes, pem: bytes, roots: Sequence[Certificate]) -> bool:
    """Write a fetched list to file `path`; False when the one there is as new or newer.

    Raises PeerRefusedError for a list that `roots` have not signed.
    """
    new = parse_list(pem, roots)
    try:
        old = parse_list(read_bounded(path, GREATEST_LIST_BYTES), roots)
    except (FileNotFoundError, PeerRefusedError):
        old = None
    if old is not None and list_number(old) >= list_number(new):
        return False
    write_file(path, pem, PUBLIC_MODE)
    return True


def _marks(path: bytes) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
