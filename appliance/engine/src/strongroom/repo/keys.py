"""The keys of a repository: who may add, who may read, and how they are stored.

- The *restore key* is an X25519 private key: whoever holds it can read everything.
- The *put key* is its public half and the pool secret: it can add and deduplicate and read what
  schedules and retention need (indexes, snapshot envelopes), but no content and no file names.
- A *ticket key* is a put key with the keys of some packs, for a restore limited to those packs.

From the pool secret come, by HKDF-SHA256 with the repository id as salt, one key for each purpose.
In the store the restore key is wrapped by Argon2id of a passphrase, once for each passphrase:

    magic "SRKY" | version u8 | 0 u8 x 3 | memory KiB u32 | iterations u32 | lanes u32 | salt (16)
    | created i64 (ns) | label length u16 | label (UTF-8) | ChaCha20-Poly1305 of
      repository id (16) private (32) pool secret (32), nonce 0, all before it as associated data
"""

from __future__ import annotations

import base64
import struct
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from blake3 import blake3

from strongroom import clock
from strongroom.errors import DamageError, KeyRightError, UnknownFormatError, UsageError

REPOSITORY_ID_SIZE = 16
SECRET_SIZE = 32

_MAGIC = b"SRKY"
_VERSION = 1
_WRAP_HEAD = struct.Struct("<4sB3xIII16sqH")
_PUT_KEY_TITLE = "STRONGROOM PUT KEY"
_RESTORE_KEY_TITLE = "STRONGROOM RESTORE KEY"
_PACK_KEY_PURPOSE = b"strongroom pack 1"
_stretching = threading.Lock()


@dataclass(frozen=True)
class PutKey:
    """Can add and deduplicate, but not read content or file names."""

    repository_id: bytes
    restore_public: bytes
    pool_secret: bytes

    can_read: ClassVar[bool] = False

    @property
    def put_key(self) -> PutKey:
        """The key itself: the part that both kinds of key share."""
        return self

    @cached_property
    def chunk_key(self) -> bytes:
        """Key of chunk ids."""
        return self._derive(b"strongroom chunk ids 1")

    @cached_property
    def block_key(self) -> bytes:
        """Key of block ids."""
        return self._derive(b"strongroom block ids 1")

    @cached_property
    def chunker_seed(self) -> bytes:
        """Secret that determines the cut points of large files."""
        return self._derive(b"strongroom chunker 1")

    @cached_property
    def index_key(self) -> bytes:
        """Key of pack footers, index objects and tombstones."""
        return self._derive(b"strongroom index 1")

    @cached_property
    def snapshot_key(self) -> bytes:
        """Key of snapshot envelopes and leases."""
        return self._derive(b"strongroom snapshots 1")

    @cached_property
    def config_key(self) -> bytes:
        """Key of the configuration's authenticator."""
        return self._derive(b"strongroom configuration 1")

    def _derive(self, purpose: bytes) -> bytes:
        return derive_key(self.pool_secret, self.repository_id, purpose)


@dataclass(frozen=True)
class RestoreKey:
    """Can read everything, and do all that its put key can."""

    private: bytes
    put_key: PutKey

    can_read: ClassVar[bool] = True

    def pack_key(self, ephemeral_public: bytes) -> bytes:
        """The key of the pack that has this public key in its header; DamageError if forged."""
        shared = agree(self.private, ephemeral_public)
        return pack_key(shared, ephemeral_public, self.put_key.restore_public)


# Enough of a pack's ephemeral public key to distinguish packs.
PACK_HINT_SIZE = 8
PACK_ENTRY_SIZE = PACK_HINT_SIZE + SECRET_SIZE


class PackKeys:
    """Keys of many packs by PACK_HINT_SIZE bytes of their public key, in one piece of memory."""

    def __init__(self, entries: bytes) -> None:
        """`entries`: hint and key, one pack after the other, ascending."""
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries) // PACK_ENTRY_SIZE

    def get(self, hint: bytes) -> bytes | None:
        """The key of a pack, None when it is not among them."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            start = middle * PACK_ENTRY_SIZE
            found = self._entries[start : start + PACK_HINT_SIZE]
            if found == hint:
                return self._entries[start + PACK_HINT_SIZE : start + PACK_ENTRY_SIZE]
            if found < hint:
                low = middle + 1
            else:
                high = middle
        return None


@dataclass(frozen=True)
class TicketKey:
    """Reads the packs whose keys it has, by PACK_HINT_SIZE bytes of their public key."""

    put_key: PutKey
    pack_keys: PackKeys

    can_read: ClassVar[bool] = False

    def pack_key(self, ephemeral_public: bytes) -> bytes:
        """As of RestoreKey; KeyRightError for any other pack."""
        key = self.pack_keys.get(ephemeral_public[:PACK_HINT_SIZE])
        if key is None:
            raise KeyRightError(
                "the restore ticket has no key for a pack that is needed: it was made for other "
                "paths or another snapshot, or the content was moved since; ask for a new ticket"
            )
        return key


Key = PutKey | RestoreKey | TicketKey
ReadingKey = RestoreKey | TicketKey


@dataclass(frozen=True, slots=True)
class Argon2Cost:
    """The cost of one passphrase guess."""

    memory_kib: int = 64 << 10
    iterations: int = 3
    lanes: int = 4

    def check(self) -> None:
        """DamageError beyond what this version ever writes: a forged cost is an attack."""
        memory_fits = 8 * self.lanes <= self.memory_kib <= 1 << 20
        if not (memory_fits and 1 <= self.iterations <= 64 and 1 <= self.lanes <= 64):
            raise DamageError(f"a wrapped key asks for an absurd cost ({self}); run check")


@dataclass(frozen=True, slots=True)
class WrapInfo:
    """The fields of a wrapped key that need no passphrase."""

    label: str
    created_ns: int
    cost: Argon2Cost


def new_restore_key() -> RestoreKey:
    """The keys of a new repository."""
    private = clock.random_bytes(SECRET_SIZE)
    put_key = PutKey(
        clock.random_bytes(REPOSITORY_ID_SIZE), public_of(private), clock.random_bytes(SECRET_SIZE)
    )
    return RestoreKey(private, put_key)


def required_restore_key(key: Key) -> RestoreKey:
    """`key` if it can read, else KeyRightError."""
    if isinstance(key, RestoreKey):
        return key
    raise KeyRightError(
        "this key can add to the repository but not read it; use the repository's passphrase"
    )


def required_reading_key(key: Key) -> ReadingKey:
    """`key` if it can read any pack at all, else KeyRightError."""
    return key if isinstance(key, TicketKey) else required_restore_key(key)


def wrap_key(key: RestoreKey, passphrase: bytes, label: str, cost: Argon2Cost) -> bytes:
    """The restore key under a passphrase, as it is stored in keys/ID."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    encoded = label.encode()[:1024]
    salt = clock.random_bytes(16)
    head = (
        _WRAP_HEAD.pack(
            _MAGIC,
            _VERSION,
            cost.memory_kib,
            cost.iterations,
            cost.lanes,
            salt,
            clock.now_ns(),
            len(encoded),
        )
        + encoded
    )
    secrets = key.put_key.repository_id + key.private + key.put_key.pool_secret
    wrapping_key = _stretch(passphrase, salt, cost)
    return head + ChaCha20Poly1305(wrapping_key).encrypt(bytes(12), secrets, head)


def unwrap_key(wrapped: bytes, passphrase: bytes) -> RestoreKey | None:
    """The restore key, or None when the passphrase is wrong (or the wrap is damaged)."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    info, salt, head_size = _parse_wrap(wrapped)
    cipher = ChaCha20Poly1305(_stretch(passphrase, salt, info.cost))
    try:
        secrets = cipher.decrypt(bytes(12), wrapped[head_size:], wrapped[:head_size])
    except (InvalidTag, ValueError):
        return None
    if len(secrets) != REPOSITORY_ID_SIZE + 2 * SECRET_SIZE:
        raise DamageError("a wrapped key holds secrets of another size; run check")
    private = secrets[REPOSITORY_ID_SIZE : REPOSITORY_ID_SIZE + SECRET_SIZE]
    return restore_key(secrets[:REPOSITORY_ID_SIZE], private, secrets[-SECRET_SIZE:])


def wrap_info(wrapped: bytes) -> WrapInfo:
    """Label, time and cost of a wrapped key; DamageError or UnknownFormatError."""
    return _parse_wrap(wrapped)[0]


def restore_key(repository_id: bytes, private: bytes, pool_secret: bytes) -> RestoreKey:
    """A restore key from its secrets; the public half is computed."""
    return RestoreKey(private, PutKey(repository_id, public_of(private), pool_secret))


def export_key(key: Key) -> str:
    """A key as text, to keep in a file or on paper."""
    put_key = key.put_key
    secrets = put_key.repository_id + put_key.restore_public + put_key.pool_secret
    title = _PUT_KEY_TITLE
    if isinstance(key, RestoreKey):
        secrets += key.private
        title = _RESTORE_KEY_TITLE
    body = bytes([_VERSION]) + secrets
    text = base64.b64encode(body + blake3(body).digest(4)).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {title}-----", *lines, f"-----END {title}-----", ""])


def import_key(text: str) -> Key:
    """The key that `export_key` wrote; UsageError for anything else."""
    lines = [line.strip() for line in text.strip().splitlines()]
    for title in (_PUT_KEY_TITLE, _RESTORE_KEY_TITLE):
        if lines and lines[0] == f"-----BEGIN {title}-----":
            break
    else:
        raise UsageError("this is no key file: it does not begin with BEGIN STRONGROOM ... KEY")
    if lines[-1] != f"-----END {title}-----":
        raise UsageError("the key file is cut off: its END line is missing")
    try:
        decoded = base64.b64decode("".join(lines[1:-1]), validate=True)
    except ValueError as error:
        raise UsageError(f"the key file is damaged ({error})") from error
    body, checksum = decoded[:-4], decoded[-4:]
    if not body or blake3(body).digest(4) != checksum:
        raise UsageError("the key file is damaged: its checksum differs")
    if body[0] != _VERSION:
        raise UnknownFormatError(f"key file of version {body[0]}; update strongroom")
    if len(body) not in (1 + 16 + 64, 1 + 16 + 96):
        raise UsageError("the key file is damaged: it has another length")
    parts = [body[1:17], *(body[at : at + SECRET_SIZE] for at in range(17, len(body), SECRET_SIZE))]
    put_key = PutKey(*parts[:3])
    if title == _PUT_KEY_TITLE and len(parts) == 3:
        return put_key
    if title == _RESTORE_KEY_TITLE and len(parts) == 4:
        return RestoreKey(parts[3], put_key)
    raise UsageError("the key file is damaged: its title fits another length")


def derive_key(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    """32 bytes by HKDF-SHA256."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 32, salt, purpose).derive(secret)


def pack_key(shared: bytes, ephemeral_public: bytes, restore_public: bytes) -> bytes:
    """The key of a pack's blocks, from the agreed shared secret."""
    return derive_key(shared, ephemeral_public + restore_public, _PACK_KEY_PURPOSE)


def public_of(private: bytes) -> bytes:
    """The X25519 public key of a private one, 32 bytes each."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes) -> bytes:
    """The X25519 shared secret, 32 bytes; DamageError for a public key of small order."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import (
        X25519PrivateKey,
        X25519PublicKey,
    )

    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
    except ValueError as error:
        raise DamageError("a stored public key is forged; run check") from error


def _stretch(passphrase: bytes, salt: bytes, cost: Argon2Cost) -> bytes:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    # OpenSSL computes the lanes in a thread pool shared by all derivations of a process. Two
    # concurrent ones starve each other: they block forever, or fail for lack of memory.
    with _stretching:
        return Argon2id(
            salt=salt,
            length=32,
            iterations=cost.iterations,
            lanes=cost.lanes,
            memory_cost=cost.memory_kib,
        ).derive(passphrase)


def _parse_wrap(wrapped: bytes) -> tuple[WrapInfo, bytes, int]:
    if len(wrapped) < _WRAP_HEAD.size or wrapped[:4] != _MAGIC:
        raise DamageError("a wrapped key is no such thing; run check")
    if wrapped[4] != _VERSION:
        raise UnknownFormatError(f"a wrapped key has version {wrapped[4]}; update strongroom")
    _, _, memory_kib, iterations, lanes, salt, created_ns, label_size = _WRAP_HEAD.unpack_from(
        wrapped
    )
    head_size = _WRAP_HEAD.size + label_size
    cost = Argon2Cost(memory_kib, iterations, lanes)
    cost.check()
    label = wrapped[_WRAP_HEAD.size : head_size].decode("utf-8", "replace")
    return WrapInfo(label, created_ns, cost), salt, head_size
