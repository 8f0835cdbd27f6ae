"""The appliance's certificate authority: issues, renews and revokes the identities of all daemons.

One folder (see net.authority_files), one root key, no intermediates. Certificates are short-lived
(agents a month) and renewed by their holders after two thirds of their lifetime; the renewed one
has the same name, role, DNS names and addresses (see net.identities.renewals). The private key of a
certificate is made by its holder and never sent here, except where `issue_identity` makes a whole
identity for a daemon of this machine.

What enrolment tokens permit: net.identities.enrolments.

What is revoked is revoked by name and order of issue: everything of a name that was issued before.
The order is held by the serial number, so a clock that was ahead for a while leaves nothing behind:
the next certificate is later in the order, and begins now.

While the clock is not plausible (`sure_ns`), a certificate begins at the last plausible time and
ends by the clock: it is valid whichever is right. Nothing is struck off the lists by such a clock.

Methods may be called from several threads and processes at once; those that write hold the folder's
lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from msgspec import structs

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.base.printable import printable
from strongroom.net.identities import authority_files as files
from strongroom.net.identities.certificate_forms import (
    Holder,
    build_certificate,
    pem_of,
    requested_key,
    root_certificate,
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
    ClientOf,
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
from strongroom.net.identities.renewals import (
    GRACE_ROLES,
    require_renewable,
    without_earlier_successors,
)
from strongroom.net.identities.revocation_list import (
    GREATEST_LIST_BYTES,
    RevocationList,
    RevokedName,
    parse_list,
    signed_list,
)
from strongroom.net.identities.revocations import Revocations, install_list
from strongroom.net.identities.trust import Trust, fingerprint, host_names, roots_of

LIFETIME_DAYS: dict[Role, int] = {"agent": 30, "director": 90, "storage": 90, "operator": 90}
# What was issued longer ago than this has expired, so that it need not be revoked any more.
GREATEST_LIFETIME_DAYS = 825


class Authority:
    """The authority in a folder. `passphrase`: of its key, where it has one."""

    def __init__(self, folder: bytes | str, passphrase: bytes | None = None) -> None:
        """Open it. Raises UsageError when there is none; the key is read on first use."""
        self.folder = os.path.abspath(os.fsencode(folder))
        self._passphrase = passphrase
        self._key: ec.EllipticCurvePrivateKey | None = None
        # Where somebody watches the clock: the time as far as it is known to have passed.
        self.sure_ns: Callable[[], int] = lambda: clock.now_ns()  # noqa: PLW0108 - tests replace it
        try:
            self.certificate_pem = read_bounded(os.path.join(self.folder, files.ROOT), 16 << 10)
        except OSError as error:
            raise UsageError(
                f"there is no certificate authority in {os.fsdecode(self.folder)} "
                f"({error.strerror}); make one with `strongroom ca init`"
            ) from error
        self._root = roots_of(self.certificate_pem)[0]
        self.tokens = EnrolmentTokens(os.path.join(self.folder, files.TOKENS), self.fingerprint)
        self.trust = Trust(
            self.certificate_pem,
            Revocations(self.revoked_path, [self._root]),
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
            write_file(os.path.join(place, files.REVOKED), signed_list(key, 1, ()), PUBLIC_MODE)
            # Written last: its presence marks a complete authority.
            write_file(os.path.join(place, files.ROOT), pem_of(root), PUBLIC_MODE)
        return Authority(place, passphrase)

    @property
    def revoked_path(self) -> bytes:
        """The file of the list of revoked certificates."""
        return os.path.join(self.folder, files.REVOKED)

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
        clients: Sequence[ClientOf] = (),
    ) -> bytes:
        """A certificate (PEM) for the key of a request (PEM, PKCS #10).

        Name and role are those that the caller states, never those of the request. `hosts`: DNS
        names and addresses under which a server is reached. `clients`: which client an agent is;
        who has the appliance key of a repository makes these ids. Raises UsageError,
        PeerRefusedError for a bad request, or what reading the root key raises.
        """
        checked_role = check_role(role)
        public_key = requested_key(request_pem)
        days = LIFETIME_DAYS[checked_role] if lifetime_days is None else lifetime_days
        if not 0 < days <= GREATEST_LIFETIME_DAYS:
            raise UsageError(f"a certificate is good for up to 825 days, not {days}")
        with files.locked(self.folder):
            signed, entry = self._sign(public_key, name, checked_role, hosts, days, folder, clients)
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
        clients: Sequence[ClientOf] = (),
    ) -> Identity:
        """Make a key and a certificate in a folder of this machine, replacing any there.

        Raises UsageError for a folder whose name the list of certificates cannot hold.
        """
        key_pem = new_key()
        place = os.path.abspath(os.fsencode(folder))
        try:
            place.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(f"{printable(place)} is not UTF-8; choose another folder") from error
        request = certificate_request(key_pem, name)
        certificate_pem = self.issue(
            request, name, role, hosts, lifetime_days, os.fsdecode(place), clients
        )
        identity = store_identity(place, key_pem, certificate_pem, self.certificate_pem)
        install_list(identity.revoked_path, self.revoked_pem(), [self._root])
        return identity

    def renew(
        self,
        certificate_der: bytes,
        request_pem: bytes,
        clients: Sequence[ClientOf] | None = None,
        *,
        is_late: bool = False,
    ) -> bytes:
        """A new certificate (PEM) that succeeds a valid one, for another key.

        is_late: that one may have ended, and its holder has proved to have its key.

        clients: see `issue`; None: as in that one. Raises PeerRefusedError when that one is not
        valid any more, is not due, has a newer one beside it, or was renewed a moment ago.
        """
        roles = GRACE_ROLES if is_late else ROLES
        peer = self.trust.judge(certificate_der, roles, at_any_time=is_late)
        certificate = x509.load_der_x509_certificate(certificate_der)
        public_key = requested_key(request_pem)
        days = LIFETIME_DAYS[check_role(peer.role)]
        with files.locked(self.folder):
            # It may have been revoked since it was judged.
            if self.revoked().is_revoked(peer):
                raise PeerRefusedError(f"the certificate of {peer} was revoked")
            entries = self.issued() if is_late else self.living()
            successor = require_renewable(peer, certificate, entries)
            hosts = host_names(certificate)
            clients = peer.clients if clients is None else clients
            signed, entry = self._sign(
                public_key, peer.name, check_role(peer.role), hosts, days, clients=clients
            )
            entry = structs.replace(entry, renews=peer.serial)
            if successor is not None:
                changed = without_earlier_successors(self.revoked(), peer, entry)
                self._publish(self.revoked(), [changed], entries)
            gone = {"" if successor is None else successor.serial, *self._succeeded()}
            kept = [
                structs.replace(e, may_renew=False) if e.serial == peer.serial else e
                for e in self.issued()
                if e.serial not in gone
            ]
            files.write_issued(self.folder, [*kept, entry])
        return pem_of(signed)

    def permit_renewal(self, name: str) -> list[files.Issued]:
        """Let the holder of the newest certificate of a name renew it before it is due, once.

        Returns those permitted, one for each role. Raises UsageError when there is none.
        """
        with files.locked(self.folder):
            newest = {entry.role: entry for entry in self.issued() if entry.name == name}
            if not newest:
                raise _unknown(name)
            permitted = [structs.replace(entry, may_renew=True) for entry in newest.values()]
            by_serial = {entry.serial: entry for entry in permitted}
            files.write_issued(self.folder, [by_serial.get(e.serial, e) for e in self.issued()])
        return permitted

    def revoke(
        self, name: str, before_ns: int | None = None, roles: Collection[str] = ROLES
    ) -> list[files.Issued]:
        """Revoke everything of a name and these roles that was issued until now, or before a time.

        Also what has ended, by a clock that may be ahead. Returns the certificates on record that
        were still valid. The new list is also put into the identity folders of this
        machine. Raises UsageError when there is no certificate of the name, and PeerRefusedError
        when the list there is damaged.
        """
        with files.locked(self.folder):
            entries = self.issued()
            of_name = [e for e in entries if e.name == name and e.role in roles]
            if not of_name:
                raise _unknown(name)
            before = (
                max(self._plausible_ns() // SECOND_NS, *(entry.issued for entry in of_name)) + 1
            )
            if before_ns is not None:
                before = min(before, before_ns // SECOND_NS)
            revoked = self.revoked()
            hit = [
                entry
                for entry in of_name
                if entry.issued < before and not revoked.covers(entry.role, name, entry.issued)
            ]
            living = {entry.serial for entry in self.living()}
            changes = []
            for role in sorted({entry.role for entry in hit}):
                known = revoked.names.get((role, name), RevokedName(role, name))
                changes.append(structs.replace(known, before=max(known.before, before)))
            if changes:
                self._publish(revoked, changes, entries)
        return [entry for entry in hit if entry.serial in living]

    def issued(self) -> list[files.Issued]:
        """Every certificate that was issued, in order."""
        return files.read_issued(self.folder)

    def revoked_pem(self) -> bytes:
        """The current list of revoked certificates, to hand to daemons elsewhere."""
        return read_bounded(self.revoked_path, GREATEST_LIST_BYTES)

    def revoked(self) -> RevocationList:
        """The current list of revoked certificates. Raises PeerRefusedError if it is damaged."""
        return parse_list(self.revoked_pem(), [self._root])

    def living(self) -> list[files.Issued]:
        """What is on record and has not ended."""
        now_ns = self._plausible_ns()
        return [e for e in files.read_issued(self.folder) if e.not_after_ns > now_ns]

    def _plausible_ns(self) -> int:
        """The earliest that it may be now."""
        return min(clock.now_ns(), self.sure_ns())

    def _succeeded(self) -> set[str]:
        """Serial numbers of what has ended by the clock and has a successor on record.

        The newest of a name stays: a clock that is wrong must not make the authority forget whom it
        can revoke.
        """
        entries = self.issued()
        newest = {(entry.role, entry.name): entry.serial for entry in entries}
        living = {entry.serial for entry in self.living()}
        return {entry.serial for entry in entries} - living - set(newest.values())

    def _sign(
        self,
        public_key: ec.EllipticCurvePublicKey,
        name: str,
        role: Role,
        hosts: Sequence[str],
        days: float,
        folder: str = "",
        clients: Sequence[ClientOf] = (),
    ) -> tuple[x509.Certificate, files.Issued]:
        """A certificate and its record; with the lock held."""
        of_name = [e for e in files.read_issued(self.folder) if (e.role, e.name) == (role, name)]
        revoked = self.revoked().names.get((role, name))
        now, sure = clock.now_ns() // SECOND_NS, self.sure_ns() // SECOND_NS
        # Later than all others of the name and than what is revoked of it, whatever the clock says.
        order = max(
            min(now, sure),
            revoked.latest if revoked is not None else 0,
            *(entry.issued + 1 for entry in of_name),
        )
        builder = build_certificate(
            self._root,
            public_key,
            Holder(role, name, hosts, clients),
            timedelta(days=min(days + abs(now - sure) / 86400, GREATEST_LIFETIME_DAYS)),
            datetime.fromtimestamp(min(now, sure), UTC),
            order,
        )
        signed = builder.sign(self.load_key(), SHA256())
        entry = files.Issued(
            serial=serial_text(signed.serial_number),
            name=name,
            role=role,
            issued_ns=min(now, sure) * SECOND_NS,
            not_after_ns=int(signed.not_valid_after_utc.timestamp()) * SECOND_NS,
            folder=folder,
            order=order,
        )
        return signed, entry

    def _publish(
        self,
        before: RevocationList,
        changes: Sequence[RevokedName],
        issued: Sequence[files.Issued],
    ) -> None:
        """Sign the list with `changes`, and put it where daemons of this machine read it."""
        # The clock may be years ahead for a minute; nothing was issued then.
        newest_ns = max((entry.issued_ns for entry in issued), default=0)
        past = min(self._plausible_ns(), newest_ns) // SECOND_NS - GREATEST_LIFETIME_DAYS * 86400
        names = before.names | {(one.role, one.name): one for one in changes}
        kept = [one for one in names.values() if one.latest > past]
        pem = signed_list(self.load_key(), before.number + 1, kept)
        write_file(self.revoked_path, pem, PUBLIC_MODE)
        for folder in sorted({entry.folder for entry in issued if entry.folder}):
            if has_identity(folder):
                install_list(os.path.join(os.fsencode(folder), files.REVOKED), pem, [self._root])

    def try_key(self, passphrase: bytes | None) -> None:
        """Check that the root key opens. Raises UsageError, WrongKeyError, DamageError."""
        files.read_root_key(self.folder, passphrase)

    def load_key(self) -> ec.EllipticCurvePrivateKey:
        """The root key, which is read once. Raises UsageError, WrongKeyError, DamageError."""
        if self._key is None:
            self._key = files.read_root_key(self.folder, self._passphrase)
        return self._key


def _unknown(name: str) -> UsageError:
    return UsageError(f"{name!r} has no certificate on record; see `strongroom ca list`")
