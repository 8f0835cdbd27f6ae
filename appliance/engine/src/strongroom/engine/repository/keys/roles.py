"""The four keys; see the package."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar, Protocol

import msgspec
from blake3 import blake3

from strongroom.base import clock
from strongroom.base.errors import KeyRightError, UsageError
from strongroom.base.printable import printable
from strongroom.engine.content.ciphers import object_key
from strongroom.engine.repository.keys.owners import (
    CLIENT_ID_SIZE,
    REPOSITORY_ID_SIZE,
    SECRET_SIZE,
    SHARED,
    ContentKeys,
    OwnerKeys,
    agree,
    content_keys,
    derive_key,
    owner_keys,
    public_of,
    sign,
    verify_key_of,
)

MOST_GENERATIONS = 0xFFFF
_NAME_SIZE_LIMIT = 255
_GENERATION = struct.Struct("<I")
_PACK_KEY_PURPOSE = b"strongroom pack 1"
_WITNESS_PURPOSE = b"strongroom witness 1"
_FOOTER_KEY_PURPOSE = b"strongroom footer key 1"


class SealedHeader(Protocol):
    """What keys need of the header of a pack: see repository.packs.PackHeader."""

    @property
    def raw(self) -> bytes:
        """All of it."""

    @property
    def owner(self) -> bytes:
        """The id of the client, or SHARED."""

    @property
    def ephemeral_public(self) -> bytes:
        """The writer's public key."""


# dict: for what is derived once and kept.
class _Opener(msgspec.Struct, frozen=True, dict=True):
    """Opens the index and the footers of those owners whose keys it has."""

    repository_id: bytes
    restore_public: bytes

    def owner(self, owner: bytes) -> OwnerKeys:
        """The keys of a client's objects, or of SHARED ones; KeyRightError."""
        raise NotImplementedError

    def footer_key(self, header: SealedHeader, pack_id: bytes) -> bytes:
        """The key of a pack's footer. KeyRightError."""
        del pack_id
        return footer_key(self.owner(header.owner), header.raw)

    def index_object_key(self, name: str, owner: bytes, prefix: bytes, label: bytes) -> bytes:
        """The key of a sealed part of an index object; see content.ciphers. KeyRightError."""
        del name
        return object_key(self.owner(owner).index_key, prefix, label)


class PutKey(_Opener, frozen=True):
    """Adds and deduplicates as one client, but reads no content and no file names.

    name, generation: of the client, for display; what counts is its id. The generation is raised
    when the keys of a client must change.
    """

    verify_key: bytes
    client_id: bytes
    client_secret: bytes
    common_secret: bytes
    name: str
    generation: int = 0

    can_read: ClassVar[bool] = False

    @cached_property
    def client(self) -> OwnerKeys:
        """The client's own keys."""
        return owner_keys(self.client_id, self.client_secret, self.repository_id, self._common)

    @cached_property
    def shared(self) -> OwnerKeys:
        """The keys of what all clients may refer to."""
        return owner_keys(SHARED, self.common_secret, self.repository_id, self._common)

    @cached_property
    def _common(self) -> ContentKeys:
        return content_keys(self.common_secret, self.repository_id)

    def owner(self, owner: bytes) -> OwnerKeys:
        """See `_Opener`: its own keys and the shared ones."""
        if owner == self.client_id:
            return self.client
        if owner == SHARED:
            return self.shared
        raise KeyRightError(f"the put key of {printable(self.name)} reads nothing of other clients")

    def put_key(self, name: str, generation: int = 0) -> PutKey:
        """The key itself; KeyRightError for another client's name."""
        if (name, generation) != (self.name, self.generation):
            raise KeyRightError(
                f"this put key is the one of {printable(self.name)}, not of {printable(name)}; "
                "use that client's key, or the repository's passphrase"
            )
        return self

    def has_name(self, owner: bytes, name: str, generation: int) -> bool:
        """Whether `owner` is the id of a client of that name."""
        return (owner, name, generation) == (self.client_id, self.name, self.generation)


class ApplianceKey(_Opener, frozen=True):
    """Makes put keys, signs, and reads every index and envelope, but no content or file names."""

    secret: bytes

    can_read: ClassVar[bool] = False

    def owner(self, owner: bytes) -> OwnerKeys:
        """See `_Opener`: those of every client."""
        known = self._owners.get(owner)
        if known is None:
            secret = self._common_secret if owner == SHARED else self._client_secret(owner)
            known = owner_keys(owner, secret, self.repository_id, self._common)
            self._owners[owner] = known
        return known

    def client_id(self, name: str, generation: int = 0) -> bytes:
        """The id of a client by its name; UsageError for one that no one can have."""
        encoded = name.encode("utf-8", "surrogateescape")
        if not 0 < len(encoded) <= _NAME_SIZE_LIMIT:
            raise UsageError(f"{printable(name)!r} is not a name of a client: 1 to 255 bytes")
        if not 0 <= generation <= MOST_GENERATIONS:
            raise UsageError(f"the keys of a client have no generation {generation}: 0 to 65535")
        text = _GENERATION.pack(generation) + encoded
        return blake3(text, key=self._ids_key).digest(CLIENT_ID_SIZE)

    def put_key(self, name: str, generation: int = 0) -> PutKey:
        """The put key of a client."""
        owner = self.client_id(name, generation)
        return PutKey(
            self.repository_id,
            self.restore_public,
            self.verify_key,
            owner,
            self._client_secret(owner),
            self._common_secret,
            name,
            generation,
        )

    def has_name(self, owner: bytes, name: str, generation: int) -> bool:
        """Whether `owner` is the id of a client of that name."""
        try:
            return self.client_id(name, generation) == owner
        except UsageError:
            return False

    @cached_property
    def verify_key(self) -> bytes:
        """What put keys check the appliance's signatures with."""
        return verify_key_of(self._signing_seed)

    def sign(self, data: bytes) -> bytes:
        """The appliance's signature."""
        return sign(self._signing_seed, data)

    @cached_property
    def lease_key(self) -> bytes:
        """Key of the appliance's own leases."""
        return self._derive(b"appliance leases 1")

    @cached_property
    def _owners(self) -> dict[bytes, OwnerKeys]:
        return {}

    @cached_property
    def _ids_key(self) -> bytes:
        return self._derive(b"client ids 1")

    @cached_property
    def _common_secret(self) -> bytes:
        return self._derive(b"common 1")

    @cached_property
    def _common(self) -> ContentKeys:
        return content_keys(self._common_secret, self.repository_id)

    @cached_property
    def _signing_seed(self) -> bytes:
        return self._derive(b"appliance 1")

    def _client_secret(self, owner: bytes) -> bytes:
        return self._derive(b"client 1" + owner)

    def _derive(self, purpose: bytes) -> bytes:
        return derive_key(self.secret, self.repository_id, b"strongroom " + purpose)


class RestoreKey(ApplianceKey, frozen=True):
    """Reads everything, and does all that the appliance key does."""

    private: bytes

    can_read: ClassVar[bool] = True

    def pack_key(self, header: SealedHeader, pack_id: bytes) -> bytes:
        """The key of a pack's blocks; DamageError if its public key is forged."""
        del pack_id
        shared = agree(self.private, header.ephemeral_public)
        return pack_key(shared, header.raw, self.restore_public)

    @cached_property
    def witness_key(self) -> bytes:
        """Key of what only a holder of this key can say about a snapshot."""
        return derive_key(self.private, self.repository_id, _WITNESS_PURPOSE)


# A pack's id, the key of its blocks, and the key of its footer.
PACK_ENTRY_SIZE = 3 * SECRET_SIZE


class PackKeys:
    """Keys of many packs by the pack's id, in one piece of memory."""

    def __init__(self, entries: bytes) -> None:
        """`entries`: PACK_ENTRY_SIZE bytes each, ascending."""
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries) // PACK_ENTRY_SIZE

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._entries), PACK_ENTRY_SIZE):
            yield self._entries[start : start + SECRET_SIZE]

    def get(self, pack_id: bytes) -> tuple[bytes, bytes] | None:
        """The keys of the blocks and of the footer of a pack; None when it is not among them."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            entry = self._entries[middle * PACK_ENTRY_SIZE : (middle + 1) * PACK_ENTRY_SIZE]
            found = entry[:SECRET_SIZE]
            if found == pack_id:
                return entry[SECRET_SIZE : 2 * SECRET_SIZE], entry[2 * SECRET_SIZE :]
            if found < pack_id:
                low = middle + 1
            else:
                high = middle
        return None


class TicketKey(msgspec.Struct, frozen=True):
    """Reads the packs whose keys it has.

    index_keys: of the first part of an index object, by its name. content: the content keys of the
    snapshot's client.
    """

    receiver: PutKey
    content: OwnerKeys
    packs: PackKeys
    index_keys: Mapping[str, bytes]

    can_read: ClassVar[bool] = False

    @property
    def repository_id(self) -> bytes:
        """Of the repository."""
        return self.receiver.repository_id

    @property
    def restore_public(self) -> bytes:
        """The public half of the restore key."""
        return self.receiver.restore_public

    @property
    def verify_key(self) -> bytes:
        """What the appliance's signatures are checked with."""
        return self.receiver.verify_key

    def owner(self, owner: bytes) -> OwnerKeys:
        """See `PutKey`; of the snapshot's client only those of content."""
        return self.content if owner == self.content.owner else self.receiver.owner(owner)

    def put_key(self, name: str, generation: int = 0) -> PutKey:
        """KeyRightError: a ticket only reads."""
        del name, generation
        raise KeyRightError("a restore ticket only reads")

    def has_name(self, owner: bytes, name: str, generation: int) -> bool:
        """Whether the ticket is of that client: the director has compared its name."""
        del name, generation
        return owner == self.content.owner

    def pack_key(self, header: SealedHeader, pack_id: bytes) -> bytes:
        """As of RestoreKey; KeyRightError for any other pack."""
        del header
        found = self.packs.get(pack_id)
        if found is None:
            raise KeyRightError(_NOT_IN_TICKET)
        return found[0]

    def footer_key(self, header: SealedHeader, pack_id: bytes) -> bytes:
        """See `PutKey`."""
        found = self.packs.get(pack_id)
        if found is not None:
            return found[1]
        if header.owner == self.content.owner != self.receiver.client_id:
            raise KeyRightError(_NOT_IN_TICKET)
        return self.receiver.footer_key(header, pack_id)

    def index_object_key(self, name: str, owner: bytes, prefix: bytes, label: bytes) -> bytes:
        """See `PutKey`."""
        if owner != self.content.owner or owner == self.receiver.client_id:
            # Never by a key that the ticket brings: what opens is kept for jobs that write.
            return object_key(self.receiver.owner(owner).index_key, prefix, label)
        known = self.index_keys.get(name)
        if known is None:
            raise KeyRightError(_NOT_IN_TICKET)
        return known


_NOT_IN_TICKET = (
    "the restore ticket has no key for a pack that is needed: it was made for other paths or "
    "another snapshot, or the content was moved since; ask for a new ticket"
)

Key = PutKey | ApplianceKey | RestoreKey | TicketKey
ReadingKey = RestoreKey | TicketKey


def new_restore_key() -> RestoreKey:
    """The keys of a new repository."""
    return restore_key(
        clock.random_bytes(REPOSITORY_ID_SIZE),
        clock.random_bytes(SECRET_SIZE),
        clock.random_bytes(SECRET_SIZE),
    )


def restore_key(repository_id: bytes, private: bytes, secret: bytes) -> RestoreKey:
    """A restore key from its secrets; the public half is computed."""
    return RestoreKey(repository_id, public_of(private), secret, private)


def required_restore_key(key: Key) -> RestoreKey:
    """`key` if it can read, else KeyRightError."""
    if isinstance(key, RestoreKey):
        return key
    raise KeyRightError(
        "this key can add to the repository but not read it; use the repository's passphrase"
    )


def required_appliance_key(key: Key) -> ApplianceKey:
    """`key` if it signs and knows every client's keys, else KeyRightError."""
    if isinstance(key, ApplianceKey):
        return key
    raise KeyRightError(
        "this key is one client's, and this needs the repository's passphrase or appliance key"
    )


def required_reading_key(key: Key) -> ReadingKey:
    """`key` if it can read any pack at all, else KeyRightError."""
    return key if isinstance(key, TicketKey) else required_restore_key(key)


def pack_key(shared: bytes, header: bytes, restore_public: bytes) -> bytes:
    """The key of a pack's blocks, from the secret that its public key shares with the restore key.

    The kind, cipher and owner in the header take part: a pack with the public key of another
    owner's pack has another key.
    """
    fixed, public = header[:-SECRET_SIZE], header[-SECRET_SIZE:]
    return derive_key(shared, public + restore_public, _PACK_KEY_PURPOSE + fixed)


def footer_key(keys: OwnerKeys, header: bytes) -> bytes:
    """The key of the footer of the pack with this header."""
    return blake3(_FOOTER_KEY_PURPOSE + header, key=keys.index_key).digest()
