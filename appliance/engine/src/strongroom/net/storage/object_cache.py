"""A cache on this machine for objects of a storage daemon, which never change.

A cached object is used only if its content matches its name, so a damaged or forged file does no
harm. If the cache can't be read or written, it is ignored and the objects are fetched again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection

from strongroom.base import clock
from strongroom.engine.content.digests import is_object_name, object_name
from strongroom.engine.repository.cache_folder import keep_to_limit
from strongroom.engine.stores.store import Kind


class ObjectCache:
    """Objects as files FOLDER/KIND/NAME. Safe from any thread and process."""

    def __init__(self, folder: bytes) -> None:
        self._folder = folder
        self._has_written = False

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
        """Whether it may be cached; it is verified when it is read."""
        return is_object_name(name) and os.path.exists(self._path(kind, name))

    def put(self, kind: Kind, name: str, data: bytes) -> None:
        """Cache the whole object, if its content matches its name."""
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
                self._has_written = True
            except OSError:
                os.unlink(temporary)

    def keep_only(self, kind: Kind, names: Collection[str]) -> None:
        """Remove everything not among `names`: the daemon does not have it any more."""
        folder = os.path.join(self._folder, kind.encode())
        with contextlib.suppress(OSError):
            for entry in os.listdir(folder):
                if os.fsdecode(entry) not in names and b"." not in entry:
                    os.unlink(os.path.join(folder, entry))

    def close(self) -> None:
        """Keep the cache folder of which this is a part, FOLDER/storage/NAME, below its limit."""
        if self._has_written:
            self._has_written = False
            keep_to_limit(os.path.dirname(os.path.dirname(self._folder)))

    def _path(self, kind: Kind, name: str) -> bytes:
        return os.path.join(self._folder, kind.encode(), name.encode())
