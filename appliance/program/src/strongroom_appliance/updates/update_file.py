"""The update file: a tar file with a manifest, its signature and a root.

In this order, so that it is read once, from a file or while it arrives: `manifest.json`,
`manifest.sig` (Ed25519, 64 bytes, of the manifest's bytes) and `root.zst` (the file system of a
root, compressed). The manifest has size and SHA-256 of what is in `root.zst`; nothing of a file is
used before its manifest was found to be signed.

It comes from a file or a web server. The server is not trusted: whatever it sends must be signed.
So plain HTTP will do.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Annotated, Final, Literal, cast

import httpx
import msgspec
import zstandard
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from strongroom.base.errors import (
    ConnectionLostError,
    DamageError,
    RefusedError,
    os_errors,
)
from strongroom.base.printable import printable
from strongroom_appliance.updates.slots import IMAGE_FOLDER

KEY_FILE: Final = f"{IMAGE_FOLDER}/update-key.pem"
_MOST_BYTES: Final = 64 << 10
_SIGNATURE_BYTES: Final = 64
_MOST_ROOT_BYTES: Final = 64 << 30
# Heads of members, manifest and signature: what is read that is not signed, or not yet.
_MOST_HEAD_BYTES: Final = 1 << 20
_SCHEMES: Final = ("http://", "https://")
_TIMEOUT_SECONDS: Final = 60
_BUFFER_BYTES: Final = 1 << 20
_OK: Final = 200


@contextmanager
def opened_source(place: str) -> Iterator[IO[bytes]]:
    """A stream. Raises UsageError, ConnectionLostError."""
    if not place.startswith(_SCHEMES):
        with os_errors(f"cannot read {printable(place)}"):
            file = open(place, "rb")  # noqa: SIM115 - closed below
        with file:
            yield file
        return
    try:
        with httpx.stream("GET", place, timeout=_TIMEOUT_SECONDS, follow_redirects=True) as answer:
            if answer.status_code != _OK:
                raise ConnectionLostError(
                    f"{printable(place)}: the server answered {answer.status_code}; is the address "
                    "right?"
                )
            # As it is stored: a server may call what it sends compressed.
            yield io.BufferedReader(_Body(answer), _BUFFER_BYTES)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConnectionLostError(
            f"{printable(place)} cannot be fetched: {printable(str(error), 200)}"
        ) from error


class _Body(io.RawIOBase):
    """What arrives, as a file."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self._pieces = answer.iter_raw()
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is signed. image: id of the root. bytes, sha256: of its file system."""

    type: Literal["strongroom-update"]
    version: Annotated[str, msgspec.Meta(min_length=1, max_length=60)]
    image: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,15}-[0-9a-f]{1,64}$")]
    bytes: Annotated[int, msgspec.Meta(gt=0, le=_MOST_ROOT_BYTES)]
    sha256: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class Update:
    """An update whose manifest is signed; its root is still to be read."""

    def __init__(
        self, manifest: Manifest, archive: tarfile.TarFile, stream: _Bounded, name: str
    ) -> None:
        self.manifest = manifest
        self._archive = archive
        self._stream = stream
        self._name = name

    @contextmanager
    def root(self) -> Iterator[IO[bytes]]:
        """The file system, decompressed while it is read; not compared with anything yet."""
        packed = _member(self._archive, "root.zst", self._name)
        # Its size is in the manifest, and anyone who reads stops there.
        self._stream.is_bounded = False
        reader = zstandard.ZstdDecompressor(max_window_size=128 << 20).stream_reader(
            packed, read_across_frames=True
        )
        with reader:
            yield reader


class _Bounded:
    """A stream of which only so much is read: a head may announce gigabytes of names."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.is_bounded = True
        self._stream = stream
        self._name = name
        self._left = _MOST_HEAD_BYTES

    def read(self, size: int) -> bytes:
        """Up to `size` bytes. Raises DamageError."""
        data = self._stream.read(size)
        self._left -= len(data)
        if self.is_bounded and self._left < 0:
            raise DamageError(
                f"{printable(self._name)} is not an update file: its heads are too large"
            )
        return data


@contextmanager
def opened_update(stream: IO[bytes], name: str) -> Iterator[Update]:
    """Read as far as the signature. Raises RefusedError, DamageError.

    name: of the file, for messages.
    """
    try:
        bounded = _Bounded(stream, name)
        with tarfile.open(fileobj=cast("IO[bytes]", bounded), mode="r|") as archive:
            text = _small(archive, "manifest.json", name)
            signature = _small(archive, "manifest.sig", name)
            _check_signature(text, signature, name)
            try:
                manifest = msgspec.json.decode(text, type=Manifest)
            except msgspec.MsgspecError as error:
                raise DamageError(
                    f"{printable(name)} is signed, but is not an update of an appliance: {error}"
                ) from error
            yield Update(manifest, archive, bounded, name)
    except (tarfile.TarError, EOFError, zstandard.ZstdError) as error:
        raise DamageError(
            f"{printable(name)} is not a whole update file ({printable(str(error), 80)}); download "
            "it again"
        ) from error


def _member(archive: tarfile.TarFile, wanted: str, name: str) -> IO[bytes]:
    member = archive.next()
    found = archive.extractfile(member) if member is not None and member.isreg() else None
    if member is None or found is None or member.name != wanted:
        raise DamageError(f"{printable(name)} is not an update file: it has no {wanted}")
    return found


def _small(archive: tarfile.TarFile, wanted: str, name: str) -> bytes:
    data = _member(archive, wanted, name).read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise DamageError(f"{printable(name)} is not an update file: {wanted} is too large")
    return data


def _check_signature(text: bytes, signature: bytes, name: str) -> None:
    """Raises RefusedError unless the key of this image has signed."""
    try:
        with open(KEY_FILE, "rb") as file:
            key = load_pem_public_key(file.read(_MOST_BYTES))
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise RefusedError(
            f"this image has no key for updates in {KEY_FILE}, so it accepts no updates"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise RefusedError(f"{KEY_FILE} is not an Ed25519 key, so this image accepts no updates")
    try:
        if len(signature) != _SIGNATURE_BYTES:
            raise InvalidSignature
        key.verify(signature, text)
    except InvalidSignature as error:
        raise RefusedError(
            f"{printable(name)} is not signed by the key of this image; nothing was changed. Use "
            "the update file of the image's maker"
        ) from error
