"""The list of revoked certificates: for each name, which times of issue are invalid.

    -----BEGIN STRONGROOM REVOCATIONS-----   base64 of: msgpack [body, signature]
    body: msgpack [version, number, names];  each name: [role, name, before, after, until]

Everything of a name whose order of issue (see `peer.order_of`) is before `before`, or between
`after` and `until` (without these two), is invalid. So the list is bounded by the number of names,
however many certificates a name had. A later list has a higher number. The signature is the
authority's (ECDSA P-256, SHA-256), over a label and the body.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from strongroom.base.decoding import decode
from strongroom.base.errors import PeerRefusedError, UsageError
from strongroom.net.identities.peer import Peer, malformed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

# Room for twenty thousand names; it fits into an answer of the director.
GREATEST_LIST_BYTES: Final = 2 << 20

_VERSION: Final = 1
_LABEL: Final = b"strongroom revocations 1\0"
_BEGIN: Final = b"-----BEGIN STRONGROOM REVOCATIONS-----\n"
_END: Final = b"-----END STRONGROOM REVOCATIONS-----\n"
_LINE: Final = 64


class RevokedName(msgspec.Struct, frozen=True, array_like=True):
    """What is revoked of a name; the numbers are orders of issue, 0 for none."""

    role: str
    name: str
    before: int = 0
    after: int = 0
    until: int = 0

    def covers(self, issued: int) -> bool:
        """Whether a certificate of this order of issue is revoked."""
        return issued < self.before or self.after < issued < self.until

    @property
    def latest(self) -> int:
        """Those of this order and later ones are not revoked."""
        return max(self.before, self.until)


class _Body(msgspec.Struct, frozen=True, array_like=True):
    version: int
    number: int
    names: tuple[RevokedName, ...]


class RevocationList:
    """A list whose signature is good."""

    def __init__(self, number: int = 0, names: Sequence[RevokedName] = ()) -> None:
        self.number = number
        self.names = {(one.role, one.name): one for one in names}

    def covers(self, role: str, name: str, issued: int) -> bool:
        """Whether a certificate was revoked; `issued`: its order of issue."""
        found = self.names.get((role, name))
        return found is not None and found.covers(issued)

    def is_revoked(self, peer: Peer) -> bool:
        """Whether the certificate of a peer was revoked."""
        return self.covers(peer.role, peer.name, peer.issued)


def signed_list(key: EllipticCurvePrivateKey, number: int, names: Sequence[RevokedName]) -> bytes:
    """The list as a file holds it. Raises UsageError when it would be too large to be read."""
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    body = msgspec.msgpack.encode(_Body(_VERSION, number, tuple(names)))
    signature = key.sign(_LABEL + body, ECDSA(SHA256()))
    text = base64.b64encode(msgspec.msgpack.encode((body, signature)))
    lines = [text[at : at + _LINE] + b"\n" for at in range(0, len(text), _LINE)]
    pem = b"".join((_BEGIN, *lines, _END))
    if len(pem) > GREATEST_LIST_BYTES:
        raise UsageError(
            f"{len(names)} names were revoked, and a list of more is not read any more: make a new "
            "authority and enrol every machine anew"
        )
    return pem


def parse_list(pem: bytes, roots: Sequence[Certificate]) -> RevocationList:
    """A list that one of `roots` has signed; PeerRefusedError otherwise."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        if not pem.startswith(_BEGIN) or not pem.endswith(_END):
            raise PeerRefusedError("it does not begin and end as one")
        text = pem[len(_BEGIN) : -len(_END)].replace(b"\n", b"")
        raw = base64.b64decode(text, validate=True)
        body, signature = decode(raw, tuple[bytes, bytes], "its text", PeerRefusedError)
        for root in roots:
            key = root.public_key()
            with contextlib.suppress(InvalidSignature, *malformed()):
                if isinstance(key, EllipticCurvePublicKey):
                    key.verify(signature, _LABEL + body, ECDSA(SHA256()))
                    break
        else:
            raise PeerRefusedError("it is not signed by our authority")
        found = decode(body, _Body, "its text", PeerRefusedError)
    except (PeerRefusedError, binascii.Error) as error:
        raise PeerRefusedError(f"this is not a list of revoked certificates: {error}") from error
    if found.version != _VERSION:
        raise PeerRefusedError("the list of revoked certificates is of a later version: upgrade")
    return RevocationList(found.number, found.names)
