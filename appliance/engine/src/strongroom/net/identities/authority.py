"""The appliance's certificate authority: issues, renews and revokes the identities of all daemons.

One folder (see net.authority_files), one root key, no intermediates. Certificates are short-lived
(agents a month) and renewed by their holders after two thirds of their lifetime; the renewed one
has the same name, role, DNS names and addresses. The private key of a certificate is made by its
holder and never sent here, except where `issue_identity` makes a whole identity for a daemon of
this machine.

Methods may be called from several threads and processes at once; those that write hold the folder's
lock.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from strongroom import clock
from strongroom.clock import SECOND_NS
from strongroom.errors import PeerRefusedError, UsageError
from strongroom.net.identities import authority_files as files
from strongroom.net.identities.certificate_forms import (
    build_certificate,
    current_time,
    pem_of,
    requested_key,
    root_certificate,
    signed_list,
)
from strongroom.net.identities.enrolment_tokens import EnrolmentTokens
from strongroom.net.identities.identity import (
    Identity,
    certificate_request,
    has_identity,
    new_key,
    store_identity,
)
from strongroom.net.identities.peer import (
    ROLES,
    Role,
    check_name,
    check_role,
    serial_text,
)
from strongroom.net.identities.private_files import (
    PUBLIC_MODE,
    SECRET_MODE,
    make_private_folder,
    read_bounded,
    write_file,
)
from strongroom.net.identities.revocations import Revocations, install_list, list_number, parse_list
from strongroom.net.identities.trust import Trust, fingerprint, host_names, roots_of
from strongroom.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

LIFETIME_DAYS: dict[Role, int] = {"agent": 30, "director": 90, "storage": 90, "operator": 90}
_GREATEST_LIST_BYTES = 16 << 20


class Authority:
    """The authority in a folder. `passphrase`: of its key, where it has one."""

    def __init__(self, folder: bytes | str, passphrase: bytes | None = None) -> None:
        """Open it. Raises UsageError when there is none; the key is read on first use."""
        self.folder = os.path.abspath(os.fsencode(folder))
        self._passphrase = passphrase
        self._key: ec.EllipticCurvePrivateKey | None = None
        try:
            self.certificate_pem = read_bounded(os.path.join(self.folder, files.ROOT), 16 << 10)
        except OSError as error:
            raise UsageError(
                f"there is no certificate authority in {os.fsdecode(self.folder)} "
                f"({error.strerror}); make one with `strongroom ca init`"
            ) from error
        self._root = roots_of(self.certificate_pem)[0]
        self.tokens = EnrolmentTokens(os.path.join(self.folder, files.TOKENS))
        self.trust = Trust(
            self.certificate_pem,
            Revocations(os.path.join(self.folder, files.REVOKED), [self._root]),
        )

    @staticmethod
    def create(folder: bytes | str, name: str, passphrase: bytes | None = None) -> Authority:
        """Make an authority in a folder where there is none. Raises UsageError or OSError."""
        check_name(name)
        place = os.path.abspath(os.fsencode(folder))
        make_private_folder(place)
        with files.locked(place):
            if os.path.exists(os.path.join(place, files.ROOT)):
                raise UsageError(
                    f"{os.fsdecode(place)} holds a certificate authority already; every "
                    "certificate depends on it, so it is not replaced"
                )
            make_private_folder(os.path.join(place, files.TOKENS))
            key = ec.generate_private_key(ec.SECP256R1())
            root = root_certificate(key, name)
            files.write_root_key(place, key, passphrase)
            write_file(os.path.join(place, files.ISSUED), b"", SECRET_MODE)
            revoked = signed_list(key, root, [], 1)
            write_file(os.path.join(place, files.REVOKED), revoked, PUBLIC_MODE)
            # Written last: its presence marks a complete authority.
            write_file(os.path.join(place, files.ROOT), pem_of(root), PUBLIC_MODE)
        return Authority(place, passphrase)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the root's certificate: what an operator compares at enrolment."""
        return fingerprint(self._root)

    def issue(
        self,
        request_pem: bytes,
        name: str,
        role: str,
        hosts: Sequence[str] = (),
        lifetime_days: float | None = None,
        folder: str = "",
    ) -> bytes:
        """A certificate (PEM) for the key of a request (PEM, PKCS #10).

        Name and role are those that the caller states, never those of the request. `hosts`: DNS
        names and addresses under which a server is reached. Raises UsageError, PeerRefusedError for
        a bad request, or what reading the root key raises.
        """
        checked_role = check_role(role)
        public_key = requested_key(request_pem)
        days = LIFETIME_DAYS[checked_role] if lifetime_days is None else lifetime_days
        if not 0 < days <= 825:
            raise UsageError(f"a certificate is good for up to 825 days, not {days}")
        builder = build_certificate(
            self._root, public_key, checked_role, name, hosts, timedelta(days=days)
        )
        with files.locked(self.folder):
            signed = builder.sign(self._private_key(), SHA256())
            entry = files.Issued(
                serial=serial_text(signed.serial_number),
                name=name,
                role=checked_role,
                issued_ns=clock.now_ns(),
                not_after_ns=int(signed.not_valid_after_utc.timestamp()) * SECOND_NS,
                folder=folder,
            )
            # Before it is handed out: an unlisted certificate could not be revoked by its name.
            files.add_issued(self.folder, entry)
        return pem_of(signed)

    def issue_identity(
        self,
        folder: bytes | str,
        name: str,
        role: str,
        hosts: Sequence[str] = (),
        lifetime_days: float | None = None,
    ) -> Identity:
        """Make a key and a certificate in a folder of this machine, replacing any there.

        Raises UsageError for a folder whose name the list of certificates cannot hold.
        """
        key_pem = new_key()
        place = os.path.abspath(os.fsencode(folder))
        try:
            place.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{printable(place)} is not UTF-8; name another folder") from error
        certificate_pem = self.issue(
            certificate_request(key_pem, name), name, role, hosts, lifetime_days, os.fsdecode(place)
        )
        identity = store_identity(place, key_pem, certificate_pem, self.certificate_pem)
        install_list(identity.revoked_path, self.revoked_pem(), [self._root])
        return identity

    def enrol(self, token: str, request_pem: bytes, name: str) -> bytes:
        """The certificate that an enrolment token permits; consumes the token.

        A token for any name does not give a name that is taken. Raises PeerRefusedError or
        UsageError; an invalid request does not consume the token.
        """
        check_name(name)
        # First what costs least: anybody may try.
        permitted = self.tokens.look(token, name)
        requested_key(request_pem)
        self._private_key()
        if not permitted.name:
            self._check_unclaimed(name)
        use = self.tokens.use(token, name)
        return self.issue(request_pem, name, use.role, use.hosts)

    def renew(self, certificate_der: bytes, request_pem: bytes) -> bytes:
        """A new certificate (PEM) that replaces a valid one, for another key.

        Raises PeerRefusedError when that one is not valid any more.
        """
        peer = self.trust.judge(certificate_der, ROLES)
        hosts = host_names(x509.load_der_x509_certificate(certificate_der))
        return self.issue(request_pem, peer.name, peer.role, hosts)

    def revoke(self, serial_or_name: str) -> list[files.Issued]:
        """Revoke a certificate by its serial, or all of a name; gives those that were still valid.

        The new list is also put into the identity folders of this machine. Raises UsageError when
        there is no such certificate.
        """
        with files.locked(self.folder):
            issued = files.read_issued(self.folder)
            wanted = [e for e in issued if serial_or_name in {e.serial, e.name}]
            if not wanted:
                raise UsageError(
                    f"no certificate has the serial or name {serial_or_name!r}; see "
                    "`strongroom ca list`"
                )
            before = parse_list(self.revoked_pem(), [self._root])
            known = {serial_text(entry.serial_number) for entry in before}
            now_ns = clock.now_ns()
            new = [e for e in wanted if e.serial not in known and e.not_after_ns > now_ns]
            if new:
                self._publish(before, new, issued)
        return new

    def issued(self) -> list[files.Issued]:
        """Every certificate that was issued, in order."""
        return files.read_issued(self.folder)

    def revoked_serials(self) -> frozenset[str]:
        """The serials on the current list."""
        entries = parse_list(self.revoked_pem(), [self._root])
        return frozenset(serial_text(entry.serial_number) for entry in entries)

    def revoked_pem(self) -> bytes:
        """The current list of revoked certificates, to hand to daemons elsewhere."""
        return read_bounded(os.path.join(self.folder, files.REVOKED), _GREATEST_LIST_BYTES)

    def _check_unclaimed(self, name: str) -> None:
        revoked = self.revoked_serials()
        now_ns = clock.now_ns()
        for entry in self.issued():
            is_good = entry.not_after_ns > now_ns and entry.serial not in revoked
            if entry.name == name and is_good:
                raise PeerRefusedError(
                    f"there is a {entry.role} {name!r} already; to enrol it anew, make a token for "
                    "just this name"
                )

    def _publish(
        self,
        before: x509.CertificateRevocationList,
        new: Sequence[files.Issued],
        issued: Sequence[files.Issued],
    ) -> None:
        """Sign the list with `new` added, and put it where daemons of this machine read it."""
        now_ns = clock.now_ns()
        ended = {entry.serial for entry in issued if entry.not_after_ns < now_ns}
        entries = [entry for entry in before if serial_text(entry.serial_number) not in ended]
        for entry in new:
            builder = x509.RevokedCertificateBuilder().serial_number(int(entry.serial, 16))
            entries.append(builder.revocation_date(current_time()).build())
        pem = signed_list(self._private_key(), self._root, entries, list_number(before) + 1)
        write_file(os.path.join(self.folder, files.REVOKED), pem, PUBLIC_MODE)
        for folder in sorted({entry.folder for entry in issued if entry.folder}):
            if has_identity(folder):
                install_list(os.path.join(os.fsencode(folder), files.REVOKED), pem, [self._root])

    def try_key(self, passphrase: bytes | None) -> None:
        """Check that the root key opens. Raises UsageError, WrongKeyError, DamageError."""
        files.read_root_key(self.folder, passphrase)

    def _private_key(self) -> ec.EllipticCurvePrivateKey:
        if self._key is None:
            self._key = files.read_root_key(self.folder, self._passphrase)
        return self._key
