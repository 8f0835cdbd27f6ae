"""The data for enrolment, and its results for new agents and for those that renew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strongroom.daemons.director.api.models.responses import Answer

if TYPE_CHECKING:
    from strongroom.net.identities.authority import Authority as CertificateAuthority
    from strongroom.repo.keys.roles import ApplianceKey


@dataclass(frozen=True, slots=True)
class Enrolling:
    """`keys`: the appliance keys of the repositories whose clients this director enrols."""

    authority: CertificateAuthority
    keys: tuple[ApplianceKey, ...] = ()


class Authority(Answer):
    """The appliance's authority (PEM) and its list of withdrawn certificates (PEM)."""

    authority: str
    fingerprint: str
    revoked: str


class Enrolled(Answer):
    """The credentials of a new agent, all PEM; `jobs` that it got as a client of a group."""

    name: str
    director: str
    certificate: str
    authority: str
    revoked: str
    jobs: list[str]


class PutKeys(Answer):
    """The put keys of an agent as text, one for each repository."""

    put_keys: list[str]


class Renewed(Answer):
    """A new certificate, the authority and its list of withdrawn certificates, all PEM.

    `put_keys`: of an agent, as text, one for each repository.
    """

    certificate: str
    authority: str
    revoked: str
    put_keys: list[str]
