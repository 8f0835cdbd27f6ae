"""Connections between daemons: `connect` dials, `Acceptor` accepts. One port serves all modes.

The first byte of the client selects the mode: "S" the handshake of mode "off", byte 22 a TLS
handshake, "K" a TLS handshake by a client that requests kTLS on both sides. That byte is not
authenticated, so it grants nothing: `allow` decides which mode a peer may use once the peer and the
mode are authenticated.

Mutual TLS 1.3; certificates of our own authority only; revoked ones are refused, and connections
that they opened are ended within seconds (see `Acceptor`).
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels import ktls
from strongroom.net.channels.channel import Channel, ChannelMode, Security, tune_socket
from strongroom.net.channels.greeting import (
    EarlyChannel,
    receive_greeting,
    send_refusal,
    send_welcome,
)
from strongroom.net.channels.off_handshake import (
    MAGIC,
    Judge,
    shake_hands_as_client,
    shake_hands_as_server,
)
from strongroom.net.channels.off_records import OffChannel
from strongroom.net.channels.open_channels import OpenChannels
from strongroom.net.channels.plain_stream import (
    apply_deadline,
    lost,
    peek_byte,
    receive_before,
    send_before,
)
from strongroom.net.channels.tls_channel import TlsChannel, tls_failure
from strongroom.net.channels.tls_contexts import client_context, forget_errors, server_context
from strongroom.net.identities.identity import Identity
from strongroom.net.identities.peer import ROLES, SERVER_ROLES, Peer

if TYPE_CHECKING:
    from strongroom.net.control.messages import TlsMode

_CONNECT_SECONDS = 30.0
_WANTS_KTLS = b"K"
_TLS_HANDSHAKE = b"\x16"
_OFF_HANDSHAKE = MAGIC[:1]
_UNKNOWN_PEER = Peer("", "", "")


def connect(
    address: str,
    port: int,
    server_name: str,
    identity: Identity,
    mode: TlsMode = "tls",
    cipher_suites: str = "",
    roles: Collection[str] = SERVER_ROLES,
    *,
    is_early: bool = False,
) -> Channel:
    """Dial a daemon and return when it has accepted us.

    `is_early`: return once the daemon is authenticated; the first use of the channel reads its
    greeting. Not with kTLS, where the kernel takes over between the two.

    `server_name`: the name, or one of the DNS names or addresses, that its certificate must have.
    Mode "ktls" falls back to TLS in OpenSSL, with a warning in the channel's `security`;
    "ktls-required" is refused unless the kernels of both sides encrypt what is sent. The channel
    has no timeout. Raises PeerRefusedError, ConnectionLostError, or UsageError for an unknown
    cipher suite.
    """
    deadline = clock.elapsed_seconds() + _CONNECT_SECONDS

    def judge(certificate: bytes) -> Peer:
        return identity.trust.judge_server(certificate, server_name, roles)

    connection = _dial(address, port, _CONNECT_SECONDS)
    channel: OffChannel | TlsChannel
    try:
        if mode == "off":
            channel = shake_hands_as_client(connection, identity, judge, deadline)
        else:
            wants_ktls = mode != "tls"
            context = client_context(identity, cipher_suites, ktls=wants_ktls, check_hostname=False)
            if wants_ktls:
                send_before(connection, _WANTS_KTLS, deadline)
            channel = _tls_channel(
                connection, context, judge, deadline, ktls_wanted=wants_ktls, is_server=False
            )
    except BaseException:
        connection.close()
        raise
    if is_early and mode in ("off", "tls"):
        return EarlyChannel(channel, deadline)
    try:
        channel.set_timeout(max(0.001, deadline - clock.elapsed_seconds()))
        greeting = receive_greeting(channel)
        channel.set_timeout(None)
        if isinstance(channel, TlsChannel):
            channel.security = replace(
                channel.security,
                peer_ktls_send=greeting.ktls_send,
                peer_ktls_receive=greeting.ktls_receive,
            )
            if mode == "ktls-required":
                _require_ktls(channel.security)
    except BaseException:
        channel.close()
        raise
    return channel


class Acceptor:
    """Makes channels of the connections that a daemon accepts.

    `allow(peer, mode)`: whether a peer may use the mode of its channel, "off", "tls" or "ktls"; the
    last only where kTLS is in use. It is called before the peer is accepted. `roles`: whose
    certificates are accepted here. Peers on a Unix socket are admitted by their user instead: see
    `local_channel.admit_local`.

    A thread of its own ends connections whose certificate was revoked, within five seconds of the
    list's replacement. `accept` may be called from several threads at once.
    """

    def __init__(
        self,
        identity: Identity,
        allow: Callable[[Peer, ChannelMode], bool],
        *,
        roles: Collection[str] = ROLES,
        cipher_suites: str = "",
        handshake_timeout_seconds: float = 20.0,
    ) -> None:
        self._allow = allow
        self._roles = frozenset(roles)
        self._cipher_suites = cipher_suites
        self._timeout_seconds = handshake_timeout_seconds
        self._credentials = _Credentials(identity, cipher_suites)
        self.open_channels = OpenChannels(lambda: self._credentials.identity.trust)

    def accept(self, connection: socket.socket) -> Channel:
        """Finish the handshake of an accepted connection, and take ownership of it.

        Takes `handshake_timeout_seconds` at most. Raises PeerRefusedError or ConnectionLostError,
        with the connection closed. The channel has no timeout.
        """
        deadline = clock.elapsed_seconds() + self._timeout_seconds
        try:
            channel = self._shake_hands(connection, deadline)
        except BaseException:
            connection.close()
            raise
        try:
            channel.set_timeout(max(0.001, deadline - clock.elapsed_seconds()))
            mode = channel.security.mode
            if not self._allow(channel.peer, mode):
                reason = (
                    f"{channel.peer} may not connect with TLS mode {mode!r}: permissions and modes "
                    "are set in the Director resources of the storage daemon and by its "
                    "Storage resource (Clients, Operators, TLS Enable, Plain Clients, Enable kTLS)"
                )
                send_refusal(channel, reason)
                raise PeerRefusedError(reason)
            send_welcome(channel)
            channel.set_timeout(None)
            self.open_channels.add(channel)
        except BaseException:
            channel.close()
            raise
        return channel

    def replace_identity(self, identity: Identity) -> None:
        """Present a renewed certificate from now on; open channels stay."""
        self._credentials = _Credentials(identity, self._cipher_suites)

    def close(self) -> None:
        """End the thread; open channels stay."""
        self.open_channels.stop()

    def _shake_hands(self, connection: socket.socket, deadline: float) -> Channel:
        tune_socket(connection)
        credentials = self._credentials
        identity = credentials.identity

        def judge(certificate: bytes) -> Peer:
            return identity.trust.judge(certificate, self._roles)

        first = peek_byte(connection, deadline)
        if first == _OFF_HANDSHAKE:
            return shake_hands_as_server(connection, identity, judge, deadline)
        if first not in {_TLS_HANDSHAKE, _WANTS_KTLS}:
            raise PeerRefusedError("the peer does not speak our protocol")
        wants_ktls = first == _WANTS_KTLS
        if wants_ktls:
            receive_before(connection, len(_WANTS_KTLS), deadline)
        context = credentials.ktls_context if wants_ktls else credentials.tls_context
        return _tls_channel(
            connection, context, judge, deadline, ktls_wanted=wants_ktls, is_server=True
        )


class _Credentials:
    """An identity, and its TLS context."""

    def __init__(self, identity: Identity, cipher_suites: str) -> None:
        self.identity = identity
        self.tls_context = server_context(identity, cipher_suites)
        self.ktls_context = server_context(identity, cipher_suites, ktls=True)


def _dial(address: str, port: int, timeout_seconds: float) -> socket.socket:
    try:
        connection = socket.create_connection((address, port), timeout_seconds)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConnectionLostError(
            f"cannot reach the storage daemon at {address} port {port}: {reason}"
        ) from error
    tune_socket(connection)
    return connection


def _tls_channel(
    connection: socket.socket,
    context: ssl.SSLContext,
    judge: Judge,
    deadline: float,
    *,
    ktls_wanted: bool,
    is_server: bool,
) -> TlsChannel:
    """Do the TLS handshake, authenticate the peer, and determine what the kernel encrypts."""
    before = ktls.read_counters() if ktls_wanted else None
    apply_deadline(connection, deadline)
    forget_errors()
    try:
        protected = context.wrap_socket(
            connection, server_side=is_server, suppress_ragged_eofs=False
        )
    except ssl.SSLError as error:
        raise tls_failure(error) from error
    except OSError as error:
        raise lost(error) from error
    try:
        certificate = protected.getpeercert(binary_form=True)
        if not certificate:
            raise PeerRefusedError("the other side showed no certificate")
        proof = ktls.prove(protected, before) if ktls_wanted else ktls.KtlsProof()
        security = _tls_security(protected, proof, ktls_wanted=ktls_wanted)
        try:
            peer = judge(certificate)
        except PeerRefusedError as error:
            if is_server:
                unknown = TlsChannel(protected, _UNKNOWN_PEER, security)
                unknown.set_timeout(max(0.001, deadline - clock.elapsed_seconds()))
                send_refusal(unknown, str(error))
                unknown.close()
            raise
    except BaseException:
        protected.close()
        raise
    return TlsChannel(protected, peer, security)


def _tls_security(
    protected: ssl.SSLSocket, proof: ktls.KtlsProof, *, ktls_wanted: bool
) -> Security:
    negotiated = protected.cipher()
    in_kernel = proof.send or proof.receive
    warning = ""
    if ktls_wanted and not proof.send:
        cure = "see TLS Cipher Suites" if ktls.is_available() else "load its module: modprobe tls"
        warning = (
            "kTLS was requested, but the kernel does not encrypt what this side sends, so OpenSSL "
            f"does; {cure}"
        )
    return Security(
        mode="ktls" if in_kernel else "tls",
        cipher=negotiated[0] if negotiated else "",
        ktls_send=proof.send,
        ktls_receive=proof.receive,
        ktls_counted=proof.counted,
        warning=warning,
    )


def _require_ktls(security: Security) -> None:
    lacking = [
        side
        for side, has_it in (
            ("this side's", security.ktls_send),
            ("the daemon's", security.peer_ktls_send),
        )
        if not has_it
    ]
    if lacking:
        raise PeerRefusedError(
            f"kTLS is required, but {' and '.join(lacking)} kernel does not encrypt what is sent; "
            "load the module there (modprobe tls), or do not require it"
        )
