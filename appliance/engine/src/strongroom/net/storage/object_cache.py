"""Objects of a storage daemon that are kept on this machine, since they never change.

A cached object counts only when it is what its name says, so neither a damaged file nor one that
somebody else put there does any harm. A cache that can't be read or written is none: the objects
are then fetched again.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from strongroom import clock
from strongroom.content.digests import is_object_name, object_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from strongroom.stores.store import Kind


class ObjectCache:
    """Objects as files FOLDER/KIND/NAME. Safe from any thread and process."""

    def __init__(self, folder: bytes) -> None:
        self._folder = folder

    def get(self, kind: Kind, name: str) -> bytes | None:
        """The whole object, or None."""
        if not is_object_name(name):
            return None
        try:
            with open(self._path(kind, name), "rb") as file:
                data = file.read()
        except OSError:
            return None
        return data if object_name(data) == name else None

    def has(self, kind: Kind, name: str) -> bool:
        """Whether it may be there; it is verified when it is read."""
        return is_object_name(name) and os.path.exists(self._path(kind, name))

    def put(self, kind: Kind, name: str, data: bytes) -> None:
        """Keep the whole object, if it is what its name says."""
        if not is_object_name(name) or object_name(data) != name:
            return
        path = self._path(kind, name)
        temporary = path + b"." + clock.random_bytes(6).hex().encode()
        # The cache only saves time: a full disk must not end a backup.
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            try:
                with open(temporary, "xb") as file:
                    file.write(data)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)

    def keep_only(self, kind: Kind, names: Collection[str]) -> None:
        """Remove what is not among `names`: the daemon does not have it any more."""
        folder = os.path.join(self._folder, kind.encode())
        with contextlib.suppress(OSError):
            for entry in os.listdir(folder):
                if os.fsdecode(entry) not in names and b"." not in entry:
                    os.unlink(os.path.join(folder, entry))

    def _path(self, kind: Kind, name: str) -> bytes:
        return os.path.join(self._folder, kind.encode(), name.encode())
