"""The folder of a certificate authority: its files, its lock, and the root key under a passphrase.

    root.pem       its certificate, with which everything is verified; not secret
    root.key       its private key (0600), encrypted if it was made with a passphrase
    issued.jsonl   one line for every certificate it issued that may still be valid
    revoked.pem    the signed list of what it revoked
    tokens/HASH    one file for every enrolment token that can still be used
    lock           held while anything is changed

A root key with a passphrase is a PKCS #8 file under a password that Argon2id derives from the
passphrase; the line before it holds costs and salt.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from strongroom.base import clock
from strongroom.base.clock import SECOND_NS
from strongroom.base.errors import DamageError, UsageError, WrongKeyError
from strongroom.net.identities.private_files import SECRET_MODE, read_bounded, write_file

ROOT = b"root.pem"
ROOT_KEY = b"root.key"
ISSUED = b"issued.jsonl"
REVOKED = b"revoked.pem"
TOKENS = b"tokens"
_LOCK = b"lock"

_STRETCHED = b"Argon2id "
_MEMORY_KIB, _ITERATIONS, _LANES = 64 << 10, 3, 4
_GREATEST_KEY_BYTES = 16 << 10


class Issued(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that was issued. Times in nanoseconds since 1970.

    `folder`: the identity folder on this machine that it was written to, "" if it went elsewhere.
    `renews`: the serial of the certificate that it renewed, "" if there is none. `may_renew`:
    somebody at the appliance permits its renewal before it is due. `order`: 0 for the second of
    issued_ns.
    """

    serial: str
    name: str
    role: str
    issued_ns: int
    not_after_ns: int
    folder: str = ""
    renews: str = ""
    may_renew: bool = False
    order: int = 0

    @property
    def issued(self) -> int:
        """Its place in the order of issue, as the list of revoked certificates counts it."""
        return self.order or self.issued_ns // SECOND_NS


@contextlib.contextmanager
def locked(folder: bytes) -> Iterator[None]:
    """Keep every other process and thread from changing the authority inside the block."""
    path = os.path.join(folder, _LOCK)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, SECRET_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def add_issued(folder: bytes, entry: Issued) -> None:
    """Add a line, durably. Call it with the lock held."""
    path = os.path.join(folder, ISSUED)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    with open(os.open(path, flags, SECRET_MODE), "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        # A crash may have left a partial last line.
        torn = size and os.pread(file.fileno(), 1, size - 1) != b"\n"
        file.write((b"\n" if torn else b"") + msgspec.json.encode(entry) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_issued(folder: bytes) -> list[Issued]:
    """Every certificate that was issued and may still be valid, in order."""
    try:
        with open(os.path.join(folder, ISSUED), "rb") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    found = []
    decoder = msgspec.json.Decoder(Issued)
    for line in lines:
        # A line torn by a crash belongs to a certificate that was never handed out.
        with contextlib.suppress(msgspec.DecodeError):
            found.append(decoder.decode(line))
    return found


def write_issued(folder: bytes, entries: Iterable[Issued]) -> None:
    """Replace all lines, durably. Call it with the lock held."""
    lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
    write_file(os.path.join(folder, ISSUED), lines, SECRET_MODE)


def write_root_key(
    folder: bytes, key: ec.EllipticCurvePrivateKey, passphrase: bytes | None
) -> None:
    """Keep the private key, under `passphrase` if there is one."""
    head = b""
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        salt = clock.random_bytes(16)
        head = _STRETCHED + b"%d %d %d %s\n" % (
            _MEMORY_KIB,
            _ITERATIONS,
            _LANES,
            salt.hex().encode(),
        )
        password = _stretch(passphrase, _MEMORY_KIB, _ITERATIONS, _LANES, salt)
        encryption = serialization.BestAvailableEncryption(password)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    write_file(os.path.join(folder, ROOT_KEY), head + pem, SECRET_MODE)


def read_root_key(folder: bytes, passphrase: bytes | None) -> ec.EllipticCurvePrivateKey:
    """The private key. Raises WrongKeyError, UsageError when there is none, or DamageError."""
    path = os.path.join(folder, ROOT_KEY)
    try:
        text = read_bounded(path, _GREATEST_KEY_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {os.fsdecode(path)}: {error.strerror}") from error
    password = None
    if text.startswith(_STRETCHED):
        if passphrase is None:
            raise WrongKeyError(
                f"{os.fsdecode(path)} has a passphrase; name the file that holds it"
            )
        head, text = text.split(b"\n", 1)
        password = _password(head, passphrase)
    try:
        key = serialization.load_pem_private_key(text, password)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if password is not None:
            raise WrongKeyError("wrong passphrase for the authority's key") from error
        raise DamageError(f"{os.fsdecode(path)} is damaged: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise DamageError(f"{os.fsdecode(path)} is a key of a kind that we do not use")
    return key


def _password(head: bytes, passphrase: bytes) -> bytes:
    try:
        memory, iterations, lanes, salt = head.removeprefix(_STRETCHED).split()
        costs = int(memory), int(iterations), int(lanes)
        return _stretch(passphrase, *costs, bytes.fromhex(salt.decode("ascii")))
    except ValueError as error:
        raise DamageError("the first line of the authority's key is damaged") from error


def _stretch(passphrase: bytes, memory_kib: int, iterations: int, lanes: int, salt: bytes) -> bytes:
    stretched = Argon2id(
        salt=salt, length=32, iterations=iterations, lanes=lanes, memory_cost=memory_kib
    )
    return stretched.derive(passphrase).hex().encode()
