"""Certificates for agents: enrolment with a one-time token, and renewal.

A machine that enrols fetches the authority first, without trusting it, and compares the fingerprint
with the one given to its operator; only then does it connect again, trusting this authority alone,
and sends its token.
"""

from __future__ import annotations

import asyncio

from cryptography import x509
from fastapi import APIRouter, Request

from strongroom.daemons.director.api.enrolment import Authority, Enrolled, Enrolling, Renewed
from strongroom.daemons.director.api.models.requests import Enrolment, Renewal
from strongroom.daemons.director.api.request_context import ApiContext, address_of
from strongroom.daemons.director.enrolled_client import EnrolledClient
from strongroom.daemons.director.results import Actor
from strongroom.errors import PeerRefusedError, UnknownNameError
from strongroom.net.identities.peer import serial_text

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
    """The first certificate of an agent; its token can be used only once.

    A good token is accepted however many wrong ones came from the same address.
    """
    context: ApiContext = request.app.state.context
    enrolling = _enrolling(request)
    address = address_of(request)
    client = EnrolledClient(context.director.context, enrolling.keys, wanted.name)

    def certify() -> bytes:
        # First: while the catalog is away no token is consumed.
        client.look(enrolling.authority.tokens.look(wanted.token, wanted.name))
        csr = wanted.csr.encode()
        return enrolling.authority.enrol(wanted.token, csr, wanted.name, client.enrol)

    try:
        async with context.enrolment_places:
            certificate = await asyncio.to_thread(certify)
    except PeerRefusedError as error:
        # Only what the audit log gets is limited: nobody guesses a token of 256 bits.
        context.wrong_enrolments.check(address)
        context.wrong_enrolments.failed(address)
        await context.director.commands.audit_agent(
            wanted.name, address, "enrol", wanted.name, error.error_id
        )
        raise
    serial = _serial(certificate)
    await context.director.commands.note_certificate(wanted.name, serial)
    await context.director.commands.audit_agent(
        wanted.name, address, "enrol", f"{wanted.name} certificate {serial}"
    )
    return Enrolled(
        name=wanted.name,
        director=context.director.configuration.director.name,
        certificate=certificate.decode("ascii"),
        authority=enrolling.authority.certificate_pem.decode("ascii"),
        revoked=await _revoked(enrolling),
        put_keys=client.put_keys,
    )


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
        await context.director.commands.audit_agent(
            peer.name, address_of(request), "renew", f"{peer.name} certificate {serial}"
        )
    else:
        actor = Actor(peer.name, peer.role, address_of(request))
        await context.director.commands.audit(actor, "renew", f"{peer.name} certificate {serial}")
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
