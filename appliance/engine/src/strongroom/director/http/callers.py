"""Authentication: a certificate or a bearer token, and the rights that the configuration grants.

- The director's own certificate (whose folder only root on the appliance can read) has all rights,
as the default console of Bareos.
- An operator's certificate has the rights of the Console or User resource of its name.
- A token that was made for a Console or User has the rights of that resource, restricted to its
Profile, and ends with the resource. A token that was made for none has the rights of its Profile.
- A certificate of another role may only connect, enrol and renew.

Other callers get an error that says what is missing; wrong tokens are counted by address.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import NotAuthenticatedError, NotPermittedError
from strongroom.config.settings.configuration import DirectorConfiguration
from strongroom.director.director import Director
from strongroom.director.http.limits import Attempts, CertifiedPeer
from strongroom.director.http.rights import CallerRights
from strongroom.director.results.access import (
    Actor,
    Token,
    console_named,
    console_type,
    missing_resource,
)
from strongroom.net.identities.revocations import Revocations

LONGEST_TOKEN = 512


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller and its rights; `token`: the one presented, None for a certificate."""

    actor: Actor
    rights: CallerRights
    token: Token | None = None

    @property
    def name(self) -> str:
        """Name of the Console, User or certificate."""
        return self.actor.name


class Callers:
    """Authenticates callers by connection and request."""

    def __init__(
        self, director: Director, revocations: Revocations | None, wrong_tokens: Attempts
    ) -> None:
        self._director = director
        self._revocations = revocations
        self._wrong_tokens = wrong_tokens

    async def identify(
        self, state: Mapping[str, Any], address: str, authorization: str, *, is_known: bool = False
    ) -> Caller:
        """The caller of a request.

        `state`: of its ASGI scope. `authorization`: its header, "" without. `is_known`: was valid
        before, so this is no attempt to guess a token. Raises NotAuthenticatedError,
        NotPermittedError, TooManyAttemptsError.
        """
        if authorization:
            return await self._of_token(authorization, address, is_known)
        certified: CertifiedPeer | None = state.get("certified")
        if certified is None:
            raise NotAuthenticatedError("send a token (Authorization: Bearer) or use a certificate")
        return self._of_certificate(certified, address, is_known)

    def require_certificate(self, state: Mapping[str, Any]) -> CertifiedPeer:
        """The peer that renews a certificate. Raises NotAuthenticatedError."""
        certified: CertifiedPeer | None = state.get("certified")
        if certified is None:
            raise NotAuthenticatedError("present the certificate that is to be renewed")
        self._check_good(certified)
        return certified

    async def _of_token(self, authorization: str, address: str, is_known: bool) -> Caller:
        scheme, _, text = authorization.partition(" ")
        token = None
        if scheme.lower() == "bearer" and 0 < len(text) <= LONGEST_TOKEN:
            token = await self._director.queries.token_of(text.strip())
        if token is None:
            # Only failures are limited: a stale token must not lock out others at its address.
            if not is_known:
                self._wrong_tokens.check(address)
                self._wrong_tokens.failed(address)
            raise NotAuthenticatedError("this token is unknown, expired or revoked")
        return self._with_token(token, address)

    async def of_session(self, token_id: str, address: str) -> Caller:
        """The caller whose session of the web page began with this token.

        Raises NotAuthenticatedError once the token has ended, NotPermittedError.
        """
        token = await self._director.queries.token_of_id(token_id)
        if token is None:
            raise NotAuthenticatedError("the token of this session has expired or was revoked")
        return self._with_token(token, address)

    def _with_token(self, token: Token, address: str) -> Caller:
        configuration = self._director.configuration
        if missing := missing_resource(configuration, token):
            raise NotPermittedError(f"there is no {missing} any more, so this token has ended")
        layers = [
            CallerRights.of(one, configuration.profiles)
            for one in (
                console_named(configuration, token.name, token.bound_to),
                configuration.profiles.get(token.profile),
            )
            if one is not None
        ]
        # Without any layer nothing is allowed.
        rights = reduce(CallerRights.limited_to, layers, CallerRights(everything=bool(layers)))
        return Caller(Actor(token.name, "token", address), rights, token)

    def _of_certificate(self, certified: CertifiedPeer, address: str, is_known: bool) -> Caller:
        self._check_good(certified, is_known=is_known)
        peer = certified.peer
        if peer.role == "director":
            return Caller(Actor(peer.name, peer.role, address), CallerRights(everything=True))
        if peer.role != "operator":
            raise NotPermittedError(
                f"the certificate of {peer} is not one of an operator; `strongroom ca issue NAME "
                "--role operator` makes one"
            )
        rights = console_rights(self._director.configuration, peer.name)
        if rights is None:
            raise NotPermittedError(
                f"there is no Console resource {peer.name!r} that defines what you may do; add "
                "it to the director's configuration and reload, or use another certificate"
            )
        return Caller(Actor(peer.name, peer.role, address), rights)

    def _check_good(self, certified: CertifiedPeer, *, is_known: bool = False) -> None:
        # TLS checked this when the connection was made, which may be long ago.
        peer = certified.peer
        if certified.expires_at <= clock.now_ns() / SECOND_NS:
            raise NotAuthenticatedError(f"the certificate of {peer} has expired")
        if self._revocations is None or (is_known and not self._revocations.is_revoked(peer)):
            return
        if refusal := self._revocations.refusal(peer):
            raise NotAuthenticatedError(refusal)


def console_rights(configuration: DirectorConfiguration, name: str) -> CallerRights | None:
    """The rights of the Console or User of this name; None when there is none."""
    found = console_named(configuration, name, console_type(configuration, name))
    return None if found is None else CallerRights.of(found, configuration.profiles)
