"""The handshake of mode "off": mutual authentication and key agreement for the records.

    client: HELLO  nonce (32) | X25519 public key (32) | certificate
    server: HELLO  the same of its own;  PROOF  signature
    client: PROOF  signature
    each:   magic "SROF" | version u8 | kind u8 | body length u16 | body

Each signs, with its certificate's key and its own label, the hash of the transcript so far; so
a signature is valid for this connection, this side and these two certificates only. The keys of the
two directions come from the X25519 secret by HKDF-SHA256 with the transcript's hash as salt. A
server that refuses the client sends the reason in place of its answer (REFUSAL), unauthenticated.
"""

from __future__ import annotations

import hashlib
import socket
import struct
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from strongroom.base import clock
from strongroom.base.errors import ConnectionLostError, PeerRefusedError
from strongroom.base.printable import printable
from strongroom.net.channels.off_records import KEY_SIZE, OffChannel
from strongroom.net.channels.plain_stream import receive_before, send_before
from strongroom.net.identities.identity import Identity, verify_signature
from strongroom.net.identities.peer import Peer, parse_certificate
from strongroom.net.identities.trust import GREATEST_CERTIFICATE_BYTES

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
    """Authenticate to a server, and authenticate it by `judge`.

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
    """The server's side. The client's certificate is judged before anything is signed."""
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
    """The transcript of both sides, and our half of the key agreement."""

    def __init__(self, connection: socket.socket, deadline_seconds: float) -> None:
        self._connection = connection
        self._deadline_seconds = deadline_seconds
        self._transcript = hashlib.sha256()
        self._private = X25519PrivateKey.generate()
        self._their_public = b""

    def say_hello(self, identity: Identity) -> None:
        public = self._private.public_key().public_bytes_raw()
        self._say(HELLO, clock.random_bytes(_NONCE_SIZE) + public + identity.certificate_der)

    def say_proof(self, identity: Identity, label: bytes) -> None:
        self._say(PROOF, identity.sign(label + self._transcript.digest()))

    def say_refusal(self, reason: str) -> None:
        try:
            self._say(REFUSAL, reason.encode()[: _GREATEST_BODY_BYTES[REFUSAL]])
        except ConnectionLostError:
            # It has closed the connection already.
            return

    def hear_hello(self) -> bytes:
        """The certificate that the peer presents."""
        body = self._hear(HELLO)
        self._their_public = body[_NONCE_SIZE:_HELLO_FIXED_SIZE]
        if len(body) <= _HELLO_FIXED_SIZE:
            raise PeerRefusedError("the handshake of the other side is truncated")
        return body[_HELLO_FIXED_SIZE:]

    def hear_proof(self, certificate: bytes, peer: Peer, label: bytes) -> None:
        signed = label + self._transcript.digest()
        signature = self._hear(PROOF)
        if not verify_signature(parse_certificate(certificate), signature, signed):
            raise PeerRefusedError(
                f"a peer presented the certificate of {peer} without having its key"
            )

    def keys(self) -> tuple[bytes, bytes]:
        """The keys of client to server and of server to client."""
        try:
            public = X25519PublicKey.from_public_bytes(self._their_public)
            secret = self._private.exchange(public)
        except ValueError as error:
            raise PeerRefusedError("the other side's key share is invalid") from error
        salt = self._transcript.digest()
        return _derive(secret, salt, _TO_SERVER), _derive(secret, salt, _TO_CLIENT)

    def _say(self, kind: int, body: bytes) -> None:
        message = HEAD.pack(MAGIC, VERSION, kind, len(body)) + body
        self._transcript.update(message)
        send_before(self._connection, message, self._deadline_seconds)

    def _hear(self, expected: int) -> bytes:
        head = receive_before(self._connection, HEAD.size, self._deadline_seconds)
        magic, version, kind, size = HEAD.unpack(head)
        if magic != MAGIC:
            raise PeerRefusedError("the other side does not speak our protocol")
        if version != VERSION:
            raise PeerRefusedError("the other side speaks another version; update the older one")
        if kind not in {expected, REFUSAL} or size > _GREATEST_BODY_BYTES[kind]:
            raise PeerRefusedError("the other side's handshake is invalid")
        body = receive_before(self._connection, size, self._deadline_seconds)
        if kind == REFUSAL:
            reason = printable(body)
            raise PeerRefusedError(f"the other side refuses us: {reason}")
        self._transcript.update(head + body)
        return body


def _derive(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), KEY_SIZE, salt, purpose).derive(secret)
