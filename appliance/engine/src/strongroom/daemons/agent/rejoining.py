"""Gives up the identity of this machine, which is a copy of another, to the director."""

from __future__ import annotations

import shutil
import ssl
from typing import TYPE_CHECKING, Final

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

import strongroom
from strongroom import clock
from strongroom.daemons.agent.connections import CONNECT_PATH
from strongroom.daemons.agent.conversation import machine_digest
from strongroom.errors import DirectorError, UsageError
from strongroom.net.channels.tls_contexts import client_context
from strongroom.net.control.messages import CLOSE_LEFT, PROTOCOL_VERSION, Hello, encode
from strongroom.net.control.own_requests import OWN_HEADERS
from strongroom.net.identities.identity import Identity
from strongroom.printable import printable

if TYPE_CHECKING:
    from strongroom.daemons.agent.settings import AgentSettings, KnownDirector

_PATIENCE_SECONDS: Final = 30.0


def give_up(settings: AgentSettings) -> KnownDirector:
    """Tell the director that this machine is not its client, and remove certificate and keys.

    Returns which director was told. Raises UsageError, PeerRefusedError, DirectorError, OSError.
    """
    identity = Identity.load(settings.identity_folder)
    for director in settings.directors.values():
        if director.address:
            _tell(director, identity)
            shutil.rmtree(settings.identity_folder)
            return director
    raise UsageError("no Director resource has an Address, so none can be told")


def _tell(director: KnownDirector, identity: Identity) -> None:
    where = f"Director {printable(director.name)} at {director.address}:{director.port}"
    shown = f"[{director.address}]" if ":" in director.address else director.address
    hello = Hello(
        name=identity.name,
        protocol=PROTOCOL_VERSION,
        version=strongroom.__version__,
        platform="",
        clock_ns=clock.now_ns(),
        boot_id=clock.boot_id(),
        instance=clock.random_bytes(8).hex(),
        machine=machine_digest(),
        leaves=True,
    )
    try:
        with connect(
            f"wss://{shown}:{director.port}{CONNECT_PATH}",
            ssl=client_context(identity, check_hostname=False),
            additional_headers=OWN_HEADERS,
            compression=None,
            open_timeout=_PATIENCE_SECONDS,
        ) as connection:
            assert isinstance(connection.socket, ssl.SSLSocket)
            certificate = connection.socket.getpeercert(binary_form=True) or b""
            identity.trust.judge_server(certificate, director.name, ("director",))
            connection.send(encode(hello).decode())
            connection.recv(_PATIENCE_SECONDS)
    except ConnectionClosed as error:
        if error.rcvd is not None and error.rcvd.code == CLOSE_LEFT:
            return
        why = error.rcvd.reason if error.rcvd is not None else "it ended the connection"
        raise DirectorError(f"{where} refuses: {why}; nothing was changed") from error
    except (OSError, TimeoutError, InvalidHandshake) as error:
        raise DirectorError(f"{where} is not reachable: {error}; nothing was changed") from error
    raise DirectorError(f"{where} is of a version without `rejoin`; upgrade it first")
