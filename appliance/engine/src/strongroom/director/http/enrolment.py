"""Certificates and put keys for agents: enrolment with a token, and renewal.

A machine that enrols fetches the authority first, without trusting it, and compares the fingerprint
with the one given to its operator; only then does it connect again, trusting this authority alone,
and sends its token. Its put keys are given to the holder of the certificate alone.
"""

from __future__ import annotations

import asyncio

from cryptography import x509
from fastapi import APIRouter, Request

from strongroom.base.errors import NotPermittedError, PeerRefusedError, UnknownNameError
from strongroom.director.enrolled_clients import (
    EnrolledClient,
    JoiningClient,
    check_free,
    joining_client,
)
from strongroom.director.http.bodies import (
    Authority,
    Enrolled,
    Enrolment,
    PutKeys,
    Renewal,
    Renewed,
)
from strongroom.director.http.request_context import ApiContext, Enrolling, address_of
from strongroom.director.results.access import Actor
from strongroom.net.identities.enrolment_tokens import TokenUse, token_id
from strongroom.net.identities.enrolments import key_digest, new_certificate, permitted
from strongroom.net.identities.peer import serial_text
from strongroom.net.identities.renewals import is_late_proof, read_late_proof

router = APIRouter(tags=["enrolment"])


@router.get("/authority")
async def authority(request: Request) -> Authority:
    """The authority's certificate and its revocation list; no authentication."""
    enrolling = _enrolling(request)
    return Authority(
        authority=enrolling.authority.certificate_pem.decode("ascii"),
        fingerprint=enrolling.authority.fingerprint,
        revoked=await _revoked(enrolling),
    )


@router.post("/enrol", status_code=201)
async def enrol(wanted: Enrolment, request: Request) -> Enrolled:
    """The first certificate of an agent, by a token; the same again for the same key.

    A good token is accepted however many wrong ones came from the same address. With a token for a
    group the agent becomes a client of the configuration.
    """
    context: ApiContext = request.app.state.context
    enrolling = _enrolling(request)
    address = address_of(request)
    shown = ""
    joining: JoiningClient | None = None
    try:
        async with context.enrolment_places:
            if is_late_proof(wanted.token):
                return await _renew_late(context, enrolling, wanted, address)
            use = await asyncio.to_thread(
                enrolling.authority.tokens.look, wanted.token, wanted.name
            )
            shown = token_id(wanted.token)
            if use.name and not use.group:
                certificate = await asyncio.to_thread(_certify, context, enrolling, wanted)
            else:
                context.refused_joins.check(address)
                async with context.joining:
                    certificate, joining = await _join(context, enrolling, wanted, use)
    except PeerRefusedError as error:
        # Only what the audit log gets is limited: no one guesses a token of 256 bits.
        limit = context.refused_joins if shown else context.wrong_enrolments
        limit.check(address)
        limit.failed(address)
        await context.director.audit_log.record_of_agent(
            wanted.name,
            address,
            "enrol",
            f"{wanted.name} by token {shown or 'unknown'}",
            error.error_id,
        )
        raise
    serial = _serial(certificate)
    await context.director.commands.note_certificate(wanted.name, serial)
    of_group = f" of group {use.group}" if use.group else ""
    await context.director.audit_log.record_of_agent(
        wanted.name,
        address,
        "enrol",
        f"{wanted.name} certificate {serial} by token {shown}{of_group}",
    )
    return await _enrolled(context, enrolling, wanted.name, certificate, joining)


async def _renew_late(
    context: ApiContext, enrolling: Enrolling, wanted: Enrolment, address: str
) -> Enrolled:
    """The next certificate for the holder of one that is not valid now. Raises PeerRefusedError."""
    authority, csr = enrolling.authority, wanted.csr.encode()

    def certify() -> bytes:
        certificate, peer = read_late_proof(wanted.token, authority.fingerprint, csr)
        if peer.name != wanted.name:
            raise PeerRefusedError(f"the certificate is of {peer}, not of {wanted.name!r}")
        clients = EnrolledClient(context.director.context, enrolling.keys, peer.name).renew(peer)
        return authority.renew(certificate, csr, clients, is_late=True)

    certificate = await asyncio.to_thread(certify)
    serial = _serial(certificate)
    if wanted.name in context.director.configuration.clients:
        await context.director.commands.note_certificate(wanted.name, serial)
    await context.director.audit_log.record_of_agent(
        wanted.name, address, "renew", f"{wanted.name} certificate {serial}, after its end"
    )
    return await _enrolled(context, enrolling, wanted.name, certificate)


async def _enrolled(
    context: ApiContext,
    enrolling: Enrolling,
    name: str,
    certificate: bytes,
    joining: JoiningClient | None = None,
) -> Enrolled:
    return Enrolled(
        name=name,
        director=context.director.configuration.director.name,
        certificate=certificate.decode("ascii"),
        authority=enrolling.authority.certificate_pem.decode("ascii"),
        revoked=await _revoked(enrolling),
        jobs=list(joining.jobs) if joining is not None else [],
    )


@router.post("/put-keys")
async def put_keys(request: Request) -> PutKeys:
    """The put keys of the agent that shows its certificate."""
    context: ApiContext = request.app.state.context
    enrolling = _enrolling(request)
    certified = context.callers.require_certificate(request.scope["state"])
    peer = certified.peer
    if peer.role != "agent":
        raise NotPermittedError(f"the certificate of {peer} is not one of an agent")
    client = EnrolledClient(context.director.context, enrolling.keys, peer.name)
    return PutKeys(put_keys=await asyncio.to_thread(client.deliver, peer))


def _certify(
    context: ApiContext, enrolling: Enrolling, wanted: Enrolment, *, is_repeated: bool = False
) -> bytes:
    client = EnrolledClient(context.director.context, enrolling.keys, wanted.name)
    # First: while the catalog is unreachable no token is used.
    use = enrolling.authority.tokens.look(wanted.token, wanted.name)
    client.look(use, is_repeated=is_repeated)
    csr = wanted.csr.encode()
    return new_certificate(enrolling.authority, wanted.token, csr, wanted.name, client.enrol)


async def _join(
    context: ApiContext, enrolling: Enrolling, wanted: Enrolment, use: TokenUse
) -> tuple[bytes, JoiningClient | None]:
    """Certificate, and resources of a client that chose its name or joins a group.

    One at a time, so that no two get the same name. The certificate is first: anyone who is
    interrupted afterwards repeats it with the same key, and gets the resources then.
    """
    director = context.director

    def prepare() -> tuple[bool, JoiningClient | None]:
        key = key_digest(wanted.csr.encode())
        _, is_repeated = permitted(enrolling.authority, wanted.token, wanted.name, key)
        if not use.group or (
            wanted.name in director.configuration.clients and (use.name or is_repeated)
        ):
            return is_repeated, None
        check_free(director.configuration, wanted.name)
        joining = joining_client(
            director.configuration, director.commands.path, wanted.name, use.group
        )
        return is_repeated, joining

    is_repeated, joining = await asyncio.to_thread(prepare)
    certificate = await asyncio.to_thread(
        lambda: _certify(context, enrolling, wanted, is_repeated=is_repeated)
    )
    if joining is not None:
        await director.commands.add_client(joining)
    return certificate, joining


@router.post("/renew")
async def renew(wanted: Renewal, request: Request) -> Renewed:
    """The next certificate for the peer of a valid one, with the same name and role."""
    context: ApiContext = request.app.state.context
    enrolling = _enrolling(request)
    certified = context.callers.require_certificate(request.scope["state"])
    peer = certified.peer
    client = EnrolledClient(context.director.context, enrolling.keys, peer.name)

    def certify() -> bytes:
        clients = client.renew(peer)
        return enrolling.authority.renew(certified.certificate, wanted.csr.encode(), clients)

    certificate = await asyncio.to_thread(certify)
    serial = _serial(certificate)
    if peer.role == "agent":
        await context.director.commands.note_certificate(peer.name, serial)
        await context.director.audit_log.record_of_agent(
            peer.name, address_of(request), "renew", f"{peer.name} certificate {serial}"
        )
    else:
        actor = Actor(peer.name, peer.role, address_of(request))
        await context.director.audit_log.record(actor, "renew", f"{peer.name} certificate {serial}")
    return Renewed(
        certificate=certificate.decode("ascii"),
        authority=enrolling.authority.certificate_pem.decode("ascii"),
        revoked=await _revoked(enrolling),
        put_keys=client.put_keys,
    )


def _enrolling(request: Request) -> Enrolling:
    context: ApiContext = request.app.state.context
    if context.enrolling is None:
        raise UnknownNameError("this director has no certificate authority; enrol where it is")
    return context.enrolling


async def _revoked(enrolling: Enrolling) -> str:
    return (await asyncio.to_thread(enrolling.authority.revoked_pem)).decode("ascii")


def _serial(certificate_pem: bytes) -> str:
    return serial_text(x509.load_pem_x509_certificate(certificate_pem).serial_number)
