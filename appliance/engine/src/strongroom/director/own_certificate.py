"""The director's own certificate, which it renews itself, and the files with its keys.

Where it has the authority, one that ended while the machine was off is issued anew: who has the
authority's key may do that, and so an appliance works again after a long pause. So is one that is
not valid yet: it was issued while the clock was ahead. What was revoked is never renewed, nor
issued anew. Likewise what the authority has put into other folders of this machine.
"""

from __future__ import annotations

import logging
import os
from typing import Final

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import PeerRefusedError, StrongroomError, UsageError
from strongroom.config.settings.director import DirectorSettings
from strongroom.engine.repository.keys.roles import ApplianceKey
from strongroom.net.identities.authority import Authority
from strongroom.net.identities.identity import (
    Identity,
    certificate_request,
    has_identity,
    new_key,
    store_identity,
)
from strongroom.net.identities.peer import parse_certificate
from strongroom.net.identities.private_files import first_line
from strongroom.net.identities.renewals import GRACE_DAYS
from strongroom.net.identities.trust import host_names
from strongroom.net.renewal import ended_text, is_of_no_use
from strongroom.service.log_lines import DailyLog

_log = logging.getLogger(__name__)
_LONGEST_KEY_FILE_BYTES: Final = 64 << 10
_OWN: Final = "own"


class OwnCertificate:
    """The certificate in the folder of `identity`; `authority`: None where it is elsewhere."""

    def __init__(self, identity: Identity, authority: Authority | None) -> None:
        self.identity = identity
        self._authority = authority
        self._daily = DailyLog(_log)

    @property
    def is_of_no_use(self) -> bool:
        """Whether it has ended, or is not valid yet."""
        return is_of_no_use(self.identity)

    def follow(self) -> bool:
        """Renew it when that is due, and take a new one; whether there is one. Blocks."""
        try:
            if self._authority is not None and (self.is_of_no_use or self.identity.renewal_due()):
                _renew(self._authority, self.identity, is_of_no_use=self.is_of_no_use)
            found = Identity.load(self.identity.folder)
        except (StrongroomError, OSError) as error:
            self._daily.warn(_OWN, f"the director's certificate cannot be renewed: {error}")
            return False
        if found.serial != self.identity.serial:
            self.identity = found
            self._daily.forget(_OWN)
            _log.info("the director's certificate was replaced, valid until %s", found.not_after)
            return True
        if self.is_of_no_use:
            self._daily.warn(_OWN, ended_text(found))
        elif found.renewal_due():
            self._daily.warn(
                _OWN,
                f"the director's certificate ends {found.not_after}, and there is no Authority "
                f"Directory here to renew it; `strongroom ca issue {found.name} --role director` "
                "where the authority is makes a new one",
            )
        return False


def _renew(authority: Authority, identity: Identity, *, is_of_no_use: bool) -> None:
    if is_of_no_use:
        if authority.revoked().is_revoked(identity.peer):
            raise PeerRefusedError(f"the certificate of {identity.peer} was revoked")
        hosts = host_names(parse_certificate(identity.certificate_der))
        authority.issue_identity(identity.folder, identity.name, identity.role, hosts)
        return
    key_pem = new_key()
    request = certificate_request(key_pem, identity.name)
    certificate_pem = authority.renew(identity.certificate_der, request)
    store_identity(identity.folder, key_pem, certificate_pem, identity.authority_pem)


def renew_here(authority: Authority) -> None:
    """Issue anew what is in folders of this machine and not valid now. Blocks. Raises OSError.

    What was revoked, or has ended long ago, stays as it is, as what belongs to another user.
    """
    newest = {(one.role, one.name): one for one in authority.issued()}
    revoked = authority.revoked()
    for entry in newest.values():
        if not entry.folder or not has_identity(entry.folder):
            continue
        owner = os.stat(entry.folder).st_uid
        if os.geteuid() not in (0, owner):
            continue
        try:
            identity = Identity.load(entry.folder)
        except (StrongroomError, OSError):
            continue  # anyone who uses it says what is wrong
        ended_days = (clock.now_ns() / SECOND_NS - identity.not_after.timestamp()) / 86400
        if (
            identity.serial != entry.serial
            or not is_of_no_use(identity)
            or ended_days > GRACE_DAYS
            or revoked.is_revoked(identity.peer)
        ):
            continue
        hosts = host_names(parse_certificate(identity.certificate_der))
        made = authority.issue_identity(
            entry.folder, entry.name, entry.role, hosts, clients=identity.peer.clients
        )
        _give_to(entry.folder, owner)
        _log.info(
            "the certificate of %s was issued anew, valid until %s", made.peer, made.not_after
        )


def _give_to(folder: str, owner: int) -> None:
    """Files that root has made belong to the user of the daemon."""
    if os.geteuid() == owner:
        return
    group = os.stat(folder).st_gid
    for found in os.scandir(folder):
        if found.is_file(follow_symlinks=False):
            os.chown(found.path, owner, group, follow_symlinks=False)


def authority_passphrase(settings: DirectorSettings) -> bytes | None:
    """The passphrase of the authority's key; None if it has none. Raises UsageError."""
    path = settings.authority_passphrase_file
    if not path:
        return None
    return first_line(path)


def appliance_keys(settings: DirectorSettings) -> tuple[ApplianceKey, ...]:
    """The appliance keys of the repositories whose clients are enrolled here. Raises UsageError.

    A restore key in their place is refused: it would read everything, and nothing here needs that.
    """
    from strongroom.engine.repository.keys.files import import_key

    found: dict[bytes, ApplianceKey] = {}
    for path in settings.appliance_key_files:
        key = import_key(_read(path, _LONGEST_KEY_FILE_BYTES).decode("ascii", "replace"))
        if type(key) is not ApplianceKey:
            raise UsageError(
                f"{path} is not an appliance key; make one with `strongroom key export-appliance`"
            )
        if key.repository_id in found:
            raise UsageError(f"{path} is of the same repository as another Appliance Key File")
        found[key.repository_id] = key
    return tuple(found.values())


def _read(path: str, most_bytes: int) -> bytes:
    try:
        with open(os.fsencode(path), "rb") as file:
            return file.read(most_bytes)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
