"""The handshake of the mode "off": both prove who they are and agree on keys for the records.

    client: HELLO  nonce (32) | X25519 public key (32) | certificate
    server: HELLO  the same of its own;  PROOF  signature
    client: PROOF  signature
    each:   magic "SROF" | version u8 | kind u8 | body length u16 | body

Each signs, with its certificate's key and a label of its own, the hash of all that was said
before; so a signature fits this connection, this side and these two certificates only. The keys of
the two directions come from the X25519 secret by HKDF-SHA256 with the hash of everything as salt.
A server that refuses the client says why in place of its answer (REFUSAL); nothing proves that.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from strongroom import clock
from strongroom.errors import ConnectionLostError, PeerRefusedError
from strongroom.net.channels.deadline import receive_before, send_before
from strongroom.net.channels.off_records import KEY_SIZE, OffChannel
from strongroom.net.identities.identity import verify_signature
from strongroom.net.identities.peer import parse_certificate
from strongroom.net.identities.trust import GREATEST_CERTIFICATE_BYTES
from strongroom.printable import printable

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from strongroom.net.identities.identity import Identity
    from strongroom.net.identities.peer import Peer

    # Takes a certificate (DER); gives whom it names, or raises PeerRefusedError.
    Judge = Callable[[bytes], Peer]

MAGIC = b"SROF"
HEAD = struct.Struct("<4sBBH")
VERSION = 1
HELLO = 1
PROOF = 2
REFUSAL = 3
_NONCE_SIZE = 32
_PUBLIC_SIZE = 32
_HELLO_FIXED_SIZE = _NONCE_SIZE + _PUBLIC_SIZE
_GREATEST_BODY_BYTES = {
    HELLO: _HELLO_FIXED_SIZE + GREATEST_CERTIFICATE_BYTES,
    PROOF: 128,
    REFUSAL: 1024,
}
_SERVER_LABEL = b"strongroom off server 1\0"
_CLIENT_LABEL = b"strongroom off client 1\0"
_TO_SERVER = b"strongroom off client to server 1"
_TO_CLIENT = b"strongroom off server to client 1"


def shake_hands_as_client(
    connection: socket.socket,
    identity: Identity,
    judge: Judge,
    deadline_seconds: float,
) -> OffChannel:
    """Prove who we are to a server that `judge` finds good, and have it prove who it is.

    The socket stays the caller's until this returns. Raises PeerRefusedError, ConnectionLostError.
    """
    talk = _Handshake(connection, deadline_seconds)
    talk.say_hello(identity)
    certificate = talk.hear_hello()
    peer = judge(certificate)
    talk.hear_proof(certificate, peer, _SERVER_LABEL)
    talk.say_proof(identity, _CLIENT_LABEL)
    to_server, to_client = talk.keys()
    return OffChannel(connection, peer, send_key=to_server, receive_key=to_client)


def shake_hands_as_server(
    connection: socket.socket,
    identity: Identity,
    judge: Judge,
    deadline_seconds: float,
) -> OffChannel:
    """The other side of the same. The client's certificate is judged before anything is signed."""
    talk = _Handshake(connection, deadline_seconds)
    certificate = talk.hear_hello()
    try:
        peer = judge(certificate)
    except PeerRefusedError as error:
        talk.say_refusal(str(error))
        raise
    talk.say_hello(identity)
    talk.say_proof(identity, _SERVER_LABEL)
    talk.hear_proof(certificate, peer, _CLIENT_LABEL)
    to_server, to_client = talk.keys()
    return OffChannel(connection, peer, send_key=to_client, receive_key=to_server)


class _Handshake:
    """What was said so far by both, and our half of the key agreement."""

    def __init__(self, connection: socket.socket, deadline_seconds: float) -> None:
        self._connection = connection
        self._deadline_seconds = deadline_seconds
        self._said = hashlib.sha256()
        self._private = X25519PrivateKey.generate()
        self._their_public = b""

    def say_hello(self, identity: Identity) -> None:
        public = self._private.public_key().public_bytes_raw()
        self._say(HELLO, clock.random_bytes(_NONCE_SIZE) + public + identity.certificate_der)

    def say_proof(self, identity: Identity, label: bytes) -> None:
        self._say(PROOF, identity.sign(label + self._said.digest()))

    def say_refusal(self, reason: str) -> None:
        try:
            self._say(REFUSAL, reason.encode()[: _GREATEST_BODY_BYTES[REFUSAL]])
        except ConnectionLostError:
            # It has gone already: nothing more is owed to it.
            return

    def hear_hello(self) -> bytes:
        """The certificate that the other side claims."""
        body = self._hear(HELLO)
        self._their_public = body[_NONCE_SIZE:_HELLO_FIXED_SIZE]
        if len(body) <= _HELLO_FIXED_SIZE:
            raise PeerRefusedError("the handshake of the other side is cut off")
        return body[_HELLO_FIXED_SIZE:]

    def hear_proof(self, certificate: bytes, peer: Peer, label: bytes) -> None:
        signed = label + self._said.digest()
        signature = self._hear(PROOF)
        if not verify_signature(parse_certificate(certificate), signature, signed):
            raise PeerRefusedError(
                f"somebody showed the certificate of {peer} without having its key"
            )

    def keys(self) -> tuple[bytes, bytes]:
        """The keys of client to server and of server to client."""
        try:
            public = X25519PublicKey.from_public_bytes(self._their_public)
            secret = self._private.exchange(public)
        except ValueError as error:
            raise PeerRefusedError("the other side's half of the key is forged") from error
        salt = self._said.digest()
        return _derive(secret, salt, _TO_SERVER), _derive(secret, salt, _TO_CLIENT)

    def _say(self, kind: int, body: bytes) -> None:
        message = HEAD.pack(MAGIC, VERSION, kind, len(body)) + body
        self._said.update(message)
        send_before(self._connection, message, self._deadline_seconds)

    def _hear(self, expected: int) -> bytes:
        head = receive_before(self._connection, HEAD.size, self._deadline_seconds)
        magic, version, kind, size = HEAD.unpack(head)
        if magic != MAGIC:
            raise PeerRefusedError("the other side does not speak our protocol")
        if version != VERSION:
            raise PeerRefusedError("the other side speaks another version; update the older one")
        if kind not in {expected, REFUSAL} or size > _GREATEST_BODY_BYTES[kind]:
            raise PeerRefusedError("the other side's handshake makes no sense")
        body = receive_before(self._connection, size, self._deadline_seconds)
        if kind == REFUSAL:
            reason = printable(body)
            raise PeerRefusedError(f"the other side refuses us: {reason}")
        self._said.update(head + body)
        return body


def _derive(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), KEY_SIZE, salt, purpose).derive(secret)
