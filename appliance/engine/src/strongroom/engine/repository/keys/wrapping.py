"""The restore key under a passphrase, as it is stored in keys/NAME.

Argon2id of the passphrase; each passphrase wraps the key once:

    magic "SRKY" | version u8 | 0 u8 x 3 | memory KiB u32 | iterations u32 | lanes u32 | salt (16)
    | created i64 (ns) | label length u16 | label (UTF-8) | ChaCha20-Poly1305 of
      repository id (16) private (32) secret (32), nonce 0, all before it as associated data
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from strongroom.base import clock
from strongroom.base.errors import DamageError, UnknownFormatError
from strongroom.engine.repository.keys.owners import REPOSITORY_ID_SIZE, SECRET_SIZE
from strongroom.engine.repository.keys.roles import RestoreKey, restore_key

_MAGIC = b"SRKY"
_VERSION = 1
_WRAP_HEAD = struct.Struct("<4sB3xIII16sqH")
_stretching = threading.Lock()


class Argon2Cost(NamedTuple):
    """The cost of one passphrase guess."""

    memory_kib: int = 64 << 10
    iterations: int = 3
    lanes: int = 4

    def check(self) -> None:
        """DamageError beyond what this version ever writes: a forged cost is an attack."""
        memory_fits = 8 * self.lanes <= self.memory_kib <= 1 << 20
        if not (memory_fits and 1 <= self.iterations <= 64 and 1 <= self.lanes <= 64):
            raise DamageError(f"a wrapped key has an invalid cost ({self}); run check")


class WrapInfo(msgspec.Struct, frozen=True):
    """The fields of a wrapped key that need no passphrase."""

    label: str
    created_ns: int
    cost: Argon2Cost


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
    secrets = key.repository_id + key.private + key.secret
    wrapping_key = _stretch(passphrase, salt, cost)
    return head + ChaCha20Poly1305(wrapping_key).encrypt(bytes(12), secrets, head)


def unwrap_key(
    wrapped: bytes, passphrase: bytes, meanwhile: Callable[[], object] | None = None
) -> RestoreKey | None:
    """The restore key, or None when the passphrase is wrong (or the wrap is damaged).

    meanwhile: called in this thread while another computes.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    info, salt, head_size = _parse_wrap(wrapped)
    cipher = ChaCha20Poly1305(_stretch(passphrase, salt, info.cost, meanwhile))
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


def _stretch(
    passphrase: bytes,
    salt: bytes,
    cost: Argon2Cost,
    meanwhile: Callable[[], object] | None = None,
) -> bytes:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    derivation = Argon2id(
        salt=salt,
        length=32,
        iterations=cost.iterations,
        lanes=cost.lanes,
        memory_cost=cost.memory_kib,
    )
    # OpenSSL computes the lanes in a thread pool shared by all derivations of a process. Two
    # concurrent ones starve each other: they block forever, or fail for lack of memory.
    with _stretching:
        if meanwhile is None:
            return derivation.derive(passphrase)
        return _beside(meanwhile, lambda: derivation.derive(passphrase))


def _beside(work: Callable[[], object], compute: Callable[[], bytes]) -> bytes:
    """What `compute` returns or raises, in its own thread while this one does `work`."""
    ended: list[bytes | Exception] = []

    def run() -> None:
        try:
            ended.append(compute())
        except Exception as error:  # noqa: BLE001 - raised below, in the thread that asked
            ended.append(error)

    thread = threading.Thread(target=run, name="key")
    thread.start()
    try:
        work()
    finally:
        thread.join()
    (outcome,) = ended
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _parse_wrap(wrapped: bytes) -> tuple[WrapInfo, bytes, int]:
    if len(wrapped) < _WRAP_HEAD.size or wrapped[:4] != _MAGIC:
        raise DamageError("a wrapped key is malformed; run check")
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
