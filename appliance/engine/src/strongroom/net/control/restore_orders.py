"""Restore orders: the director's signature below a start message, for who does not trust the agent.

An agent that runs as its own user hands a restore to a process with root's rights. This one
believes only what a director has signed: a statement (net.statements; purpose "restore order") on
the agent's name and the digest of the whole message. So the agent can neither change a target, a
script or an option, nor make up a restore. It can present an order again until that expires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from blake3 import blake3

from strongroom.base.errors import PeerRefusedError
from strongroom.net.identities.identity import Identity
from strongroom.net.identities.statements import sign_statement, verify_statement
from strongroom.net.identities.trust import Trust

if TYPE_CHECKING:
    from strongroom.net.control.messages import StartRestore

_PURPOSE: Final = "restore order"


def ordered(
    identity: Identity, agent: str, start: StartRestore, lifetime_seconds: float
) -> StartRestore:
    """The message with the director's order for this agent."""
    payload = {"agent": agent, "digest": _digest(start)}
    order = sign_statement(identity, _PURPOSE, payload, lifetime_seconds)
    return msgspec.structs.replace(start, order=order)


def check_order(start: StartRestore, trust: Trust, agent: str) -> str:
    """The name of the director that ordered this restore. Raises PeerRefusedError."""
    if not start.order:
        raise PeerRefusedError("no director ordered this restore")
    peer, payload = verify_statement(start.order, trust, _PURPOSE, ("director",))
    if payload.get("agent") != agent:
        raise PeerRefusedError(f"{peer} ordered this restore for another agent, not for {agent!r}")
    if payload.get("digest") != _digest(start):
        raise PeerRefusedError(f"this is not the restore that {peer} ordered")
    return peer.name


def _digest(start: StartRestore) -> bytes:
    return blake3(msgspec.json.encode(msgspec.structs.replace(start, order=""))).digest()
