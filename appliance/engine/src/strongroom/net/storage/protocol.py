"""The protocol of the storage daemon: types of frames and their headers.

A client sends HELLO first. The requests of a connection are done one after the other and answered
in that order, each by one OK or FAILED frame, before which PART frames bring data. DATA and ABORT
are not answered: a failure of an upload is the answer to its COMMIT. So a client may send any
number of requests before it reads, as long as one of its threads reads. A request with FLAG_MORE is
one of a series, which the first without ends: when one of them fails, those after it are not done,
and are answered by the same error.

HELLO   Hello           -> Welcome       the identity was established by the channel
    LIST    kind            -> PARTs: msgpack of [[name, size, modified_ns], ...]
    GET     ObjectPart      -> PARTs: the bytes
    INFO    ObjectName      -> [name, size, modified_ns]
    PUT     PutObject, the bytes -> whether the name was free
    DATA    UploadData, some bytes of an object that is streamed; the first begins it
    COMMIT  CommitUpload    -> whether the name was free
    ABORT   upload number
    DELETE  ObjectName, SYNC, PREPARE, REMOVE_ABANDONED
    UNVERIFIED kind            -> PARTs: msgpack of names that the appliance has not verified
    FALSE   kind            -> PARTs: msgpack of names that were found false
    VOUCH   Verdicts        the appliance's verdict on objects: verified, or false
    METRICS                 -> PART: text for Prometheus
    OWNERS  kind            -> PARTs: msgpack of [[name, who stored it], ...], "" for the appliance
    PROBE   Probe, bytes to discard -> PARTs: as many bytes as were asked for; measures the way
    CHARGE  SharedCharge    what counts against a client's quota besides what it holds
"""

from __future__ import annotations

import enum
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec

from strongroom.base import decoding
from strongroom.base.errors import ProtocolError
from strongroom.engine.content.digests import is_object_name
from strongroom.engine.stores.store import Kind, ObjectInfo

PROTOCOL_VERSION = 1
# How many bytes of an object go into one frame.
LARGEST_PART_BYTES = 8 << 20
UPLOAD_PART_BYTES = 1 << 20
# Objects whose name is the digest of their bytes, which the daemon recomputes.
DIGESTED_KINDS: frozenset[Kind] = frozenset(
    ("packs", "index", "snapshots", "keys", "tombstones", "tickets")
)
LISTED_AT_ONCE = 16384

# put: the same object there already is fine. new: an object of that name is left alone.
# durable: on stable storage when answered. replace: replaces the object of that name.
# publish: as put, but on stable storage only after a sync.
PutMode = Literal["put", "new", "durable", "replace", "publish"]


class FrameType(enum.IntEnum):
    """Requests below 128, answers above."""

    HELLO = 1
    LIST = 2
    GET = 3
    INFO = 4
    PUT = 5
    DATA = 6
    COMMIT = 7
    ABORT = 8
    DELETE = 9
    SYNC = 10
    PREPARE = 11
    REMOVE_ABANDONED = 12
    UNVERIFIED = 14
    VOUCH = 15
    METRICS = 16
    OWNERS = 17
    CONFIRM_CLOCK = 18
    CHARGE = 19
    FALSE = 20
    PROBE = 21
    OK = 128
    PART = 129
    FAILED = 130


class Header(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of all headers."""


class StorageHello(Header, frozen=True):
    """The first request.

    repository: name of the device or id of the repository, "" for the only one. job: connections
    of one peer and job share a bandwidth limit; over ssh it is a secret, by which a connection made
    anew is known. grant: statement that allows reading another's
    snapshot. view_as: see what the client of this id, in hexadecimal, sees (director and local
    only).
    """

    protocol: int
    repository: str = ""
    job: str = ""
    grant: str = ""
    view_as: str = ""


class StorageWelcome(Header, frozen=True):
    """role: the peer's role for the daemon. most_uploads: how many may be open at once."""

    protocol: int
    role: str
    most_uploads: int


class ObjectName(Header, frozen=True):
    """An object."""

    kind: Kind
    name: str


class ObjectPart(Header, frozen=True):
    """`length` bytes of an object from `offset` on; None: all of the rest."""

    kind: Kind
    name: str
    offset: int
    length: int | None


class PutObject(Header, frozen=True):
    """A small object, whole in the payload."""

    kind: Kind
    name: str
    mode: PutMode


class UploadData(Header, frozen=True):
    """More of upload `number` (the client's choice) of an object of a kind."""

    number: int
    kind: Kind


class CommitUpload(Header, frozen=True):
    """An upload was sent completely; this is its name."""

    number: int
    name: str
    mode: PutMode


class Verdicts(Header, frozen=True):
    """Objects of a kind that were verified, or found false: those are hidden from everybody."""

    kind: Kind
    names: tuple[str, ...]
    sound: bool


class SharedCharge(Header, frozen=True):
    """The bytes that shared packs hold in place of a client, which is named by its id."""

    client: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class Probe(Header, frozen=True):
    """Discard the payload and answer with bytes that mean nothing."""

    answer_bytes: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_PART_BYTES)]


class RequestFailure(Header, frozen=True):
    """Why a request was not done; `error_id` as in strongroom.base.errors."""

    error_id: str
    message: str


# A daemon may say anything: numbers are those of files, names are checked where they are used.
_Name = Annotated[str, msgspec.Meta(max_length=255)]
_Value = TypeVar("_Value")


class _InfoRow(NamedTuple):
    name: _Name
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    modified_ns: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


def encode(header: object) -> bytes:
    """A header as msgpack."""
    return msgspec.msgpack.encode(header)


def decode(data: bytes | memoryview, wanted: type[_Value]) -> _Value:
    """The header of a frame of a type. Raises ProtocolError."""
    return decoding.decode(data, wanted, "the header of a frame", ProtocolError)


def decode_infos(data: bytes | memoryview) -> list[ObjectInfo]:
    """Listed objects. Raises ProtocolError."""
    return [ObjectInfo(*row) for row in decode(data, list[_InfoRow])]


def decode_info(data: bytes | memoryview) -> ObjectInfo:
    """One object. Raises ProtocolError."""
    return ObjectInfo(*decode(data, _InfoRow))


def decode_names(kind: Kind, data: bytes | memoryview) -> list[str]:
    """Names of objects, without those that no object of a kind has. Raises ProtocolError."""
    names: list[str] = decode(data, list[_Name])
    return list(filter(is_object_name, names)) if kind in DIGESTED_KINDS else names
