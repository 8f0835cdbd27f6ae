"""The data for enrolment, and its results for new agents and for those that renew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.daemons.director.api.models.responses import Answer

if TYPE_CHECKING:
    from strongroom.net.identities.authority import Authority as CertificateAuthority


@dataclass(frozen=True, slots=True)
class Enrolling:
    """`put_key`: text of the put key of this director's repository, None where it has none."""

    authority: CertificateAuthority
    put_key: str | None = None


class Authority(Answer):
    """The appliance's authority (PEM) and its list of withdrawn certificates (PEM)."""

    authority: str
    fingerprint: str
    revoked: str


class Enrolled(Answer):
    """The credentials of a new agent, all PEM; `put_key` as text if the director has one."""

    name: str
    director: str
    certificate: str
    authority: str
    revoked: str
    put_key: str | None = None


class Renewed(Answer):
    """A new certificate, the authority and its list of withdrawn certificates, all PEM."""

    certificate: str
    authority: str
    revoked: str
