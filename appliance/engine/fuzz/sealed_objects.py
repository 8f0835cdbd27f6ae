"""What the fuzz targets of sealed objects share: fixed keys, a store in memory, the command line.

Decoders of footers, indexes and snapshots are behind a seal, which no mutation would pass. The
targets therefore seal what the fuzzer made, with known keys, and read it as the engine does.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import atheris

with atheris.instrument_imports(include=["strongroom"]):
    from strongroom.base.errors import DamageError
    from strongroom.engine.repository.keys.roles import restore_key
    from strongroom.engine.stores.store import ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Callable

PRIVATE = bytes(range(32))
KEY = restore_key(bytes(16), PRIVATE, bytes(range(1, 33)))
# The client whose objects are read.
PUT = KEY.put_key("vault")


class OneObject:
    """As much of a store as reading one object takes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def get(self, kind: str, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """A part of the object, whatever its name. Raises DamageError."""
        end = len(self._data) if length is None else offset + length
        if offset > len(self._data) or end > len(self._data):
            raise DamageError("the object is cut off")
        return self._data[offset:end]

    def info(self, kind: str, name: str) -> ObjectInfo:
        """Its size in bytes; it was stored at no particular time."""
        return ObjectInfo(name, len(self._data), 0)


def cut(data: bytes) -> tuple[bytes, bytes]:
    """Two parts of `data`: its first four bytes say where the second begins."""
    at = 4 + int.from_bytes(data[:4], "little") % (len(data) + 1)
    return data[4:at], data[at:]


def joined(first: bytes, second: bytes) -> bytes:
    """The inverse of `cut`, for seeds."""
    return len(first).to_bytes(4, "little") + first + second


def run(check: Callable[[bytes], None], seeds: Callable[[], list[bytes]]) -> None:
    """Write the seed corpus, or fuzz."""
    if sys.argv[1:2] == ["--seeds"]:
        folder = Path(sys.argv[2])
        folder.mkdir(parents=True, exist_ok=True)
        for seed in seeds():
            (folder / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
        return
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()
