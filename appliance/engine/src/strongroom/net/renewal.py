"""What holders of certificates ask of the director over HTTPS: renewal, and what was revoked.

Storage daemons, agents and operators renew alike: a new key, a request under the current
certificate, and the answer in the identity folder. The authority stays the one of the folder: no
answer may change it. The certificate of an agent or storage daemon that has ended renews itself for
some months (`identities.renewals`); of others, and later, `ended_text` says what to do.
All functions block, for up to half a minute.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS, utc_text
from strongroom.base.decoding import decodable, reading
from strongroom.base.errors import DirectorError, PeerRefusedError
from strongroom.base.printable import printable
from strongroom.net.channels.tls_contexts import authority_context, client_context
from strongroom.net.control.messages import OWN_HEADERS
from strongroom.net.identities.identity import (
    Identity,
    certificate_request,
    new_key,
    store_identity,
)
from strongroom.net.identities.renewals import GRACE_DAYS, GRACE_ROLES, late_proof
from strongroom.net.identities.revocations import install_list
from strongroom.net.identities.trust import roots_of

_TIMEOUT_SECONDS: Final = 30.0
_LARGEST_ANSWER_BYTES: Final = 4 << 20
# X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED.
_OUT_OF_TIME: Final = (9, 10)


class DirectorAddress(NamedTuple):
    """Where a director is reached. name: its own, "" for one of the host in its certificate."""

    host: str
    port: int
    name: str = ""


class IssuedAnswer(msgspec.Struct, frozen=True):
    """What the director answers to an enrolment or renewal; PEM, `put_keys` (renewal) as text."""

    certificate: str
    authority: str
    revoked: str = ""
    director: str = ""
    put_keys: tuple[str, ...] = ()


class AuthorityAnswer(msgspec.Struct, frozen=True):
    """The director's authority and its list of revoked certificates (PEM)."""

    authority: str
    revoked: str = ""


def renew_certificate(
    director: DirectorAddress, folder: bytes | str
) -> tuple[Identity, tuple[str, ...]]:
    """Get the next certificate with the current one; returns it, and an agent's put keys.

    Raises UsageError, PeerRefusedError (also for a certificate that has ended), DirectorError.
    """
    identity = Identity.load(folder)
    key_pem = new_key()
    request = certificate_request(key_pem, identity.name)
    question = {"csr": request.decode("ascii")}
    if is_of_no_use(identity):
        # No one takes it any more, so the connection is that of a stranger.
        question |= {"token": late_proof(identity, request), "name": identity.name}
        context = authority_context(identity.authority_pem)
        judge = _judge(identity, director)
        issued: IssuedAnswer = ask(
            director, context, "POST", "/api/v1/enrol", question, IssuedAnswer, judge
        )
    else:
        issued = _ask_as(identity, director, "POST", "/api/v1/renew", question, IssuedAnswer)
    renewed = store_identity(folder, key_pem, issued.certificate.encode(), identity.authority_pem)
    keep_revoked(renewed, issued.revoked)
    return renewed, issued.put_keys


def fetch_revoked(director: DirectorAddress, identity: Identity) -> bool:
    """Fetch the list of revoked certificates; whether it is newer than the one in the folder.

    Raises PeerRefusedError (also for a list that our authority has not signed), DirectorError.
    """
    found: AuthorityAnswer = _ask_as(
        identity, director, "GET", "/api/v1/authority", None, AuthorityAnswer
    )
    return keep_revoked(identity, found.revoked)


def keep_revoked(identity: Identity, revoked_pem: str) -> bool:
    """Put a list of revoked certificates beside an identity; whether it is newer."""
    if not revoked_pem:
        return False
    roots = roots_of(identity.authority_pem)
    return install_list(identity.revoked_path, revoked_pem.encode(), roots)


def has_ended(identity: Identity) -> bool:
    """Whether a certificate is not valid any more."""
    return identity.not_after.timestamp() * SECOND_NS <= clock.now_ns()


def has_not_begun(identity: Identity) -> bool:
    """Whether a certificate is not valid yet: it was issued by a clock that was ahead."""
    return identity.not_before.timestamp() * SECOND_NS > clock.now_ns()


def is_of_no_use(identity: Identity) -> bool:
    """Whether a certificate is not valid now."""
    return has_ended(identity) or has_not_begun(identity)


def require_living(identity: Identity) -> None:
    """Raise PeerRefusedError, with the remedy, for a certificate that is not valid now."""
    if is_of_no_use(identity):
        raise PeerRefusedError(ended_text(identity))


def ended_text(identity: Identity) -> str:
    """That a certificate has ended, or is not valid yet, and how its holder gets another."""
    name = printable(identity.name)
    if identity.role == "agent":
        remedy = (
            f"`strongroom ca renew {name}` at the appliance lets it renew, or `strongroom ca token "
            f"{name}` makes a token, and `strongroom agent "
            "enrol` with it gets a new certificate here"
        )
    else:
        remedy = (
            f"`strongroom ca issue {name} --role {identity.role}` at the appliance makes another, "
            "with --host for each address of a daemon; put it into this folder"
        )
    late_days = (clock.now_ns() / SECOND_NS - identity.not_after.timestamp()) / 86400
    if identity.role in GRACE_ROLES and late_days <= GRACE_DAYS:
        remedy = f"it is renewed as soon as its director answers; if that refuses, {remedy}"
    what = f"the certificate of {identity.peer} in {printable(identity.folder)}"
    if has_not_begun(identity):
        return (
            f"{what} is not valid before {identity.not_before:%Y-%m-%d %H:%M} UTC, and by this "
            f"machine's clock it is {utc_text(clock.now_ns())[:16]}: set the clock if it is wrong; "
            f"else {remedy}"
        )
    return (
        f"{what} ended on {identity.not_after:%Y-%m-%d %H:%M} UTC and is no longer valid; {remedy}"
    )


def ask(
    director: DirectorAddress,
    context: ssl.SSLContext,
    method: str,
    path: str,
    question: dict[str, str] | None,
    answer: type[Any],
    judge: Any = None,
) -> Any:
    """One request and its answer. `judge` checks the server's certificate before it is sent."""
    host, port, _ = director
    connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=context)
    try:
        connection.connect()
        if judge is not None:
            judge(connection.sock.getpeercert(True))
        body = None if question is None else msgspec.json.encode(question)
        headers = {} if body is None else {"Content-Type": "application/json", **OWN_HEADERS}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read(_LARGEST_ANSWER_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DirectorError(
            f"the director at {host}:{port} cannot be reached: {reason}{_clock_hint(error)}"
        ) from error
    finally:
        connection.close()
    if response.status >= 300:
        raise PeerRefusedError(f"the director refuses: {_error_text(data, response.status)}")
    with reading("the director's answer", DirectorError):
        return msgspec.json.decode(data, type=decodable(answer))


def _ask_as(
    identity: Identity,
    director: DirectorAddress,
    method: str,
    path: str,
    question: dict[str, str] | None,
    answer: type[Any],
) -> Any:
    judge = _judge(identity, director)
    context = client_context(identity, check_hostname=False)
    return ask(director, context, method, path, question, answer, judge)


def _judge(identity: Identity, director: DirectorAddress) -> Callable[[bytes], None]:
    def judge(certificate: bytes) -> None:
        identity.trust.judge_server(certificate, director.name or director.host, ("director",))

    return judge


def _clock_hint(error: Exception) -> str:
    if getattr(error, "verify_code", 0) not in _OUT_OF_TIME:
        return ""
    return f". It is {utc_text(clock.now_ns())} by this machine's clock; set that if it is wrong"


def _error_text(data: bytes, status: int) -> str:
    try:
        error_fields: Any = msgspec.json.decode(data)
        return printable(str(error_fields["message"]))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return f"HTTP status {status}"
