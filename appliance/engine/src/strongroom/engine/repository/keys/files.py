"""Keys as text, to keep in a file or on paper.

-----BEGIN STRONGROOM PUT KEY-----          (or APPLIANCE KEY, or RESTORE KEY)
base64 of: version u8 | repository id (16) | the secrets of that kind
| the first 4 bytes of the BLAKE3 of the title (STRONGROOM PUT KEY) and all before
-----END STRONGROOM PUT KEY-----

put key        restore public (32) | verify key (32) | client id (16) | client secret (32)
| common secret (32) | generation u32 | name (UTF-8)
appliance key  restore public (32) | secret (32)
restore key    private (32) | secret (32)
"""

from __future__ import annotations

import base64
import struct

from blake3 import blake3

from strongroom.base.errors import UnknownFormatError, UsageError
from strongroom.engine.repository.keys.roles import (
    ApplianceKey,
    Key,
    PutKey,
    RestoreKey,
    restore_key,
)

_VERSION = 1
_PUT, _APPLIANCE, _RESTORE = (f"STRONGROOM {kind} KEY" for kind in ("PUT", "APPLIANCE", "RESTORE"))
_PUT_FIELDS = struct.Struct("<16s32s32s16s32s32sI")
_SECRETS = struct.Struct("<16s32s32s")


def export_key(key: Key) -> str:
    """A key as text; UsageError for a restore ticket, which is not a key to keep."""
    if isinstance(key, PutKey):
        title = _PUT
        secrets = _PUT_FIELDS.pack(
            key.repository_id,
            key.restore_public,
            key.verify_key,
            key.client_id,
            key.client_secret,
            key.common_secret,
            key.generation,
        ) + key.name.encode("utf-8", "surrogateescape")
    elif isinstance(key, RestoreKey):
        title, secrets = _RESTORE, _SECRETS.pack(key.repository_id, key.private, key.secret)
    elif isinstance(key, ApplianceKey):
        title, secrets = (
            _APPLIANCE,
            _SECRETS.pack(key.repository_id, key.restore_public, key.secret),
        )
    else:
        raise UsageError("a restore ticket is not a key to export")
    body = bytes([_VERSION]) + secrets
    text = base64.b64encode(body + _checksum(title, body)).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {title}-----", *lines, f"-----END {title}-----", ""])


def import_key(text: str) -> PutKey | ApplianceKey:
    """The key that `export_key` wrote (a RestoreKey is an ApplianceKey); UsageError otherwise."""
    lines = [line.strip() for line in text.strip().splitlines()]
    for title in (_PUT, _APPLIANCE, _RESTORE):
        if lines and lines[0] == f"-----BEGIN {title}-----":
            break
    else:
        raise UsageError("this is not a key file: it does not begin with BEGIN STRONGROOM ... KEY")
    if lines[-1] != f"-----END {title}-----":
        raise UsageError("the key file is cut off: its END line is missing")
    try:
        decoded = base64.b64decode("".join(lines[1:-1]), validate=True)
    except ValueError as error:
        raise UsageError(f"the key file is damaged ({error})") from error
    body, checksum = decoded[:-4], decoded[-4:]
    if not body or _checksum(title, body) != checksum:
        raise UsageError("the key file is damaged: its checksum differs")
    if body[0] != _VERSION:
        raise UnknownFormatError(f"key file of version {body[0]}; update strongroom")
    return _put_key(body[1:]) if title == _PUT else _whole_key(title, body[1:])


def _checksum(title: str, body: bytes) -> bytes:
    return blake3(title.encode() + body).digest(4)


def _put_key(body: bytes) -> PutKey:
    if len(body) <= _PUT_FIELDS.size:
        raise UsageError("the key file is damaged: it has another length")
    identity, public, verify_key, client_id, secret, common, generation = _PUT_FIELDS.unpack_from(
        body
    )
    name = body[_PUT_FIELDS.size :].decode("utf-8", "surrogateescape")
    return PutKey(identity, public, verify_key, client_id, secret, common, name, generation)


def _whole_key(title: str, body: bytes) -> ApplianceKey:
    if len(body) != _SECRETS.size:
        raise UsageError("the key file is damaged: it has another length")
    repository_id, first, secret = _SECRETS.unpack(body)
    if title == _RESTORE:
        return restore_key(repository_id, first, secret)
    return ApplianceKey(repository_id, first, secret)
