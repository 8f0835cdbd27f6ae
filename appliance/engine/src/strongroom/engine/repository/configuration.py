"""The configuration of a repository: how it is stored, and which key opens it.

It is one JSON line and, on the second, the appliance's signature of it: no one without the
appliance key can change the encryption or the public key of a repository undetected.

    {"strongroom": 1, "id": HEX, "restore_public": HEX, "encryption": NAME, "created_ns": N,
     "secrets": null, or where the repository has no passphrase: HEX of private key and secret}
    HEX of the Ed25519 signature of the first line

Where objects are locked "strongroom" is 2, so that no program that cannot lock them stores any, and
there are "lock_seconds": N, "lock_mode": "governance" or "compliance".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import msgspec

from strongroom.base.decoding import decodable, reading
from strongroom.base.errors import DamageError, UnknownFormatError, WrongKeyError
from strongroom.engine.content.ciphers import CIPHER_NAMES
from strongroom.engine.repository.keys.owners import is_signed
from strongroom.engine.repository.keys.roles import (
    ApplianceKey,
    Key,
    PutKey,
    RestoreKey,
    TicketKey,
    restore_key,
)
from strongroom.engine.repository.keys.wrapping import unwrap_key
from strongroom.engine.stores.at_once import read_each
from strongroom.engine.stores.object_lock import LockRule
from strongroom.engine.stores.store import Store

VERSION = 1
LOCK_VERSION = 2
# Ten thousand years are beyond what a store can read.
MOST_LOCK_SECONDS = 100 * 366 * 86400
_SIGNED_PURPOSE = b"strongroom configuration 1"


class Config(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The configuration as it is stored."""

    version: int = msgspec.field(name="strongroom")
    id: str
    restore_public: str
    encryption: str
    created_ns: int
    secrets: str | None
    lock_seconds: Annotated[int, msgspec.Meta(ge=0, le=MOST_LOCK_SECONDS)] = 0
    lock_mode: Literal["", "governance", "compliance"] = ""

    @property
    def lock_rule(self) -> LockRule | None:
        """How objects are locked when they are stored."""
        if not (self.lock_seconds and self.lock_mode):
            return None
        return LockRule(self.lock_seconds, self.lock_mode)


class StoredConfig(NamedTuple):
    """The object as it was read; signature: of the line, b"" where it is not as it was written."""

    config: Config
    line: bytes
    signature: bytes

    def is_of(self, key: Key) -> bool:
        """Whether the appliance to which the key belongs wrote it."""
        return (
            is_signed(key.verify_key, self.signature, _SIGNED_PURPOSE + self.line)
            and key.restore_public.hex() == self.config.restore_public
        )


def encode_config(config: Config, key: ApplianceKey) -> bytes:
    """The object: the configuration and the signature of it."""
    line = msgspec.json.encode(config)
    signature = key.sign(_SIGNED_PURPOSE + line).hex().encode()
    return line + b"\n" + signature + b"\n"


def decode_config(data: bytes) -> StoredConfig:
    """The configuration, which no one has verified yet; UnknownFormatError, DamageError."""
    line, _, rest = data.partition(b"\n")
    with reading("the repository's configuration"):
        fields = msgspec.json.decode(line, type=dict[str, object])
        version = fields.get("strongroom")
        known = LOCK_VERSION if "lock_seconds" in fields else VERSION
        if isinstance(version, int) and version > known:
            raise UnknownFormatError(
                f"the repository has format version {version}, this strongroom reads {known}; "
                "update strongroom"
            )
        config = msgspec.json.decode(line, type=decodable(Config))
        if config.encryption not in CIPHER_NAMES.values():
            raise UnknownFormatError(
                f"the repository's encryption {config.encryption} is unknown; update strongroom"
            )
    # All of it counts, the line end too: a missing part means damage.
    try:
        signature = bytes.fromhex(rest[:-1].decode("ascii"))
    except ValueError:
        signature = b""
    is_whole = rest == signature.hex().encode() + b"\n"
    return StoredConfig(config, line, signature if is_whole else b"")


def find_key(
    store: Store,
    config: Config,
    secret: bytes | Key | None,
    meanwhile: Callable[[], object] | None = None,
) -> Key:
    """The key that a passphrase opens, or the key that is given; WrongKeyError, DamageError.

    meanwhile: called while each of them is computed from the passphrase.
    """
    if isinstance(secret, PutKey | ApplianceKey | TicketKey):
        if secret.repository_id.hex() != config.id:
            raise WrongKeyError(f"this key is of another repository than {store.location}")
        return secret
    if config.secrets is not None:
        # A user with a passphrase must not accept unprotected keys: a hostile store could
        # substitute such a configuration for the right one.
        if secret is not None:
            raise WrongKeyError(
                f"the repository at {store.location} has no passphrase; if it never had one, "
                "run the command without a passphrase"
            )
        return _open_secrets(config)
    if secret is None:
        raise WrongKeyError(f"the repository at {store.location} needs a passphrase or a key")
    damage: DamageError | None = None
    names = [info.name for info in store.list("keys")]
    for _, data in read_each(store, names, lambda name: store.get("keys", name)):
        try:
            if isinstance(data, Exception):
                raise data
            key = unwrap_key(data, secret, meanwhile)
        except DamageError as error:
            # Another one may be the one that opens with this passphrase.
            damage = error
            continue
        if key is not None and key.repository_id.hex() == config.id:
            return key
    if damage is not None:
        raise damage
    raise WrongKeyError(f"no key of the repository at {store.location} opens with this passphrase")


def _open_secrets(config: Config) -> RestoreKey:
    try:
        repository_id = bytes.fromhex(config.id)
        secrets = bytes.fromhex(config.secrets or "")
    except ValueError as error:
        raise DamageError("the repository's configuration is damaged: run check") from error
    if len(repository_id) != 16 or len(secrets) != 64:
        raise DamageError("the repository's configuration is damaged: run check")
    return restore_key(repository_id, secrets[:32], secrets[32:])
